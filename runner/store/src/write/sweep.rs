//! A sweep and its runs: recorded as planned, looked up for reuse, ended.

use crate::journal::entries::{Entry, SweepEnd, SweepEntry};
use crate::journal::lines;
use crate::layout;
use crate::sql::value::state_named;
use crate::write::plan::insert_plan;
use crate::{Commit, Driver, RunId, RunState, Store, StoreError, SweepId};
use recipe::Plan;
use sqlx::sqlite::SqliteConnection;

/// A sweep that begins.
#[derive(Clone, Debug)]
pub struct NewSweep<'a> {
    /// Its cells and runs.
    pub plan: &'a Plan,
    /// The recipe as the user typed it.
    pub recipe_path: &'a str,
    /// The command line.
    pub argv: &'a [String],
    /// Version of the driver.
    pub version: &'a str,
    /// Of the repository that the recipe lies in, if any.
    pub commit: Option<Commit>,
    /// Seconds since 1970.
    pub started: i64,
    /// The process that drives it.
    pub driver: Driver,
}

/// A finished run of an earlier sweep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunRef {
    /// The run that is planned.
    pub run: RunId,
    /// The sweep that plans it.
    pub sweep: SweepId,
    /// How it ended: done or diverged.
    pub state: RunState,
}

/// A page that was made.
#[derive(Clone, Copy, Debug)]
pub struct NewReport<'a> {
    /// The selection as the user wrote it.
    pub selection: &'a str,
    /// The page's file.
    pub path: &'a str,
    /// SHA-256 of the page, in hexadecimal.
    pub sha256: &'a str,
    /// Seconds since 1970.
    pub created: i64,
}

impl Store {
    /// Records a sweep that begins, with all its cells and runs.
    pub async fn record_sweep(&self, new: &NewSweep<'_>) -> Result<SweepId, StoreError> {
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
        insert_plan(&mut transaction, &entry).await?;
        lines::append(&layout::sweep_journal(&self.folder, id.as_str()), &Entry::Sweep(Box::new(entry)))?;
        transaction.commit().await?;
        Ok(id)
    }

    /// Records the identity of a run ([`recipe::Run::identity`]).
    pub async fn record_identity(&self, run: &RunId, identity: &str) -> Result<(), StoreError> {
        let mut transaction = self.writer.begin_with("BEGIN IMMEDIATE").await?;
        insert_identity(&mut transaction, run, identity).await?;
        let entry = Entry::Identity { run: run.to_string(), identity: identity.to_owned() };
        self.append_for_run(&mut transaction, run, &entry).await?;
        Ok(transaction.commit().await?)
    }

    /// Records that a run takes its result from an earlier one; its state becomes that run's.
    pub async fn record_reuse(&self, run: &RunId, source: &RunId) -> Result<(), StoreError> {
        let mut transaction = self.writer.begin_with("BEGIN IMMEDIATE").await?;
        insert_reuse(&mut transaction, run, source).await?;
        let entry = Entry::Reused { run: run.to_string(), source: source.to_string() };
        self.append_for_run(&mut transaction, run, &entry).await?;
        Ok(transaction.commit().await?)
    }

    /// Records the end of a sweep, at `time` in seconds since 1970.
    pub async fn record_sweep_end(
        &self,
        sweep: &SweepId,
        end: SweepEnd,
        time: i64,
    ) -> Result<(), StoreError> {
        let mut transaction = self.writer.begin_with("BEGIN IMMEDIATE").await?;
        self.record_sweep_end_in(&mut transaction, sweep, end, Some(time)).await?;
        Ok(transaction.commit().await?)
    }

    /// The time is unknown if the driver was killed.
    pub(crate) async fn record_sweep_end_in(
        &self,
        connection: &mut SqliteConnection,
        sweep: &SweepId,
        end: SweepEnd,
        time: Option<i64>,
    ) -> Result<(), StoreError> {
        insert_sweep_end(connection, sweep, end, time).await?;
        lines::append(&layout::sweep_journal(&self.folder, sweep.as_str()), &Entry::SweepEnd { end, time })
    }

