-- Of attempts that have ended and recorded many spans, the steps of a timeline keep theirs; and the steps at which a loss is
-- extreme or not finite, which a curve shows beside its evenly spaced ones.

PRAGMA user_version = 14;

-- Steps of the compute lanes that recorded spans; NULL where all of them are kept.
ALTER TABLE attempt ADD COLUMN traced_steps INTEGER CHECK (traced_steps >= 0);

CREATE TABLE loss_extreme (
    attempt INTEGER NOT NULL REFERENCES attempt (id),
    step    INTEGER NOT NULL,                        -- of the compute lanes
    PRIMARY KEY (attempt, step)
) STRICT, WITHOUT ROWID;
