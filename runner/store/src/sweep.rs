//! A sweep and its runs: entered as planned, looked up for reuse, closed.

use crate::insert::{Target, insert};
use crate::journal::{self, Entry, SweepEntry};
use crate::value::int;
use crate::{Driver, RunId, RunState, Store, StoreError, SweepId};
use recipe::{Cell, Plan, Run, hex};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use sqlx::sqlite::SqliteConnection;
use std::collections::BTreeMap;

/// What a driver knows when it begins.
#[derive(Clone, Debug)]
pub struct NewSweep<'a> {
    /// What it is going to do.
    pub plan: &'a Plan,
    /// The recipe as the user typed it.
    pub recipe_path: &'a str,
    /// The command line.
    pub argv: &'a [String],
    /// Version of the driver.
    pub version: &'a str,
    /// Commit of the folder the recipe lies in, where it lies in a repository, and whether it had changes.
    pub commit: Option<(String, bool)>,
    /// When it began, as seconds since 1970.
    pub started: i64,
    /// The process that drives it.
    pub driver: Driver,
}

/// How a sweep ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SweepEnd {
    /// Every run has ended, well or not.
    Done,
    /// Some runs were not begun, or were stopped.
    Interrupted,
}

/// A finished run of an earlier sweep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunRef {
    /// Its id.
    pub run: RunId,
    /// Its sweep.
    pub sweep: SweepId,
    /// How it ended: done or diverged.
    pub state: RunState,
}

impl Store {
    /// Enters a sweep with all its cells and runs.
    pub async fn begin_sweep(&self, new: &NewSweep<'_>) -> Result<SweepId, StoreError> {
        let id = SweepId::new();
        let entry = SweepEntry {
            sweep: id.to_string(),
            runs: new.plan.runs.iter().map(|_| RunId::new().0).collect(),
            recipe_path: new.recipe_path.to_owned(),
            argv: new.argv.to_vec(),
            version: new.version.to_owned(),
            commit: new.commit.clone(),
            started: new.started,
            driver: new.driver.clone(),
            plan: new.plan.clone(),
        };
        let mut transaction = self.writer.begin_with("BEGIN IMMEDIATE").await?;
        enter(&mut transaction, &entry).await?;
        journal::append(&journal::of_sweep(&self.folder, id.as_str()), &Entry::Sweep(Box::new(entry)))?;
        transaction.commit().await?;
        Ok(id)
    }

    /// The runs of a sweep in the order of its plan.
    pub async fn runs_of(&self, sweep: &SweepId) -> Result<Vec<RunId>, StoreError> {
        let ids: Vec<String> = sqlx::query_scalar(
            "SELECT run.ulid FROM run JOIN sweep ON sweep.id = run.sweep WHERE sweep.ulid = ? ORDER BY run.position",
        )
        .bind(sweep.as_str())
        .fetch_all(&self.reader)
        .await?;
        Ok(ids.into_iter().map(RunId).collect())
    }

    /// The newest sweep, if there is one.
    pub async fn latest_sweep(&self) -> Result<Option<SweepId>, StoreError> {
        let id: Option<String> = sqlx::query_scalar("SELECT ulid FROM sweep ORDER BY id DESC LIMIT 1")
            .fetch_optional(&self.reader)
            .await?;
        Ok(id.map(SweepId))
    }

    /// Says what makes a run the same as another ([`Run::identity`]).
    pub async fn set_identity(&self, run: &RunId, identity: &str) -> Result<(), StoreError> {
        let mut transaction = self.writer.begin_with("BEGIN IMMEDIATE").await?;
        identify(&mut transaction, run, identity).await?;
        let entry = Entry::Identity { run: run.to_string(), identity: identity.to_owned() };
        self.write_down(&mut transaction, run, &entry).await?;
        Ok(transaction.commit().await?)
    }

