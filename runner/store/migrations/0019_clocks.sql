-- By how much a machine's clock may differ from the driver's.

PRAGMA user_version = 19;

-- Nanoseconds at most; NULL for the driver's own machine, and where it was not recorded.
ALTER TABLE host ADD COLUMN clock_error INTEGER;
