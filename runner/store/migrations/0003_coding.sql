-- What coding saved on each lane, and what it lost.

PRAGMA user_version = 3;

CREATE TABLE coding (
    attempt       INTEGER NOT NULL,
    rank          INTEGER NOT NULL,
    lane          INTEGER NOT NULL,
    bytes         INTEGER NOT NULL,              -- payload that was sent, as it travelled
    raw_bytes     INTEGER NOT NULL,              -- the same as 32-bit floats
    squared       REAL NOT NULL,                 -- squared length of what was encoded in the steps that keep spans
    squared_error REAL NOT NULL,                 -- squared length of what decoding that does not give back
    PRIMARY KEY (attempt, rank, lane),
    FOREIGN KEY (attempt, rank) REFERENCES rank (attempt, rank)
) STRICT, WITHOUT ROWID;
