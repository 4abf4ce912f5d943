-- Who held whom up, and how fast bytes moved between any two ranks.

PRAGMA user_version = 7;

-- Rounds in which the workers were compared; 0 where each goes at its own pace. A round is a step, or the steps up to an
-- exchange and with it.
ALTER TABLE attempt ADD COLUMN rounds INTEGER;

-- Of workers alone: the median over the steady steps of the time in which the compute lane did not wait; rounds in which
-- it was the last one; and for how long it made the others wait in them, all together.
ALTER TABLE rank ADD COLUMN own INTEGER;
ALTER TABLE rank ADD COLUMN last INTEGER;
ALTER TABLE rank ADD COLUMN imposed INTEGER;

-- Payload in the steps that keep their spans, as the receiver saw it.
CREATE TABLE transfer (
    attempt   INTEGER NOT NULL,
    src       INTEGER NOT NULL,
    dst       INTEGER NOT NULL,
    bytes     INTEGER NOT NULL,              -- of messages that the receiver already waited for when they began to come
    time      INTEGER NOT NULL,
    cut_bytes INTEGER NOT NULL,              -- of those whose beginning it did not see
    cut_time  INTEGER NOT NULL,              -- what it saw of them: no more than they took
    PRIMARY KEY (attempt, src, dst),
    FOREIGN KEY (attempt, src) REFERENCES rank (attempt, rank),
    FOREIGN KEY (attempt, dst) REFERENCES rank (attempt, rank)
) STRICT, WITHOUT ROWID;
