-- Of attempts that have ended, every n-th step is kept and the slowest ones, and of all steady steps how often each length
-- and each time in a phase occurred.

PRAGMA user_version = 13;

-- Every n-th step of the compute lanes is kept, counted back from the last; NULL where each is.
ALTER TABLE attempt ADD COLUMN step_stride INTEGER CHECK (step_stride > 1);

CREATE TABLE step_histogram (
    attempt INTEGER NOT NULL,
    rank    INTEGER NOT NULL,
    lane    INTEGER NOT NULL CHECK (lane >= 0),
    phase   INTEGER NOT NULL CHECK (phase >= -1),    -- -1 for the length of the step
    counts  BLOB NOT NULL,                           -- pairs of LEB128 numbers: cells since the last pair's, and steps in it
    PRIMARY KEY (attempt, rank, lane, phase),
    FOREIGN KEY (attempt, rank) REFERENCES rank (attempt, rank)
) STRICT, WITHOUT ROWID;
