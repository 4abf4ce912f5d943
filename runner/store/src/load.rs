//! One sweep as a report needs it: one query per table for all attempts together.

use crate::attempt::KILLED;
use crate::attempt_parts::Parts;
use crate::plan_rows::{document, plan_of, seed_of};
use crate::summary::{self, Summary};
use crate::sweep::state_named;
use crate::value::{float_of, uint};
use crate::{AttemptId, AttemptRow, LossRow, RunRow, RunState, Selection, Store, StoreError, SweepRows};
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
    rounds: Option<i64>,
}

async fn attempts_of(
    connection: &mut SqliteConnection,
    sweep: i64,
) -> Result<Vec<AttemptColumns>, StoreError> {
    Ok(sqlx::query_as(
        "SELECT run.id AS run, attempt.id, number, started_unix, attempt.state, detail, culprit, last_lines, wall, \
         training, step_time, steps, samples, rounds FROM run JOIN shown ON shown.run = run.id \
         JOIN attempt ON attempt.id = shown.attempt WHERE run.sweep = ?",
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
        rounds: row.rounds.map_or(0, uint),
        ranks: BTreeMap::new(),
        transfers: parts.transfers.get(&row.id).cloned().unwrap_or_default(),
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
        rounds: summary.rounds,
        ranks,
        metrics: parts.metrics.get(&row.id).cloned().unwrap_or_default(),
        beside: parts.beside.get(&row.id).cloned().unwrap_or_default(),
        losses: losses_of(connection, row.id).await?,
        weights: weights_of(parts.hashes.get(&row.id)),
        links: parts.links.get(&row.id).cloned().unwrap_or_default(),
        transfers: summary.transfers,
        emulation: parts.emulation.get(&row.id).cloned().unwrap_or_default(),
        coding: parts.coding.get(&row.id).cloned().unwrap_or_default(),
        lost: parts.lost.get(&row.id).cloned().unwrap_or_default(),
        staleness: parts.staleness.get(&row.id).cloned().unwrap_or_default(),
        averagings: parts.averagings.get(&row.id).cloned().unwrap_or_default(),
    })
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
