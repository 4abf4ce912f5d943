-- Whether a rank ended with a model, beside whether the run did: of a rank that was stopped or lost, the last copy is no final
-- model. It is not known of runs before; `db rebuild` learns it from their event logs.

PRAGMA user_version = 9;

ALTER TABLE artifact ADD COLUMN ended INTEGER NOT NULL DEFAULT 0;
