-- What a worker's memory and time were used for; NULL in runs recorded before, and of servers.

PRAGMA user_version = 16;

ALTER TABLE rank ADD COLUMN held_weights     INTEGER; -- bytes
ALTER TABLE rank ADD COLUMN held_gradients   INTEGER;
ALTER TABLE rank ADD COLUMN held_optimizer   INTEGER;
ALTER TABLE rank ADD COLUMN held_activations INTEGER;
ALTER TABLE rank ADD COLUMN resident_at_end  INTEGER;
ALTER TABLE rank ADD COLUMN exchanging       INTEGER; -- nanoseconds, of all steps of the attempt
ALTER TABLE rank ADD COLUMN exchanging_steps INTEGER;
