//! One sweep as a report needs it: one query per table for all attempts together.

use crate::attempt::KILLED;
use crate::plan_rows::{document, plan_of, seed_of};
use crate::summary::{self, RankSummary, Summary};
use crate::sweep::state_named;
use crate::value::{float_of, lane_of, phase_of, uint};
use crate::{
    AttemptId, AttemptRow, LinkRow, LossRow, MetricRow, NodeRow, PhaseRow, RankRow, RunRow, RunState,
    Selection, Store, StoreError, SweepRows,
};
use recipe::{Metric, Role};
use record::{Nanos, Rank};
use sqlx::sqlite::SqliteConnection;
use std::collections::{BTreeMap, BTreeSet};

/// So many points of a loss curve at most.
const LOSSES: i64 = 500;

impl Store {
    /// The newest sweep with runs that fit `selection`, and of it those runs.
    ///
    /// # Errors
    /// [`StoreError::Empty`] where no run fits.
    pub async fn sweep_rows(&self, selection: &Selection) -> Result<SweepRows, StoreError> {
        let chosen = self.fitting(selection).await?;
        let sweep = chosen
            .iter()
            .map(|run| run.sweep)
            .max()
            .ok_or_else(|| StoreError::Empty { selection: selection.to_string() })?;
        let runs: BTreeSet<i64> = chosen.iter().filter(|run| run.sweep == sweep).map(|run| run.run).collect();
        let dead = self.sweeps_of_the_dead().await?.contains(&sweep);
        // One snapshot of the database for all queries.
        let mut transaction = self.reader.begin().await?;
        let mut rows = head_of(&mut transaction, sweep).await?;
        let attempts = attempts_of(&mut transaction, sweep).await?;
        let wanted: Vec<i64> =
            attempts.iter().filter(|row| runs.contains(&row.run)).map(|row| row.id).collect();
        let mut parts = Parts::load(&mut transaction, &wanted).await?;
        rows.nodes = std::mem::take(&mut parts.nodes);
        let mut by_run: BTreeMap<i64, AttemptColumns> =
            attempts.into_iter().map(|row| (row.run, row)).collect();
        for columns in runs_of(&mut transaction, sweep).await? {
            if !runs.contains(&columns.id) {
                continue;
            }
            let attempt = match by_run.remove(&columns.id) {
                Some(row) => Some(attempt_row(&mut transaction, row, (&parts, dead)).await?),
                None => None,
            };
            rows.runs.push(run_row(columns, attempt, dead)?);
        }
        Ok(rows)
    }
}

/// A run under way whose driver is gone is an interrupted one.
pub(crate) fn standing(state: &str, dead: bool) -> Result<RunState, StoreError> {
    match state_named(state)? {
        RunState::Running if dead => Ok(RunState::Interrupted),
        state => Ok(state),
    }
}

#[derive(sqlx::FromRow)]
struct SweepColumns {
    ulid: String,
    sha256: String,
    recipe_path: String,
    argv: String,
    version: String,
    git_commit: Option<String>,
    git_dirty: Option<bool>,
    started_unix: i64,
}

async fn head_of(connection: &mut SqliteConnection, sweep: i64) -> Result<SweepRows, StoreError> {
    let row: SweepColumns = sqlx::query_as(
        "SELECT ulid, sha256, recipe_path, argv, version, git_commit, git_dirty, started_unix FROM sweep \
         JOIN recipe ON recipe.id = sweep.recipe WHERE sweep.id = ?",
    )
    .bind(sweep)
    .fetch_one(&mut *connection)
    .await?;
    Ok(SweepRows {
        id: row.ulid,
        plan: plan_of(connection, sweep).await?,
        recipe_sha256: row.sha256,
        recipe_path: row.recipe_path,
        argv: document("command line", &row.argv)?,
        version: row.version,
        commit: row.git_commit.map(|commit| (commit, row.git_dirty.unwrap_or(false))),
        started: row.started_unix,
        nodes: Vec::new(),
        runs: Vec::new(),
    })
}

#[derive(sqlx::FromRow)]
struct RunColumns {
    id: i64,
    ulid: String,
    position: i64,
    cell: i64,
    repeat: u32,
    seed: String,
    state: String,
    reused: bool,
}

async fn runs_of(connection: &mut SqliteConnection, sweep: i64) -> Result<Vec<RunColumns>, StoreError> {
    Ok(sqlx::query_as(
        "SELECT run.id, ulid, run.position, cell.position AS cell, repeat, seed, state, \
         reused_from IS NOT NULL AS reused FROM run JOIN cell ON cell.id = run.cell WHERE run.sweep = ? \
         ORDER BY run.position",
    )
    .bind(sweep)
    .fetch_all(connection)
    .await?)
}

