-- What runs leave behind: sweeps, cells, runs, attempts, and everything measured in them.
--
-- Immutable once released. Times called *_unix are whole seconds since 1970; all others are integer nanoseconds,
-- as lengths or counted from the start of the run. Lane 0 computes, lane n + 1 is service n. SQLite has no NaN: such
-- a value is NULL with is_finite = 0.

PRAGMA application_id = 1111575365; -- "BAKE"
PRAGMA user_version = 1;

CREATE TABLE recipe (
    id     INTEGER PRIMARY KEY,
    sha256 TEXT NOT NULL UNIQUE CHECK (length(sha256) = 64),
    source TEXT NOT NULL
) STRICT;

CREATE TABLE sweep (
    id           INTEGER PRIMARY KEY,
    ulid         TEXT NOT NULL UNIQUE CHECK (length(ulid) = 26),
    recipe       INTEGER NOT NULL REFERENCES recipe (id),
    recipe_path  TEXT NOT NULL,
    name         TEXT NOT NULL,
    question     TEXT NOT NULL,
    plan         TEXT NOT NULL,          -- JSON, without source, cells and runs: those have rows
    argv         TEXT NOT NULL,          -- JSON list
    version      TEXT NOT NULL,
    git_commit   TEXT,
    git_dirty    INTEGER CHECK (git_dirty IN (0, 1)),
    state        TEXT NOT NULL CHECK (state IN ('running', 'done', 'interrupted')),
    started_unix INTEGER NOT NULL,
    ended_unix   INTEGER,
    driver_pid   INTEGER NOT NULL,
    driver_born  TEXT NOT NULL           -- tells the driver's process from a later one with the same number
) STRICT;

CREATE TABLE config (
    id     INTEGER PRIMARY KEY,
    sha256 TEXT NOT NULL UNIQUE CHECK (length(sha256) = 64),
    spec   TEXT NOT NULL                 -- canonical JSON of everything that reaches a worker
) STRICT;

CREATE TABLE cell (
    id        INTEGER PRIMARY KEY,
    sweep     INTEGER NOT NULL REFERENCES sweep (id),
    position  INTEGER NOT NULL,
    arm       INTEGER NOT NULL,
    arm_name  TEXT NOT NULL,
    strategy  TEXT NOT NULL,
    condition TEXT NOT NULL,
    label     TEXT NOT NULL,
    workers   INTEGER NOT NULL,
    config    INTEGER NOT NULL REFERENCES config (id),
    excluded  TEXT,
    UNIQUE (sweep, position)
) STRICT;

