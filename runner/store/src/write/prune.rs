//! Removes runs that are not needed any more, with their files.
//!
//! A run that goes reads as one that was never begun, until all runs of its sweep have gone and the sweep goes with them. The
//! journal says so first, so that a rebuilt database does not miss the events of what was removed on purpose.

use crate::journal::entries::Entry;
use crate::layout;
use crate::sql::document::to_json;
use crate::sql::from_row::from_row;
use crate::sql::value::uint;
use crate::{AttemptId, RunId, RunState, Selection, Store, StoreError, SweepId};
use serde::Serialize;
use sqlx::sqlite::SqliteConnection;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

/// Bytes of a row in the database, measured.
const STEP_BYTES: u64 = 109;
/// The same of a span.
const SPAN_BYTES: u64 = 40;

/// Which runs to remove.
#[derive(Clone, Debug)]
pub struct Surplus<'a> {
    /// By what they are.
    pub selection: &'a Selection,
    /// Begun before this moment, in seconds since 1970.
    pub before: Option<i64>,
}

/// The runs and sweeps that are removed, and those that would be but are needed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Prunable {
    /// The runs that go, in the order in which they were planned.
    pub runs: Vec<String>,
    /// Those that lose runs.
    pub sweeps: Vec<PrunedSweep>,
    /// Sweeps that are under way: nothing of them goes.
    pub under_way: Vec<String>,
    /// Runs whose result a run that stays was taken from: they stay too.
    pub needed: Vec<NeededRun>,
    /// Bytes of their files.
    pub file_bytes: u64,
    /// Bytes of their steps and spans in the database, about.
    pub database_bytes: u64,
}

/// A sweep that loses runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PrunedSweep {
    /// Its id.
    pub sweep: String,
    /// Name of its recipe.
    pub recipe: String,
    /// Number of runs that go.
    pub removed: usize,
    /// Number of runs that stay; the sweep goes if there are none.
    pub kept: usize,
}

/// A run that a sweep needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NeededRun {
    /// Its id.
    pub run: String,
    /// The sweep that reused its result.
    pub by: String,
}

from_row! {
    struct Candidate {
        id: i64,
        ulid: String,
        sweep: String,
        recipe: String,
        under_way: bool,
        began: i64,
    }
}