fn run_row(columns: RunColumns, attempt: Option<AttemptRow>, dead: bool) -> Result<RunRow, StoreError> {
    Ok(RunRow {
        id: columns.ulid,
        index: columns.position as usize,
        cell: columns.cell as usize,
        repeat: columns.repeat,
        seed: seed_of(&columns.seed)?,
        state: standing(&columns.state, dead)?,
        reused: columns.reused,
        attempt,
    })
}

#[derive(sqlx::FromRow)]
struct AttemptColumns {
    /// The run that shows the attempt; not the one that made it, where it was reused.
    run: i64,
    id: i64,
    number: u32,
    started_unix: i64,
    state: String,
    detail: String,
    culprit: Option<u32>,
    last_lines: String,
    wall: Option<i64>,
    training: Option<i64>,
    step_time: Option<i64>,
    steps: Option<i64>,
    samples: Option<i64>,
}

async fn attempts_of(
    connection: &mut SqliteConnection,
    sweep: i64,
) -> Result<Vec<AttemptColumns>, StoreError> {
    Ok(sqlx::query_as(
        "SELECT run.id AS run, attempt.id, number, started_unix, attempt.state, detail, culprit, last_lines, wall, \
         training, step_time, steps, samples FROM run JOIN attempt ON attempt.id = \
         (SELECT try.id FROM attempt AS try WHERE try.run = coalesce(run.reused_from, run.id) \
          ORDER BY try.number DESC LIMIT 1) WHERE run.sweep = ?",
    )
    .bind(sweep)
    .fetch_all(connection)
    .await?)
}

async fn attempt_row(
    connection: &mut SqliteConnection,
    row: AttemptColumns,
    (parts, dead): (&Parts, bool),
) -> Result<AttemptRow, StoreError> {
    let under_way = row.state == RunState::Running.name();
    let fresh = if under_way { Some(summary::of(connection, AttemptId(row.id)).await?) } else { None };
    let kept = || Summary {
        training: row.training.map(|time| Nanos(uint(time))),
        step_time: row.step_time.map(|time| Nanos(uint(time))),
        steps: row.steps.map_or(0, uint),
        samples: row.samples.map_or(0, uint),
        ranks: BTreeMap::new(),
    };
    let of_ranks = fresh.as_ref().map(|summary| &summary.ranks);
    let ranks = parts.ranks_of(row.id, of_ranks)?;
    let summary = fresh.clone().unwrap_or_else(kept);
    Ok(AttemptRow {
        number: row.number,
        started: row.started_unix,
        wall: row.wall.map(|wall| Nanos(uint(wall))),
        detail: if under_way && dead { KILLED.to_owned() } else { row.detail },
        culprit: row.culprit.map(Rank),
        last_lines: document("log lines", &row.last_lines)?,
        training: summary.training,
        step_time: summary.step_time,
        steps: summary.steps,
        samples: summary.samples,
        ranks,
        metrics: parts.metrics.get(&row.id).cloned().unwrap_or_default(),
        losses: losses_of(connection, row.id).await?,
        weights: weights_of(parts.hashes.get(&row.id)),
        links: parts.links.get(&row.id).cloned().unwrap_or_default(),
    })
}

/// What the attempts of a sweep have beside their own row, by attempt.
#[derive(Default)]
struct Parts {
    nodes: Vec<NodeRow>,
    /// Place in `nodes` of a node's row.
    places: BTreeMap<i64, u32>,
    ranks: BTreeMap<i64, Vec<RankColumns>>,
    phases: BTreeMap<(i64, u32), Vec<PhaseRow>>,
    metrics: BTreeMap<i64, Vec<MetricRow>>,
    links: BTreeMap<i64, Vec<LinkRow>>,
    hashes: BTreeMap<i64, Vec<(u32, String)>>,
}

#[derive(sqlx::FromRow)]
struct RankColumns {
    attempt: i64,
    rank: u32,
    role: String,
    node: i64,
    threads: Option<u32>,
    end_text: Option<String>,
    resident_bytes: Option<i64>,
    recording: Option<i64>,
    wall: Option<i64>,
    exposed: Option<i64>,
    steady: Option<i64>,
    steady_steps: Option<i64>,
    bytes_out: Option<i64>,
    bytes_in: Option<i64>,
}

impl Parts {
    async fn load(connection: &mut SqliteConnection, attempts: &[i64]) -> Result<Self, StoreError> {
        let wanted = crate::sweep::json("list of attempts", &attempts)?;
        let mut parts = Self::default();
        parts.load_ranks(connection, &wanted).await?;
        parts.load_phases(connection, &wanted).await?;
        parts.load_metrics(connection, &wanted).await?;
        parts.load_links(connection, &wanted).await?;
        parts.load_hashes(connection, &wanted).await?;
        Ok(parts)
    }

