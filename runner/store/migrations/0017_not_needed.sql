-- The state of a run that was never begun, because what its sweep asks was decided without it.

PRAGMA user_version = 17;

-- A new word in a CHECK changes no row: see version 5.
PRAGMA writable_schema = ON;
UPDATE sqlite_schema SET sql = replace(sql, '(''pending'', ''running''', '(''pending'', ''not-needed'', ''running''')
WHERE type = 'table' AND name = 'run';
PRAGMA writable_schema = RESET;