    /// The newest run with this identity that has a result of its own: done or diverged with all of its ranks, not
    /// itself reused.
    pub async fn find_finished(&self, identity: &str) -> Result<Option<RunRef>, StoreError> {
        let row: Option<(String, String, String)> = sqlx::query_as(
            "SELECT run.ulid, sweep.ulid, run.state FROM run JOIN sweep ON sweep.id = run.sweep \
             WHERE identity_hash = ? AND run.state IN ('done', 'diverged') AND reused_from IS NULL \
             AND NOT EXISTS (SELECT 1 FROM attempt JOIN loss ON loss.attempt = attempt.id WHERE attempt.run = run.id \
             AND attempt.number = (SELECT max(number) FROM attempt AS try WHERE try.run = run.id)) \
             ORDER BY run.id DESC LIMIT 1",
        )
        .bind(identity)
        .fetch_optional(&self.reader)
        .await?;
        row.map(|(run, sweep, state)| {
            Ok(RunRef { run: RunId(run), sweep: SweepId(sweep), state: state_named(&state)? })
        })
        .transpose()
    }

    /// Takes a run's result from an earlier one; its state becomes that one's.
    pub async fn mark_reused(&self, run: &RunId, source: &RunId) -> Result<(), StoreError> {
        let mut transaction = self.writer.begin_with("BEGIN IMMEDIATE").await?;
        reuse(&mut transaction, run, source).await?;
        let entry = Entry::Reused { run: run.to_string(), source: source.to_string() };
        self.write_down(&mut transaction, run, &entry).await?;
        Ok(transaction.commit().await?)
    }

    /// Closes a sweep.
    pub async fn end_sweep(&self, sweep: &SweepId, end: SweepEnd, time: i64) -> Result<(), StoreError> {
        let mut transaction = self.writer.begin_with("BEGIN IMMEDIATE").await?;
        self.end_sweep_in(&mut transaction, sweep, (end, Some(time))).await?;
        Ok(transaction.commit().await?)
    }

    /// Closes a sweep; no time is known where its driver was killed.
    pub(crate) async fn end_sweep_in(
        &self,
        connection: &mut SqliteConnection,
        sweep: &SweepId,
        (end, time): (SweepEnd, Option<i64>),
    ) -> Result<(), StoreError> {
        close(connection, sweep, (end, time)).await?;
        journal::append(&journal::of_sweep(&self.folder, sweep.as_str()), &Entry::SweepEnd { end, time })
    }

    /// Remembers that a page was made.
    pub async fn note_report(&self, report: &NewReport<'_>) -> Result<(), StoreError> {
        let mut transaction = self.writer.begin_with("BEGIN IMMEDIATE").await?;
        enter_page(&mut transaction, report).await?;
        let entry = Entry::Page {
            selection: report.selection.to_owned(),
            path: report.path.to_owned(),
            sha256: report.sha256.to_owned(),
            created: report.created,
        };
        journal::append(&journal::of_pages(&self.folder), &entry)?;
        Ok(transaction.commit().await?)
    }

    /// Writes into the journal of a run's sweep.
    pub(crate) async fn write_down(
        &self,
        connection: &mut SqliteConnection,
        run: &RunId,
        entry: &Entry,
    ) -> Result<(), StoreError> {
        let sweep: String = sqlx::query_scalar(
            "SELECT sweep.ulid FROM run JOIN sweep ON sweep.id = run.sweep WHERE run.ulid = ?",
        )
        .bind(run.as_str())
        .fetch_one(connection)
        .await?;
        journal::append(&journal::of_sweep(&self.folder, &sweep), entry)
    }
}

/// A page that was made.
#[derive(Clone, Copy, Debug)]
pub struct NewReport<'a> {
    /// The selection as the user wrote it.
    pub selection: &'a str,
    /// Where the page lies.
    pub path: &'a str,
    /// SHA-256 of the page, in hexadecimal.
    pub sha256: &'a str,
    /// When, as seconds since 1970.
    pub created: i64,
}

/// The state of that name.
pub(crate) fn state_named(name: &str) -> Result<RunState, StoreError> {
    RunState::named(name).ok_or_else(|| StoreError::Value { what: "state", value: name.to_owned() })
}

/// A document of plain data as JSON.
pub(crate) fn json(what: &'static str, value: &impl serde::Serialize) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|source| StoreError::Document { what, source })
}

fn some_row(changed: u64, run: &RunId) -> Result<(), StoreError> {
    if changed == 0 { Err(StoreError::Unknown { what: "run", id: run.to_string() }) } else { Ok(()) }
}

async fn next_id(connection: &mut SqliteConnection, query: &'static str) -> Result<i64, StoreError> {
    Ok(sqlx::query_scalar(query).fetch_one(connection).await?)
}