impl Store {
    /// Selects what [`Store::prune`] removes, of sweeps whose driver was killed too.
    pub async fn prunable(&self, surplus: &Surplus<'_>) -> Result<Prunable, StoreError> {
        let fitting: Vec<i64> = self.fitting(surplus.selection).await?.iter().map(|run| run.run).collect();
        let mut candidates: Vec<Candidate> = sqlx::query_as(
            "SELECT run.id, run.ulid, sweep.ulid AS sweep, sweep.name AS recipe, \
             sweep.state = 'running' AND sweep.id NOT IN (SELECT value FROM json_each(?2)) AS under_way, \
             coalesce((SELECT max(started_unix) FROM attempt WHERE attempt.run = run.id), sweep.started_unix) AS began \
             FROM run JOIN sweep ON sweep.id = run.sweep WHERE run.id IN (SELECT value FROM json_each(?1)) \
             ORDER BY run.sweep, run.position",
        )
        .bind(to_json("list of runs", &fitting)?)
        .bind(to_json("list of sweeps", &self.abandoned_sweeps().await?)?)
        .fetch_all(&self.reader)
        .await?;
        candidates.retain(|run| surplus.before.is_none_or(|before| run.began < before));
        let under_way: BTreeSet<String> =
            candidates.iter().filter(|run| run.under_way).map(|run| run.sweep.clone()).collect();
        candidates.retain(|run| !run.under_way);
        let needed = self.needed(&candidates).await?;
        candidates.retain(|run| !needed.iter().any(|needed| needed.run == run.ulid));
        let wanted =
            to_json("list of runs", &candidates.iter().map(|candidate| candidate.id).collect::<Vec<_>>())?;
        let rows = async |query: &'static str| -> Result<u64, StoreError> {
            Ok(uint(sqlx::query_scalar(query).bind(&wanted).fetch_one(&self.reader).await?))
        };
        let steps = rows(
            "SELECT count(*) FROM attempt CROSS JOIN step ON step.attempt = attempt.id \
             WHERE attempt.run IN (SELECT value FROM json_each(?))",
        )
        .await?;
        let spans = rows(
            "SELECT count(*) FROM attempt CROSS JOIN span ON span.attempt = attempt.id \
             WHERE attempt.run IN (SELECT value FROM json_each(?))",
        )
        .await?;
        let directories = candidates.iter().map(|run| layout::run_directory(&self.folder, &run.ulid));
        Ok(Prunable {
            sweeps: self.pruned_sweeps(&candidates).await?,
            under_way: under_way.into_iter().collect(),
            needed,
            file_bytes: directories.map(|path| bytes_in(&path)).sum(),
            database_bytes: steps * STEP_BYTES + spans * SPAN_BYTES,
            runs: candidates.into_iter().map(|run| run.ulid).collect(),
        })
    }

    /// Candidates whose result was taken by a run that stays.
    async fn needed(&self, candidates: &[Candidate]) -> Result<Vec<NeededRun>, StoreError> {
        let ids: Vec<i64> = candidates.iter().map(|run| run.id).collect();
        let rows: Vec<(String, String)> = sqlx::query_as(
            "SELECT source.ulid, max(sweep.ulid) FROM run JOIN run AS source ON source.id = run.reused_from \
             JOIN sweep ON sweep.id = run.sweep WHERE source.id IN (SELECT value FROM json_each(?1)) \
             AND run.id NOT IN (SELECT value FROM json_each(?1)) GROUP BY source.id ORDER BY source.id",
        )
        .bind(to_json("list of runs", &ids)?)
        .fetch_all(&self.reader)
        .await?;
        Ok(rows.into_iter().map(|(run, by)| NeededRun { run, by }).collect())
    }

    async fn pruned_sweeps(&self, candidates: &[Candidate]) -> Result<Vec<PrunedSweep>, StoreError> {
        let mut sweeps: BTreeMap<&str, PrunedSweep> = BTreeMap::new();
        for run in candidates {
            let sweep = sweeps.entry(&run.sweep).or_insert_with(|| PrunedSweep {
                sweep: run.sweep.clone(),
                recipe: run.recipe.clone(),
                removed: 0,
                kept: 0,
            });
            sweep.removed += 1;
        }
        let mut sweeps: Vec<PrunedSweep> = sweeps.into_values().collect();
        for sweep in &mut sweeps {
            let runs = self.runs_of(&SweepId(sweep.sweep.clone())).await?.len();
            sweep.kept = runs.saturating_sub(sweep.removed);
        }
        Ok(sweeps)
    }

    /// Removes runs, and sweeps that have none left. The store must have been opened for a driver, which closes the books of
    /// killed ones.
    ///
    /// # Errors
    /// [`StoreError::UnderWay`] if a driver has begun to work on one of the sweeps in the meantime.
    pub async fn prune(&self, prunable: &Prunable) -> Result<(), StoreError> {
        for run in &prunable.runs {
            self.prune_run(&RunId(run.clone())).await?;
        }
        for sweep in prunable.sweeps.iter().filter(|sweep| sweep.kept == 0) {
            self.prune_sweep(&sweep.sweep).await?;
        }
        Ok(())
    }

    async fn prune_run(&self, run: &RunId) -> Result<(), StoreError> {
        let mut transaction = self.writer.begin_with("BEGIN IMMEDIATE").await?;
        let state: Option<(String, String, String)> = sqlx::query_as(
            "SELECT sweep.ulid, sweep.state, run.state FROM run JOIN sweep ON sweep.id = run.sweep WHERE run.ulid = ?",
        )
        .bind(run.as_str())
        .fetch_optional(&mut *transaction)
        .await?;
        // Another process has removed it.
        let Some((sweep, state, of_run)) = state else { return Ok(()) };
        if state == "running" {
            return Err(StoreError::UnderWay { sweep });
        }
        // There is nothing of it, and it must not look as if it were missing.
        if of_run == RunState::NotNeeded.name() {
            return Ok(());
        }
        insert_pruned(&mut transaction, run).await?;
        // A sweep that was recorded before there were journals gets none.
        if layout::sweep_journal(&self.folder, &sweep).exists() {
            self.append_for_run(&mut transaction, run, &Entry::Pruned { run: run.to_string() }).await?;
        }
        transaction.commit().await?;
        let attempts: Vec<i64> = sqlx::query_scalar(
            "SELECT attempt.id FROM run JOIN attempt ON attempt.run = run.id WHERE run.ulid = ?",
        )
        .bind(run.as_str())
        .fetch_all(&self.reader)
        .await?;
        for attempt in attempts {
            self.remove_attempt(AttemptId(attempt)).await?;
        }
        gone(&layout::run_directory(&self.folder, run.as_str()), |path| fs::remove_dir_all(path))
    }

    async fn prune_sweep(&self, sweep: &str) -> Result<(), StoreError> {
        let mut transaction = self.writer.begin_with("BEGIN IMMEDIATE").await?;
        for statement in [
            "DELETE FROM tag WHERE sweep = (SELECT id FROM sweep WHERE ulid = ?)",
            "DELETE FROM cell_axis WHERE cell IN (SELECT cell.id FROM cell JOIN sweep ON sweep.id = cell.sweep \
             WHERE sweep.ulid = ?)",
            "DELETE FROM key_value WHERE sweep = (SELECT id FROM sweep WHERE ulid = ?)",
            "DELETE FROM run WHERE sweep = (SELECT id FROM sweep WHERE ulid = ?)",
            "DELETE FROM cell WHERE sweep = (SELECT id FROM sweep WHERE ulid = ?)",
            "DELETE FROM sweep WHERE ulid = ?",
        ] {
            sqlx::query(statement).bind(sweep).execute(&mut *transaction).await?;
        }
        for statement in [
            "DELETE FROM config WHERE id NOT IN (SELECT config FROM cell)",
            "DELETE FROM recipe WHERE id NOT IN (SELECT recipe FROM sweep)",
        ] {
            sqlx::query(statement).execute(&mut *transaction).await?;
        }
        transaction.commit().await?;
        gone(&layout::sweep_journal(&self.folder, sweep), |path| fs::remove_file(path))
    }
}

/// Removes a file or folder if it exists.
fn gone(path: &Path, remove: impl Fn(&Path) -> std::io::Result<()>) -> Result<(), StoreError> {
    match remove(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(StoreError::Folder { path: path.to_owned(), source: error })
        }
        _ => Ok(()),
    }
}

/// Bytes of all files in a folder; links are not followed.
fn bytes_in(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.file_type() {
            Ok(kind) if kind.is_dir() => bytes_in(&entry.path()),
            _ => entry.metadata().map_or(0, |data| data.len()),
        })
        .sum()
}

/// Makes a run one that was never begun.
pub(crate) async fn insert_pruned(connection: &mut SqliteConnection, run: &RunId) -> Result<(), StoreError> {
    sqlx::query("UPDATE run SET state = 'pending', reused_from = NULL, identity_hash = NULL WHERE ulid = ?")
        .bind(run.as_str())
        .execute(connection)
        .await?;
    Ok(())
}