CREATE TABLE cell_axis (
    cell     INTEGER NOT NULL REFERENCES cell (id),
    position INTEGER NOT NULL,
    path     TEXT NOT NULL,
    text     TEXT NOT NULL,
    number   REAL,
    PRIMARY KEY (cell, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE run (
    id            INTEGER PRIMARY KEY,
    ulid          TEXT NOT NULL UNIQUE CHECK (length(ulid) = 26),
    sweep         INTEGER NOT NULL REFERENCES sweep (id),
    cell          INTEGER NOT NULL REFERENCES cell (id),
    position      INTEGER NOT NULL,      -- order in the plan
    repeat        INTEGER NOT NULL,
    seed          TEXT NOT NULL,         -- decimal: it may exceed 2^63
    state         TEXT NOT NULL DEFAULT 'pending' CHECK (state IN
                  ('pending', 'running', 'done', 'diverged', 'failed', 'timed-out', 'interrupted')),
    identity_hash TEXT CHECK (length(identity_hash) = 64),
    reused_from   INTEGER REFERENCES run (id),
    UNIQUE (sweep, position)
) STRICT;
CREATE INDEX run_by_identity ON run (identity_hash, state);
CREATE INDEX run_by_cell ON run (cell);

CREATE TABLE node (
    id          INTEGER PRIMARY KEY,
    fingerprint TEXT NOT NULL UNIQUE CHECK (length(fingerprint) = 64),
    name        TEXT NOT NULL,
    host        TEXT NOT NULL,
    system      TEXT NOT NULL,
    processor   TEXT NOT NULL,
    cores       INTEGER NOT NULL,
    memory      INTEGER NOT NULL
) STRICT;

CREATE TABLE attempt (
    id             INTEGER PRIMARY KEY,
    run            INTEGER NOT NULL REFERENCES run (id),
    number         INTEGER NOT NULL CHECK (number >= 1),
    started_unix   INTEGER NOT NULL,
    heartbeat_unix INTEGER NOT NULL,
    state          TEXT NOT NULL DEFAULT 'running' CHECK (state IN
                   ('running', 'done', 'diverged', 'failed', 'timed-out', 'interrupted')),
    detail         TEXT NOT NULL DEFAULT '',
    culprit        INTEGER,
    last_lines     TEXT NOT NULL DEFAULT '[]',   -- JSON list
    wall           INTEGER,
    training       INTEGER,              -- from here on: derived from the steps when the attempt ends
    step_time      INTEGER,
    steps          INTEGER,
    samples        INTEGER,
    UNIQUE (run, number)
) STRICT;

CREATE TABLE event (
    id        INTEGER PRIMARY KEY,
    attempt   INTEGER NOT NULL REFERENCES attempt (id),
    time_unix INTEGER NOT NULL,
    state     TEXT NOT NULL,
    text      TEXT NOT NULL
) STRICT;
CREATE INDEX event_by_attempt ON event (attempt);

CREATE TABLE rank (
    attempt          INTEGER NOT NULL REFERENCES attempt (id),
    rank             INTEGER NOT NULL CHECK (rank >= 0),
    role             TEXT NOT NULL CHECK (role IN ('worker', 'server')),
    node             INTEGER NOT NULL REFERENCES node (id),
    pid              INTEGER,            -- from here on: when it was prepared
    threads          INTEGER,
    training_samples INTEGER,
    parameters       INTEGER,
    data_digest      TEXT,
    initial_weights  TEXT,
    resident_bytes   INTEGER,
    recording        INTEGER,            -- when it had finished
    wall             INTEGER,
    end_kind         TEXT CHECK (end_kind IN ('finished', 'stopped', 'diverged', 'failed')),
    end_text         TEXT,
    exposed          INTEGER,            -- from here on: derived from the steps when the attempt ends
    steady           INTEGER,
    steady_steps     INTEGER,
    bytes_out        INTEGER,
    bytes_in         INTEGER,
    PRIMARY KEY (attempt, rank)
) STRICT, WITHOUT ROWID;

CREATE TABLE phase (
    id       INTEGER PRIMARY KEY,
    name     TEXT NOT NULL UNIQUE,
    category TEXT NOT NULL CHECK (category IN ('compute', 'communication', 'waiting', 'rest'))
) STRICT;
INSERT INTO phase (id, name, category) VALUES
    (0, 'data', 'compute'), (1, 'forward', 'compute'), (2, 'backward', 'compute'), (3, 'copy', 'compute'),
    (4, 'encode', 'communication'), (5, 'send', 'communication'), (6, 'wait-peer', 'waiting'),
    (7, 'wait-lane', 'waiting'), (8, 'transfer', 'communication'), (9, 'decode', 'communication'),
    (10, 'reduce', 'communication'), (11, 'update', 'compute'), (12, 'snapshot', 'rest'), (13, 'other', 'rest');

-- Steady steps only.
CREATE TABLE phase_total (
    attempt INTEGER NOT NULL,
    rank    INTEGER NOT NULL,
    lane    INTEGER NOT NULL CHECK (lane >= 0),
    phase   INTEGER NOT NULL REFERENCES phase (id),
    count   INTEGER NOT NULL CHECK (count > 0),
    total   INTEGER NOT NULL,
    p50     INTEGER NOT NULL,
    p95     INTEGER NOT NULL,
    max     INTEGER NOT NULL,
    PRIMARY KEY (attempt, rank, lane, phase),
    FOREIGN KEY (attempt, rank) REFERENCES rank (attempt, rank)
) STRICT, WITHOUT ROWID;

-- The key's order lets all ranks append at one place of the tree, and lets a chart skip from step to step.
CREATE TABLE step (
    attempt     INTEGER NOT NULL,
    lane        INTEGER NOT NULL CHECK (lane >= 0),
    step        INTEGER NOT NULL CHECK (step >= 0),
    rank        INTEGER NOT NULL,
    begin       INTEGER NOT NULL CHECK (begin >= 0),
    length      INTEGER NOT NULL CHECK (length >= 0),
    samples     INTEGER NOT NULL,
    own_samples INTEGER NOT NULL,
    bytes_out   INTEGER NOT NULL,
    bytes_in    INTEGER NOT NULL,
    loss        REAL,
    is_finite   INTEGER NOT NULL CHECK (is_finite IN (0, 1)),    -- 1 where there is no loss at all
    rate        REAL,
    drain       INTEGER NOT NULL CHECK (drain IN (0, 1)),
    phases      BLOB NOT NULL,           -- nanoseconds per phase in the order of `phase`, LEB128
    PRIMARY KEY (attempt, lane, step, rank),
    FOREIGN KEY (attempt, rank) REFERENCES rank (attempt, rank)
) STRICT, WITHOUT ROWID;

CREATE TABLE span (
    attempt INTEGER NOT NULL,
    lane    INTEGER NOT NULL CHECK (lane >= 0),
    step    INTEGER NOT NULL CHECK (step >= 0),
    rank    INTEGER NOT NULL,
    begin   INTEGER NOT NULL CHECK (begin >= 0),
    length  INTEGER NOT NULL CHECK (length >= 0),
    phase   INTEGER NOT NULL REFERENCES phase (id),
    peer    INTEGER,
    bytes   INTEGER NOT NULL,
    PRIMARY KEY (attempt, lane, step, rank, begin, phase),
    FOREIGN KEY (attempt, rank) REFERENCES rank (attempt, rank)
) STRICT, WITHOUT ROWID;

CREATE TABLE metric (
    attempt   INTEGER NOT NULL REFERENCES attempt (id),
    name      TEXT NOT NULL,
    model     TEXT NOT NULL,
    step      INTEGER NOT NULL,
    samples   INTEGER NOT NULL,
    epoch     REAL NOT NULL,
    at        INTEGER NOT NULL,
    value     REAL,
    is_finite INTEGER NOT NULL CHECK (is_finite IN (0, 1)),
    CHECK (is_finite = 0 OR value IS NOT NULL),
    PRIMARY KEY (attempt, name, model, step)
) STRICT, WITHOUT ROWID;

CREATE TABLE metric_latest (
    attempt   INTEGER NOT NULL REFERENCES attempt (id),
    name      TEXT NOT NULL,
    step      INTEGER NOT NULL,
    value     REAL,
    is_finite INTEGER NOT NULL CHECK (is_finite IN (0, 1)),
    CHECK (is_finite = 0 OR value IS NOT NULL),
    PRIMARY KEY (attempt, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE target_hit (
    attempt   INTEGER NOT NULL REFERENCES attempt (id),
    metric    TEXT NOT NULL,
    threshold REAL NOT NULL,
    reached   INTEGER NOT NULL CHECK (reached IN (0, 1)),
    at        INTEGER,
    step      INTEGER,
    samples   INTEGER,
    bytes     INTEGER,                   -- sent by all ranks until then
    CHECK (reached = (at IS NOT NULL)),
    PRIMARY KEY (attempt, metric)
) STRICT, WITHOUT ROWID;

CREATE TABLE link (
    attempt   INTEGER NOT NULL,
    src       INTEGER NOT NULL,
    dst       INTEGER NOT NULL,
    bytes     INTEGER NOT NULL,
    raw_bytes INTEGER NOT NULL,
    messages  INTEGER NOT NULL,
    PRIMARY KEY (attempt, src, dst),
    FOREIGN KEY (attempt, src) REFERENCES rank (attempt, rank),
    FOREIGN KEY (attempt, dst) REFERENCES rank (attempt, rank)
) STRICT, WITHOUT ROWID;

CREATE TABLE weight_hash (
    attempt INTEGER NOT NULL,
    rank    INTEGER NOT NULL,
    step    INTEGER NOT NULL,
    sha256  TEXT NOT NULL,
    PRIMARY KEY (attempt, rank, step),
    FOREIGN KEY (attempt, rank) REFERENCES rank (attempt, rank)
) STRICT, WITHOUT ROWID;

CREATE TABLE artifact (
    attempt INTEGER NOT NULL,
    path    TEXT NOT NULL,               -- in the attempt's directory
    rank    INTEGER NOT NULL,
    kind    TEXT NOT NULL CHECK (kind IN ('snapshot')),
    model   TEXT NOT NULL,
    step    INTEGER NOT NULL,
    samples INTEGER NOT NULL,
    at      INTEGER NOT NULL,
    last    INTEGER NOT NULL CHECK (last IN (0, 1)),
    PRIMARY KEY (attempt, path),
    FOREIGN KEY (attempt, rank) REFERENCES rank (attempt, rank)
) STRICT, WITHOUT ROWID;

CREATE TABLE report (
    id           INTEGER PRIMARY KEY,
    selection    TEXT NOT NULL,
    path         TEXT NOT NULL,
    sha256       TEXT NOT NULL CHECK (length(sha256) = 64),
    created_unix INTEGER NOT NULL
) STRICT;

-- The attempt that speaks for a run: its last one; for a reused run the last one of the run it was taken from.
CREATE VIEW shown AS
SELECT run.id AS run,
       (SELECT attempt.id FROM attempt WHERE attempt.run = coalesce(run.reused_from, run.id)
        ORDER BY attempt.number DESC LIMIT 1) AS attempt
FROM run;

-- One line per run with the attempt that speaks for it.
CREATE VIEW runs_flat AS
SELECT run.ulid AS run, sweep.ulid AS sweep, sweep.name AS recipe, run.position, cell.arm_name AS arm,
       cell.strategy, cell.condition, cell.workers, run.repeat, run.seed, run.state,
       run.reused_from IS NOT NULL AS reused, attempt.number AS attempt, attempt.started_unix,
       attempt.wall / 1e9 AS wall_s, attempt.training / 1e9 AS training_s, attempt.step_time / 1e6 AS step_ms,
       attempt.steps, attempt.samples, attempt.detail,
       accuracy.value AS test_accuracy, loss.value AS test_loss
FROM run
JOIN sweep ON sweep.id = run.sweep
JOIN cell ON cell.id = run.cell
JOIN shown ON shown.run = run.id
LEFT JOIN attempt ON attempt.id = shown.attempt
LEFT JOIN metric_latest AS accuracy ON accuracy.attempt = attempt.id AND accuracy.name = 'test-accuracy'
LEFT JOIN metric_latest AS loss ON loss.attempt = attempt.id AND loss.name = 'test-loss';

-- Share of each phase in a lane's steady time.
CREATE VIEW phase_share AS
SELECT run.ulid AS run, attempt.number AS attempt, phase_total.rank, phase_total.lane, phase.name AS phase,
       phase.category, phase_total.total / 1e9 AS total_s,
       phase_total.total * 1.0 / sum(phase_total.total) OVER lane_of_rank AS share
FROM phase_total
JOIN phase ON phase.id = phase_total.phase
JOIN attempt ON attempt.id = phase_total.attempt
JOIN run ON run.id = attempt.run
WINDOW lane_of_rank AS (PARTITION BY phase_total.attempt, phase_total.rank, phase_total.lane);

-- When each run reached its target, if it did.
CREATE VIEW time_to_target AS
SELECT runs_flat.sweep, runs_flat.run, runs_flat.arm, runs_flat.condition, runs_flat.repeat, target_hit.metric,
       target_hit.threshold, target_hit.reached, target_hit.at / 1e9 AS at_s, target_hit.step, target_hit.samples,
       target_hit.bytes
FROM runs_flat
JOIN run ON run.ulid = runs_flat.run
JOIN shown ON shown.run = run.id
JOIN target_hit ON target_hit.attempt = shown.attempt;