/// Enters a sweep with all its cells and runs.
pub(crate) async fn enter(connection: &mut SqliteConnection, new: &SweepEntry) -> Result<(), StoreError> {
    let sweep = insert_sweep(connection, new).await?;
    let configs = insert_configs(connection, &new.plan.cells).await?;
    let first_cell = next_id(connection, "SELECT coalesce(max(id), 0) + 1 FROM cell").await?;
    insert_cells(connection, &new.plan, &configs, (sweep, first_cell)).await?;
    insert_axes(connection, &new.plan.cells, first_cell).await?;
    insert_runs(connection, new, (sweep, first_cell)).await
}

/// Says what makes a run the same as another.
pub(crate) async fn identify(
    connection: &mut SqliteConnection,
    run: &RunId,
    identity: &str,
) -> Result<(), StoreError> {
    let changed = sqlx::query("UPDATE run SET identity_hash = ? WHERE ulid = ?")
        .bind(identity)
        .bind(run.as_str())
        .execute(connection)
        .await?;
    some_row(changed.rows_affected(), run)
}

/// Takes a run's result from an earlier one.
pub(crate) async fn reuse(
    connection: &mut SqliteConnection,
    run: &RunId,
    source: &RunId,
) -> Result<(), StoreError> {
    let changed = sqlx::query(
        "UPDATE run SET reused_from = source.id, state = source.state FROM run AS source \
         WHERE run.ulid = ? AND source.ulid = ? AND source.reused_from IS NULL",
    )
    .bind(run.as_str())
    .bind(source.as_str())
    .execute(connection)
    .await?;
    some_row(changed.rows_affected(), source)
}

/// Closes a sweep.
pub(crate) async fn close(
    connection: &mut SqliteConnection,
    sweep: &SweepId,
    (end, time): (SweepEnd, Option<i64>),
) -> Result<(), StoreError> {
    let state = match end {
        SweepEnd::Done => "done",
        SweepEnd::Interrupted => "interrupted",
    };
    sqlx::query("UPDATE sweep SET state = ?, ended_unix = ? WHERE ulid = ?")
        .bind(state)
        .bind(time)
        .bind(sweep.as_str())
        .execute(connection)
        .await?;
    Ok(())
}

/// Remembers that a page was made.
pub(crate) async fn enter_page(
    connection: &mut SqliteConnection,
    report: &NewReport<'_>,
) -> Result<(), StoreError> {
    sqlx::query("INSERT INTO report (selection, path, sha256, created_unix) VALUES (?, ?, ?, ?)")
        .bind(report.selection)
        .bind(report.path)
        .bind(report.sha256)
        .bind(report.created)
        .execute(connection)
        .await?;
    Ok(())
}

async fn insert_sweep(connection: &mut SqliteConnection, new: &SweepEntry) -> Result<i64, StoreError> {
    let sha256 = hex(&Sha256::digest(&new.plan.source));
    sqlx::query("INSERT INTO recipe (sha256, source) VALUES (?, ?) ON CONFLICT (sha256) DO NOTHING")
        .bind(&sha256)
        .bind(&new.plan.source)
        .execute(&mut *connection)
        .await?;
    let frame = Plan {
        source: String::new(),
        cells: Vec::new(),
        runs: Vec::new(),
        name: new.plan.name.clone(),
        question: new.plan.question.clone(),
        expanded: new.plan.expanded.clone(),
        arms: new.plan.arms.clone(),
        limits: new.plan.limits,
        report: new.plan.report.clone(),
        warnings: new.plan.warnings.clone(),
    };
    let inserted = sqlx::query(
        "INSERT INTO sweep (ulid, recipe, recipe_path, name, question, plan, argv, version, git_commit, git_dirty, \
         state, started_unix, driver_pid, driver_born) \
         SELECT ?, id, ?, ?, ?, ?, ?, ?, ?, ?, 'running', ?, ?, ? FROM recipe WHERE sha256 = ?",
    )
    .bind(&new.sweep)
    .bind(&new.recipe_path)
    .bind(&new.plan.name)
    .bind(&new.plan.question)
    .bind(json("plan", &frame)?)
    .bind(json("command line", &new.argv)?)
    .bind(&new.version)
    .bind(new.commit.as_ref().map(|(commit, _)| commit))
    .bind(new.commit.as_ref().map(|(_, dirty)| dirty))
    .bind(new.started)
    .bind(new.driver.pid)
    .bind(&new.driver.born)
    .bind(&sha256)
    .execute(connection)
    .await?;
    Ok(inserted.last_insert_rowid())
}

