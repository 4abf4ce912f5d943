-- Ranks without which a run went on, and the state of a run that ended as planned, but without all of its ranks.

PRAGMA user_version = 5;

CREATE TABLE loss (
    attempt INTEGER NOT NULL,
    rank    INTEGER NOT NULL,
    step    INTEGER NOT NULL CHECK (step >= 0),      -- the rank's step that did not come; 0 where it is not known
    at      INTEGER NOT NULL CHECK (at >= 0),        -- when that was noticed
    reason  TEXT NOT NULL,
    PRIMARY KEY (attempt, rank),
    FOREIGN KEY (attempt, rank) REFERENCES rank (attempt, rank)
) STRICT, WITHOUT ROWID;

-- A new word in a CHECK changes no row, so that the text of the schema may be changed in place, in the same
-- transaction (https://www.sqlite.org/lang_altertable.html, "Making Other Kinds Of Table Schema Changes"). Tables that
-- others refer to would else have to be made again without foreign keys.
PRAGMA writable_schema = ON;
UPDATE sqlite_schema SET sql = replace(sql, '''done'', ''diverged''', '''done'', ''degraded'', ''diverged''')
WHERE type = 'table' AND name IN ('run', 'attempt');
PRAGMA writable_schema = RESET;
