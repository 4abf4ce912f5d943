-- Where a sweep's driver runs, and when it was last heard of: a process number means nothing on another machine, or in
-- another container.

PRAGMA user_version = 12;

ALTER TABLE sweep ADD COLUMN driver_host TEXT NOT NULL DEFAULT '';     -- the machine's name; empty where it is not known
ALTER TABLE sweep ADD COLUMN driver_space TEXT NOT NULL DEFAULT '';    -- the space of process numbers, as the kernel names it
ALTER TABLE sweep ADD COLUMN heartbeat_unix INTEGER;                   -- the driver was alive

-- Statistics of a database with one sweep lead the planner to read whole tables of one with thousands; without any, it uses
-- the keys, which every query is written for.
ANALYZE phase;
DROP TABLE IF EXISTS sqlite_stat1;
DROP TABLE IF EXISTS sqlite_stat4;
