-- The ranks that must end with equal weights, as the strategy says it.

PRAGMA user_version = 21;

-- Number of the set; NULL for a rank with weights of its own, and where it was not recorded.
ALTER TABLE rank ADD COLUMN replica_group INTEGER;