/// Configurations are shared between cells and sweeps; answers the row of each hash.
async fn insert_configs(
    connection: &mut SqliteConnection,
    cells: &[Cell],
) -> Result<BTreeMap<String, i64>, StoreError> {
    let distinct: BTreeMap<&str, &Cell> =
        cells.iter().map(|cell| (cell.config_hash.as_str(), cell)).collect();
    let hashes: Vec<&str> = distinct.keys().copied().collect();
    let known: Vec<(String, i64)> =
        sqlx::query_as("SELECT sha256, id FROM config WHERE sha256 IN (SELECT value FROM json_each(?))")
            .bind(json("configuration hashes", &hashes)?)
            .fetch_all(&mut *connection)
            .await?;
    let mut configs: BTreeMap<String, i64> = known.into_iter().collect();
    let first = next_id(connection, "SELECT coalesce(max(id), 0) + 1 FROM config").await?;
    let new: Vec<(i64, &Cell)> = (first..)
        .zip(distinct.into_values().filter(|cell| !configs.contains_key(&cell.config_hash)))
        .collect();
    let target = Target { head: "INSERT INTO config (id, sha256, spec)", tail: "" };
    insert(connection, target, &new, |(id, cell), values| {
        values.add(*id).add(&cell.config_hash).add(cell.spec.canonical());
    })
    .await?;
    configs.extend(new.into_iter().map(|(id, cell)| (cell.config_hash.clone(), id)));
    Ok(configs)
}

async fn insert_cells(
    connection: &mut SqliteConnection,
    plan: &Plan,
    configs: &BTreeMap<String, i64>,
    (sweep, first_cell): (i64, i64),
) -> Result<(), StoreError> {
    let rows: Vec<(usize, &Cell)> = plan.cells.iter().enumerate().collect();
    let target = Target {
        head: "INSERT INTO cell (id, sweep, position, arm, arm_name, strategy, condition, label, workers, config, \
               excluded)",
        tail: "",
    };
    insert(connection, target, &rows, |(position, cell), values| {
        let arm = plan.arms.get(cell.arm);
        values
            .add(first_cell + *position as i64)
            .add(sweep)
            .add(*position as i64)
            .add(cell.arm as i64)
            .add(arm.map(|arm| &arm.name))
            .add(cell.spec.strategy.kind())
            .add(&cell.condition)
            .add(&cell.label)
            .add(cell.spec.cluster.workers())
            .add(configs.get(&cell.config_hash))
            .add(cell.excluded.as_ref());
    })
    .await
}

async fn insert_axes(
    connection: &mut SqliteConnection,
    cells: &[Cell],
    first_cell: i64,
) -> Result<(), StoreError> {
    let rows: Vec<_> = (first_cell..)
        .zip(cells)
        .flat_map(|(cell, of)| (0_i64..).zip(&of.axes).map(move |(position, axis)| (cell, position, axis)))
        .collect();
    let target = Target { head: "INSERT INTO cell_axis (cell, position, path, text, number)", tail: "" };
    insert(connection, target, &rows, |(cell, position, axis), values| {
        values.add(*cell).add(*position).add(&axis.path).add(&axis.text).add(axis.number);
    })
    .await
}

async fn insert_runs(
    connection: &mut SqliteConnection,
    new: &SweepEntry,
    (sweep, first_cell): (i64, i64),
) -> Result<(), StoreError> {
    let rows: Vec<((i64, &String), &Run)> = (0_i64..).zip(&new.runs).zip(&new.plan.runs).collect();
    let target = Target { head: "INSERT INTO run (ulid, sweep, cell, position, repeat, seed)", tail: "" };
    insert(connection, target, &rows, |((position, id), run), values| {
        values
            .add(*id)
            .add(sweep)
            .add(first_cell + int(run.cell as u64))
            .add(*position)
            .add(run.repeat)
            .add(run.seed.to_string());
    })
    .await
}
