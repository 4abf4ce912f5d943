-- Which evaluations a run is judged by, and the digest of what was put aside.

PRAGMA user_version = 6;

ALTER TABLE metric ADD COLUMN judged INTEGER NOT NULL DEFAULT 1 CHECK (judged IN (0, 1));

ALTER TABLE artifact ADD COLUMN sha256 TEXT;
