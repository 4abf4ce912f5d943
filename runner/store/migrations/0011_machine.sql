-- What the machines did while a run trained, and the block means of its step time.

PRAGMA user_version = 11;

-- Counters since the machine started, read at some moments; NULL where the machine does not report them.
CREATE TABLE host (
    attempt          INTEGER NOT NULL REFERENCES attempt (id),
    node             INTEGER NOT NULL CHECK (node >= 0),     -- position in the run's cluster
    at               INTEGER NOT NULL CHECK (at >= 0),       -- on the clock of the run
    cores            INTEGER NOT NULL CHECK (cores > 0),     -- that the run may use
    busy             INTEGER NOT NULL,                       -- nanoseconds of these cores, everything
    steal            INTEGER NOT NULL,                       -- nanoseconds of these cores, the hypervisor
    own              INTEGER NOT NULL,                       -- nanoseconds, the run and the driver
    cpu_pressure     INTEGER,                                -- nanoseconds in which some task waited for a core
    memory_pressure  INTEGER,
    load             REAL,
    frequency        INTEGER,                                -- kHz
    governor         TEXT,
    memory_available INTEGER,                                -- bytes
    PRIMARY KEY (attempt, node, at)
) STRICT, WITHOUT ROWID;

-- The steady steps of an attempt in a few blocks of equal length, in order: how much its step time varies within it.
CREATE TABLE block (
    attempt INTEGER NOT NULL REFERENCES attempt (id),
    number  INTEGER NOT NULL CHECK (number >= 0),
    steps   INTEGER NOT NULL CHECK (steps > 0),              -- of the slowest worker, or of each on average
    length  INTEGER NOT NULL CHECK (length > 0),             -- mean of a step, in nanoseconds
    PRIMARY KEY (attempt, number)
) STRICT, WITHOUT ROWID;
