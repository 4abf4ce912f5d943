-- The time per global batch over the whole steady window, beside the median of its steps, which leaves a slow tail out.

PRAGMA user_version = 10;

-- Of workers that step together, the mean length of a steady step of the slowest one; else the global batch divided by
-- the rates of the workers added up.
ALTER TABLE attempt ADD COLUMN mean_step_time INTEGER;

-- The rates of workers at their own pace were not kept; `db rebuild` learns them from the event logs.
UPDATE attempt SET mean_step_time =
    (SELECT max(steady / steady_steps) FROM rank
     WHERE rank.attempt = attempt.id AND role = 'worker' AND steady_steps > 0)
WHERE state <> 'running' AND run IN
    (SELECT run.id FROM run JOIN cell ON cell.id = run.cell JOIN config ON config.id = cell.config
     WHERE CASE WHEN json_valid(config.spec) THEN json_extract(config.spec, '$.strategy.kind') END IN
     ('ps-sync', 'd-sync', 'pipe-sgd', 'local-sgd', 'slowmo', 'custom', 'd-psgd', 'sgp', 'easgd-sync'));

DROP VIEW runs_flat;
CREATE VIEW runs_flat AS
SELECT run.ulid AS run, sweep.ulid AS sweep, sweep.name AS recipe, run.position, cell.arm_name AS arm,
       cell.strategy, cell.condition, cell.workers, run.repeat, run.seed, run.state,
       run.reused_from IS NOT NULL AS reused, attempt.number AS attempt, attempt.started_unix,
       attempt.wall / 1e9 AS wall_s, attempt.training / 1e9 AS training_s, attempt.step_time / 1e6 AS step_ms,
       attempt.mean_step_time / 1e6 AS mean_step_ms, attempt.steps, attempt.samples, attempt.detail,
       accuracy.value AS test_accuracy, loss.value AS test_loss
FROM run
JOIN sweep ON sweep.id = run.sweep
JOIN cell ON cell.id = run.cell
JOIN shown ON shown.run = run.id
LEFT JOIN attempt ON attempt.id = shown.attempt
LEFT JOIN metric_latest AS accuracy ON accuracy.attempt = attempt.id AND accuracy.name = 'test-accuracy'
LEFT JOIN metric_latest AS loss ON loss.attempt = attempt.id AND loss.name = 'test-loss';
