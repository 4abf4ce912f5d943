-- The values of a sweep's keys, by which runs are selected. Sweeps of earlier versions have none.

PRAGMA user_version = 20;

CREATE TABLE key_value (
    id     INTEGER PRIMARY KEY,          -- in the order of the plan
    sweep  INTEGER NOT NULL REFERENCES sweep (id),
    arm    INTEGER,                      -- index of the arm whose cells have it; NULL for those of all arms
    cell   INTEGER,                      -- position of the only cell that has it; NULL for all of the sweep or the arm
    path   TEXT NOT NULL,
    text   TEXT NOT NULL,
    number REAL
) STRICT;
CREATE INDEX key_value_by_path ON key_value (sweep, path, cell, arm);