    async fn load_ranks(
        &mut self,
        connection: &mut SqliteConnection,
        wanted: &str,
    ) -> Result<(), StoreError> {
        let rows: Vec<RankColumns> = sqlx::query_as(
            "SELECT attempt, rank, role, node, threads, end_text, resident_bytes, recording, wall, exposed, steady, \
             steady_steps, bytes_out, bytes_in FROM rank WHERE attempt IN (SELECT value FROM json_each(?)) \
             ORDER BY attempt, rank",
        )
        .bind(wanted)
        .fetch_all(&mut *connection)
        .await?;
        let nodes: Vec<(i64, String, String, String, String, u32, i64)> = sqlx::query_as(
            "SELECT id, name, host, system, processor, cores, memory FROM node WHERE id IN \
             (SELECT node FROM rank WHERE attempt IN (SELECT value FROM json_each(?))) ORDER BY id",
        )
        .bind(wanted)
        .fetch_all(connection)
        .await?;
        for (place, (id, name, host, system, processor, cores, memory)) in (0_u32..).zip(nodes) {
            self.places.insert(id, place);
            self.nodes.push(NodeRow { name, host, system, processor, cores, memory: uint(memory) });
        }
        for row in rows {
            self.ranks.entry(row.attempt).or_default().push(row);
        }
        Ok(())
    }

    async fn load_phases(
        &mut self,
        connection: &mut SqliteConnection,
        wanted: &str,
    ) -> Result<(), StoreError> {
        let rows: Vec<(i64, u32, i64, i64, i64, i64, i64, i64, i64)> = sqlx::query_as(
            "SELECT attempt, rank, lane, phase, count, total, p50, p95, max FROM phase_total \
             WHERE attempt IN (SELECT value FROM json_each(?)) ORDER BY attempt, rank, lane, phase",
        )
        .bind(wanted)
        .fetch_all(connection)
        .await?;
        for (attempt, rank, lane, phase, count, total, p50, p95, max) in rows {
            let nanos = |value| Nanos(uint(value));
            self.phases.entry((attempt, rank)).or_default().push(PhaseRow {
                lane: lane_of(lane)?,
                phase: phase_of(phase)?,
                count: uint(count),
                total: nanos(total),
                p50: nanos(p50),
                p95: nanos(p95),
                max: nanos(max),
            });
        }
        Ok(())
    }

    async fn load_metrics(
        &mut self,
        connection: &mut SqliteConnection,
        wanted: &str,
    ) -> Result<(), StoreError> {
        let rows: Vec<(i64, String, String, i64, i64, f64, i64, Option<f64>)> = sqlx::query_as(
            "SELECT attempt, name, model, step, samples, epoch, at, value FROM metric \
             WHERE attempt IN (SELECT value FROM json_each(?)) ORDER BY attempt, at, step, name, model",
        )
        .bind(wanted)
        .fetch_all(connection)
        .await?;
        for (attempt, name, model, step, samples, epoch, at, value) in rows {
            self.metrics.entry(attempt).or_default().push(MetricRow {
                metric: metric_named(&name)?,
                model,
                step: uint(step),
                samples: uint(samples),
                epoch,
                at: Nanos(uint(at)),
                value: float_of(value),
            });
        }
        Ok(())
    }

    async fn load_links(
        &mut self,
        connection: &mut SqliteConnection,
        wanted: &str,
    ) -> Result<(), StoreError> {
        let rows: Vec<(i64, u32, u32, i64, i64, i64)> = sqlx::query_as(
            "SELECT attempt, src, dst, bytes, raw_bytes, messages FROM link \
             WHERE attempt IN (SELECT value FROM json_each(?)) ORDER BY attempt, src, dst",
        )
        .bind(wanted)
        .fetch_all(connection)
        .await?;
        for (attempt, from, to, bytes, raw_bytes, messages) in rows {
            self.links.entry(attempt).or_default().push(LinkRow {
                from: Rank(from),
                to: Rank(to),
                bytes: uint(bytes),
                raw_bytes: uint(raw_bytes),
                messages: uint(messages),
            });
        }
        Ok(())
    }

    async fn load_hashes(
        &mut self,
        connection: &mut SqliteConnection,
        wanted: &str,
    ) -> Result<(), StoreError> {
        let rows: Vec<(i64, u32, String, i64)> = sqlx::query_as(
            "SELECT attempt, rank, sha256, max(step) FROM weight_hash \
             WHERE attempt IN (SELECT value FROM json_each(?)) GROUP BY attempt, rank ORDER BY attempt, rank",
        )
        .bind(wanted)
        .fetch_all(connection)
        .await?;
        for (attempt, rank, sha256, _) in rows {
            self.hashes.entry(attempt).or_default().push((rank, sha256));
        }
        Ok(())
    }

