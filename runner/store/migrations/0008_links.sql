-- A link does not know what was encoded: it held the same number twice. What coding saves is in `coding`.

PRAGMA user_version = 8;

ALTER TABLE link DROP COLUMN raw_bytes;