    /// Records that a page was made.
    pub async fn record_report(&self, report: &NewReport<'_>) -> Result<(), StoreError> {
        let mut transaction = self.writer.begin_with("BEGIN IMMEDIATE").await?;
        insert_report(&mut transaction, report).await?;
        let entry = Entry::Report {
            selection: report.selection.to_owned(),
            path: report.path.to_owned(),
            sha256: report.sha256.to_owned(),
            created: report.created,
        };
        lines::append(&layout::page_journal(&self.folder), &entry)?;
        Ok(transaction.commit().await?)
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

    /// The newest sweep that was made here, if there is one.
    pub async fn latest_sweep(&self) -> Result<Option<SweepId>, StoreError> {
        let newest = "SELECT ulid FROM sweep WHERE imported_unix IS NULL ORDER BY id DESC LIMIT 1";
        let id: Option<String> = sqlx::query_scalar(newest).fetch_optional(&self.reader).await?;
        Ok(id.map(SweepId))
    }

    /// The newest run with this identity that has a result of its own: done or diverged with all of its ranks, or without ranks that
    /// its recipe let fail, and not itself reused. An imported one is no result of these machines, which its identity knows by kind only.
    pub async fn find_finished(&self, identity: &str) -> Result<Option<RunRef>, StoreError> {
        let row: Option<(String, String, String)> = sqlx::query_as(
            "SELECT run.ulid, sweep.ulid, run.state FROM run JOIN sweep ON sweep.id = run.sweep \
             JOIN attempt ON attempt.run = run.id AND attempt.number = (SELECT max(number) FROM attempt AS try WHERE try.run = run.id) \
             WHERE identity_hash = ? AND reused_from IS NULL AND sweep.imported_unix IS NULL AND CASE \
             WHEN EXISTS (SELECT 1 FROM event WHERE event.attempt = attempt.id AND event.state = 'ordered') \
             THEN run.state IN ('done', 'diverged', 'degraded', 'failed') ELSE run.state IN ('done', 'diverged') \
             AND NOT EXISTS (SELECT 1 FROM loss WHERE loss.attempt = attempt.id) END \
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

    /// Appends to the journal of a run's sweep.
    pub(crate) async fn append_for_run(
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
        lines::append(&layout::sweep_journal(&self.folder, &sweep), entry)
    }
}

pub(crate) async fn insert_identity(
    connection: &mut SqliteConnection,
    run: &RunId,
    identity: &str,
) -> Result<(), StoreError> {
    let changed = sqlx::query("UPDATE run SET identity_hash = ? WHERE ulid = ?")
        .bind(identity)
        .bind(run.as_str())
        .execute(connection)
        .await?;
    must_exist(changed.rows_affected(), run)
}

pub(crate) async fn insert_reuse(
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
    must_exist(changed.rows_affected(), source)
}

fn must_exist(changed: u64, run: &RunId) -> Result<(), StoreError> {
    if changed == 0 { Err(StoreError::Unknown { what: "run", id: run.to_string() }) } else { Ok(()) }
}

pub(crate) async fn insert_sweep_end(
    connection: &mut SqliteConnection,
    sweep: &SweepId,
    end: SweepEnd,
    time: Option<i64>,
) -> Result<(), StoreError> {
    let state = match end {
        SweepEnd::Done => "done",
        SweepEnd::Interrupted => "interrupted",
    };
    sqlx::query("UPDATE sweep SET state = ?, ended_unix = ?, heartbeat_unix = NULL WHERE ulid = ?")
        .bind(state)
        .bind(time)
        .bind(sweep.as_str())
        .execute(&mut *connection)
        .await?;
    if end == SweepEnd::Done {
        // A sweep is done without the repeats that it did not need.
        sqlx::query(
            "UPDATE run SET state = 'not-needed' WHERE state = 'pending' AND sweep = (SELECT id FROM sweep WHERE ulid = ?)",
        )
        .bind(sweep.as_str())
        .execute(connection)
        .await?;
    }
    Ok(())
}

pub(crate) async fn insert_report(
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
