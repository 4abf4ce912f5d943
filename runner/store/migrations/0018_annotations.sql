-- What users call a sweep and say of it, and which sweeps were made elsewhere.

PRAGMA user_version = 18;

CREATE TABLE tag (
    sweep INTEGER NOT NULL REFERENCES sweep (id),
    name  TEXT NOT NULL,
    PRIMARY KEY (sweep, name)
) STRICT, WITHOUT ROWID;

ALTER TABLE sweep ADD COLUMN note TEXT NOT NULL DEFAULT '';

-- When a sweep of another store was imported; NULL of those that were made here.
ALTER TABLE sweep ADD COLUMN imported_unix INTEGER;
