//! One sweep as a report needs it: one query per table for all its attempts.

use crate::derive::summary::Summary;
use crate::driver::KILLED;
use crate::read::annotations::annotations;
use crate::read::narrowed::narrowed;
use crate::read::parts::Parts;
use crate::read::plan::plan_of;
use crate::read::steps::summary_of;
use crate::sql::document::from_json;
use crate::sql::from_row::from_row;
use crate::sql::value::{seed_of, state_named, uint};
use crate::{AttemptId, AttemptRow, Commit, RunRow, RunState, Selection, Store, StoreError, SweepRows};
use recipe::RunSpec;
use record::{Nanos, Rank};
use sqlx::sqlite::SqliteConnection;
use std::collections::{BTreeMap, BTreeSet};

impl Store {
    /// The newest sweep with runs that fit `selection`, reduced to these runs.
    ///
    /// # Errors
    /// [`StoreError::Empty`] if no run fits.
    pub async fn sweep_rows(&self, selection: &Selection) -> Result<SweepRows, StoreError> {
        let chosen = self.fitting(selection).await?;
        let sweep = chosen
            .last()
            .map(|run| run.sweep)
            .ok_or_else(|| StoreError::Empty { selection: selection.to_string() })?;
        let runs: BTreeSet<i64> = chosen.iter().filter(|run| run.sweep == sweep).map(|run| run.run).collect();
        let abandoned = self.abandoned_sweeps().await?.contains(&sweep);
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
                Some(row) => {
                    let id = row.id;
                    let mut attempt = attempt_row(&mut transaction, row, &parts, abandoned).await?;
                    let cell = rows.plan.cells.get(columns.cell as usize);
                    let replicas = cell.map(|cell| Replicas::of(&attempt, &cell.spec)).unwrap_or_default();
                    let hashes = parts.hashes.get(&id).map_or(&[][..], Vec::as_slice);
                    attempt.weights = weights_of(hashes, parts.results.get(&id), &replicas);
                    Some(attempt)
                }
                None => None,
            };
            rows.runs.push(run_row(columns, attempt, abandoned)?);
        }
        Ok(narrowed(rows))
    }
}

/// The state of a run. A running one of an abandoned sweep is interrupted.
pub(crate) fn standing(state: &str, abandoned: bool) -> Result<RunState, StoreError> {
    match state_named(state)? {
        RunState::Running if abandoned => Ok(RunState::Interrupted),
        state => Ok(state),
    }
}

from_row! {
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
        plan: plan_of(connection, sweep).await?,
        recipe_sha256: row.sha256,
        recipe_path: row.recipe_path,
        argv: from_json("command line", &row.argv)?,
        version: row.version,
        commit: row.git_commit.zip(row.git_dirty).map(Commit::from),
        started: row.started_unix,
        annotations: annotations(connection).await?.remove(&row.ulid).unwrap_or_default(),
        id: row.ulid,
        nodes: Vec::new(),
        runs: Vec::new(),
    })
}

