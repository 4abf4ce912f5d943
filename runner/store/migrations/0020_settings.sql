-- The values of a sweep's keys that are no axes, by which runs are selected. Sweeps of earlier versions have none.

PRAGMA user_version = 20;

CREATE TABLE setting (
    id     INTEGER PRIMARY KEY,          -- in the order of the plan
    sweep  INTEGER NOT NULL REFERENCES sweep (id),
    arm    INTEGER,                      -- of the cells that have it; NULL for those of all arms
    cell   INTEGER REFERENCES cell (id), -- the only cell that has it; NULL for all of the sweep or the arm
    path   TEXT NOT NULL,
    text   TEXT NOT NULL,
    number REAL
) STRICT;
CREATE INDEX setting_by_path ON setting (sweep, path);
