-- How well each rank kept what it pretends: how much later than they should have, things happened.

PRAGMA user_version = 2;

CREATE TABLE emulation (
    attempt  INTEGER NOT NULL,
    rank     INTEGER NOT NULL,
    what     TEXT NOT NULL CHECK (what IN ('network', 'compute')),
    count    INTEGER NOT NULL CHECK (count > 0),     -- messages kept back, or pieces of work
    p50      INTEGER NOT NULL,
    p95      INTEGER NOT NULL,
    max      INTEGER NOT NULL,
    steps    INTEGER NOT NULL,                       -- that computed; 0 for a network
    overruns INTEGER NOT NULL CHECK (overruns <= steps),
    longest  INTEGER NOT NULL,                       -- the most that a step's real arithmetic took too long
    PRIMARY KEY (attempt, rank, what),
    FOREIGN KEY (attempt, rank) REFERENCES rank (attempt, rank)
) STRICT, WITHOUT ROWID;