from_row! {
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

fn run_row(columns: RunColumns, attempt: Option<AttemptRow>, abandoned: bool) -> Result<RunRow, StoreError> {
    Ok(RunRow {
        id: columns.ulid,
        index: columns.position as usize,
        cell: columns.cell as usize,
        repeat: columns.repeat,
        seed: seed_of(&columns.seed)?,
        state: standing(&columns.state, abandoned)?,
        reused: columns.reused,
        attempt,
    })
}

from_row! {
    struct AttemptColumns {
        /// The run that shows the attempt; if it was reused, another run made it.
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
        mean_step_time: Option<i64>,
        steps: Option<i64>,
        step_stride: Option<i64>,
        traced_steps: Option<i64>,
        samples: Option<i64>,
        rounds: Option<i64>,
        as_ordered: bool,
    }
}

async fn attempts_of(
    connection: &mut SqliteConnection,
    sweep: i64,
) -> Result<Vec<AttemptColumns>, StoreError> {
    Ok(sqlx::query_as(
        "SELECT run.id AS run, attempt.id, number, started_unix, attempt.state, detail, culprit, last_lines, wall, \
         training, step_time, mean_step_time, steps, step_stride, traced_steps, samples, rounds, \
         EXISTS (SELECT 1 FROM event WHERE event.attempt = attempt.id AND event.state = 'ordered') AS as_ordered FROM run JOIN shown ON shown.run = run.id \
         JOIN attempt ON attempt.id = shown.attempt WHERE run.sweep = ?",
    )
    .bind(sweep)
    .fetch_all(connection)
    .await?)
}

async fn attempt_row(
    connection: &mut SqliteConnection,
    row: AttemptColumns,
    parts: &Parts,
    abandoned: bool,
) -> Result<AttemptRow, StoreError> {
    let step_stride = row.step_stride.map_or(1, uint);
    let under_way = row.state == RunState::Running.name();
    let fresh = if under_way { Some(summary_of(connection, AttemptId(row.id)).await?) } else { None };
    let ranks = parts.ranks_of(row.id, fresh.as_ref().map(|summary| &summary.ranks))?;
    let summary = match fresh {
        Some(summary) => summary,
        None => Summary {
            training: row.training.map(|time| Nanos(uint(time))),
            step_time: row.step_time.map(|time| Nanos(uint(time))),
            mean_step_time: row.mean_step_time.map(|time| Nanos(uint(time))),
            steps: row.steps.map_or(0, uint),
            samples: row.samples.map_or(0, uint),
            rounds: row.rounds.map_or(0, uint),
            ranks: BTreeMap::new(),
            transfers: parts.transfers.get(&row.id).cloned().unwrap_or_default(),
            blocks: parts.blocks.get(&row.id).cloned().unwrap_or_default(),
        },
    };
    Ok(AttemptRow {
        number: row.number,
        started: row.started_unix,
        wall: row.wall.map(|wall| Nanos(uint(wall))),
        detail: if under_way && abandoned { KILLED.to_owned() } else { row.detail },
        culprit: row.culprit.map(Rank),
        last_lines: from_json("log lines", &row.last_lines)?,
        training: summary.training,
        step_time: summary.step_time,
        mean_step_time: summary.mean_step_time,
        steps: summary.steps,
        step_stride,
        traced_steps: row.traced_steps.map(uint),
        samples: summary.samples,
        rounds: summary.rounds,
        ranks,
        metrics: parts.metrics.get(&row.id).cloned().unwrap_or_default(),
        beside: parts.beside.get(&row.id).cloned().unwrap_or_default(),
        losses: parts.losses.get(&row.id).cloned().unwrap_or_default(),
        weights: None,
        links: parts.links.get(&row.id).cloned().unwrap_or_default(),
        transfers: summary.transfers,
        emulation: parts.emulation.get(&row.id).cloned().unwrap_or_default(),
        coding: parts.coding.get(&row.id).cloned().unwrap_or_default(),
        schedule: parts.schedules.get(&row.id).and_then(|all| all.first().cloned()),
        lost: parts.lost.get(&row.id).cloned().unwrap_or_default(),
        as_ordered: row.as_ordered,
        staleness: parts.staleness.get(&row.id).cloned().unwrap_or_default(),
        averagings: parts.averagings.get(&row.id).cloned().unwrap_or_default(),
        hosts: parts.hosts.get(&row.id).cloned().unwrap_or_default(),
        blocks: summary.blocks,
    })
}

/// The ranks that must end with equal weights, and whether each set of them holds a part of one model.
#[derive(Default)]
struct Replicas {
    sets: Vec<Vec<u32>>,
    are_parts: bool,
}

impl Replicas {
    /// As the ranks of an attempt said, else as the strategy has them.
    fn of(attempt: &AttemptRow, spec: &RunSpec) -> Self {
        let mut said: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for row in &attempt.ranks {
            if let Some(group) = row.replica_group {
                said.entry(group).or_default().push(row.rank.0);
            }
        }
        let sets = if said.is_empty() {
            spec.strategy.replica_groups(attempt.ranks.len() as u32, spec.cluster.workers())
        } else {
            said.into_values().collect()
        };
        Self { sets, are_parts: spec.strategy.parts() > 1 }
    }
}

/// The digest of the model that a run ended with, if the ranks of each set agree: that of the first set. Where the ranks hold parts of a
/// model, `results` are the digests of the models that these come to together.
fn weights_of(
    hashes: &[(u32, String)],
    results: Option<&Vec<String>>,
    replicas: &Replicas,
) -> Option<Result<String, Vec<String>>> {
    let of_set = |set: &Vec<u32>| -> Vec<&String> {
        hashes.iter().filter(|(rank, _)| set.contains(rank)).map(|(_, sha256)| sha256).collect()
    };
    let sets: Vec<Vec<&String>> = replicas.sets.iter().map(of_set).collect();
    let first = *sets.iter().flatten().next()?;
    if sets.iter().all(|set| set.iter().all(|other| Some(other) == set.first())) {
        return if replicas.are_parts { results?.last().cloned().map(Ok) } else { Some(Ok(first.clone())) };
    }
    Some(Err(hashes.iter().map(|(rank, sha256)| format!("{rank}: {sha256}")).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hashes(of_rank: &[&str]) -> Vec<(u32, String)> {
        (0..).zip(of_rank).map(|(rank, sha256)| (rank, (*sha256).to_owned())).collect()
    }

    #[test]
    fn ranks_of_a_set_agree() {
        let results = vec!["whole".to_owned()];
        let replicas = |sets: &[&[u32]], are_parts| Replicas {
            sets: sets.iter().map(|set| set.to_vec()).collect(),
            are_parts,
        };
        let whole = replicas(&[&[0, 1]], false);
        let parts = replicas(&[&[0, 2], &[1, 3]], true);
        let of = |ranks: &[&str], replicas: &Replicas| weights_of(&hashes(ranks), Some(&results), replicas);
        assert_eq!(of(&["a", "a"], &whole), Some(Ok("a".to_owned())));
        assert_eq!(of(&["a", "b", "a", "b"], &parts), Some(Ok("whole".to_owned())));
        let apart = ["0: a", "1: b", "2: a", "3: c"].map(str::to_owned).to_vec();
        assert_eq!(of(&["a", "b", "a", "c"], &parts), Some(Err(apart)));
        assert!(matches!(of(&["a", "b"], &whole), Some(Err(_))));
        assert_eq!(weights_of(&hashes(&["a", "b"]), None, &replicas(&[&[0], &[1]], true)), None);
        assert_eq!(weights_of(&[], None, &whole), None);
        // A server that only adds holds no model.
        assert_eq!(of(&["a", "a", "b"], &whole), Some(Ok("a".to_owned())));
        // The first rank has a model of its own.
        assert_eq!(of(&["b", "a", "a"], &replicas(&[&[1, 2]], false)), Some(Ok("a".to_owned())));
        let two = replicas(&[&[0, 1], &[2, 3]], false);
        assert_eq!(of(&["a", "a", "b", "b"], &two), Some(Ok("a".to_owned())));
        assert!(matches!(of(&["a", "b", "b", "b"], &two), Some(Err(_))));
    }
}