    fn ranks_of(
        &self,
        attempt: i64,
        fresh: Option<&BTreeMap<Rank, RankSummary>>,
    ) -> Result<Vec<RankRow>, StoreError> {
        let rows = self.ranks.get(&attempt).into_iter().flatten();
        rows.map(|row| {
            let summary = match fresh {
                Some(ranks) => ranks.get(&Rank(row.rank)).cloned().unwrap_or_default(),
                None => self.kept_summary(row),
            };
            self.rank_row(row, summary)
        })
        .collect()
    }

    fn kept_summary(&self, row: &RankColumns) -> RankSummary {
        let number = |value: Option<i64>| value.map_or(0, uint);
        RankSummary {
            exposed: Nanos(number(row.exposed)),
            steady: (Nanos(number(row.steady)), number(row.steady_steps)),
            bytes_out: number(row.bytes_out),
            bytes_in: number(row.bytes_in),
            phases: self.phases.get(&(row.attempt, row.rank)).cloned().unwrap_or_default(),
        }
    }

    fn rank_row(&self, row: &RankColumns, summary: RankSummary) -> Result<RankRow, StoreError> {
        let share = |recording: i64, wall: i64| (wall > 0).then(|| recording as f64 / wall as f64);
        Ok(RankRow {
            rank: Rank(row.rank),
            role: role_named(&row.role)?,
            node: self.places.get(&row.node).copied().unwrap_or(0),
            threads: row.threads.unwrap_or(0),
            end: row.end_text.clone().unwrap_or_else(|| "did not say".to_owned()),
            resident_bytes: row.resident_bytes.map_or(0, uint),
            recording_share: row.recording.zip(row.wall).and_then(|(recording, wall)| share(recording, wall)),
            phases: summary.phases,
            exposed: summary.exposed,
            steady: summary.steady,
            bytes_out: summary.bytes_out,
            bytes_in: summary.bytes_in,
        })
    }
}

/// The metric of that name.
pub(crate) fn metric_named(name: &str) -> Result<Metric, StoreError> {
    Metric::ALL
        .into_iter()
        .find(|metric| metric.name() == name)
        .ok_or_else(|| StoreError::Value { what: "metric", value: name.to_owned() })
}

fn role_named(name: &str) -> Result<Role, StoreError> {
    [Role::Worker, Role::Server]
        .into_iter()
        .find(|role| role.name() == name)
        .ok_or_else(|| StoreError::Value { what: "role", value: name.to_owned() })
}

fn weights_of(hashes: Option<&Vec<(u32, String)>>) -> Option<Result<String, Vec<String>>> {
    let hashes = hashes?;
    let (_, first) = hashes.first()?;
    if hashes.iter().all(|(_, sha256)| sha256 == first) {
        return Some(Ok(first.clone()));
    }
    Some(Err(hashes.iter().map(|(rank, sha256)| format!("{rank}: {sha256}")).collect()))
}

/// Skips from one chosen step to the next along the key instead of reading all of them. The last step is always
/// among them.
async fn losses_of(connection: &mut SqliteConnection, attempt: i64) -> Result<Vec<LossRow>, StoreError> {
    let last: Option<i64> = sqlx::query_scalar("SELECT max(step) FROM step WHERE attempt = ? AND lane = 0")
        .bind(attempt)
        .fetch_one(&mut *connection)
        .await?;
    let Some(last) = last else { return Ok(Vec::new()) };
    let stride = last.div_euclid(LOSSES) + i64::from(last.rem_euclid(LOSSES) > 0);
    let rows: Vec<(i64, i64, i64, Option<f64>)> = sqlx::query_as(
        "WITH RECURSIVE chosen (step) AS \
         (SELECT ?2 UNION ALL SELECT step - ?3 FROM chosen WHERE step - ?3 >= 1) \
         SELECT step.step, max(samples), max(begin + length), \
         CASE WHEN min(is_finite) THEN sum(loss * own_samples) / sum(own_samples) END \
         FROM chosen CROSS JOIN step ON step.attempt = ?1 AND step.lane = 0 AND step.step = chosen.step \
         WHERE own_samples > 0 AND (loss IS NOT NULL OR is_finite = 0) GROUP BY step.step ORDER BY step.step",
    )
    .bind(attempt)
    .bind(last)
    .bind(stride.max(1))
    .fetch_all(connection)
    .await?;
    Ok(rows
        .into_iter()
        .map(|(step, samples, at, loss)| LossRow {
            step: uint(step),
            samples: uint(samples),
            at: Nanos(uint(at)),
            loss: float_of(loss),
        })
        .collect())
}
