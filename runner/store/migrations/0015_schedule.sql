-- Which layers' gradients travelled together, and when.

PRAGMA user_version = 15;

CREATE TABLE schedule (
    attempt INTEGER PRIMARY KEY REFERENCES attempt (id),
    record  TEXT NOT NULL                            -- JSON: the last one that rank 0 recorded
) STRICT;
