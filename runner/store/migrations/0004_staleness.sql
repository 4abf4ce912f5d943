-- How stale gradients were, who averaged with whom, and how much communication was hidden behind computing.

PRAGMA user_version = 4;

CREATE TABLE staleness (
    attempt   INTEGER NOT NULL,
    server    INTEGER NOT NULL,
    worker    INTEGER NOT NULL,
    staleness INTEGER NOT NULL CHECK (staleness >= 0),   -- updates between the weights that a gradient was computed
                                                         -- with and those that it was applied to
    count     INTEGER NOT NULL CHECK (count > 0),        -- gradients of the worker that were as stale
    PRIMARY KEY (attempt, server, worker, staleness),
    FOREIGN KEY (attempt, server) REFERENCES rank (attempt, rank),
    FOREIGN KEY (attempt, worker) REFERENCES rank (attempt, rank)
) STRICT, WITHOUT ROWID;

CREATE TABLE averaging (
    attempt INTEGER NOT NULL,
    rank    INTEGER NOT NULL,                            -- the active one, which asked for it
    peer    INTEGER NOT NULL,
    count   INTEGER NOT NULL CHECK (count > 0),
    PRIMARY KEY (attempt, rank, peer),
    FOREIGN KEY (attempt, rank) REFERENCES rank (attempt, rank),
    FOREIGN KEY (attempt, peer) REFERENCES rank (attempt, rank)
) STRICT, WITHOUT ROWID;

-- Communication of a rank's other lanes while its compute lane neither communicated nor waited; 0 of other lanes.
ALTER TABLE step ADD COLUMN hidden INTEGER NOT NULL DEFAULT 0 CHECK (hidden >= 0);

-- The sum over the steady steps of the compute lane.
ALTER TABLE rank ADD COLUMN hidden INTEGER;
