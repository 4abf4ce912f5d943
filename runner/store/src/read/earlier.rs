//! The earlier runs of a recipe, from which a driver explains why it runs, repeats or reuses one.

use crate::read::plan::values_of;
use crate::sql::document::from_json;
use crate::sql::from_row::from_row;
use crate::sql::value::{seed_of, state_named, uint};
use crate::{RunId, RunState, Store, StoreError, SweepId};
use recipe::{KeyValue, Provenance, RunSpec};
use sqlx::sqlite::SqliteConnection;
use std::time::Duration;

/// A run of an earlier sweep that may be used again.
#[derive(Clone, Debug)]
pub struct EarlierRun {
    /// Id of the run in the store.
    pub run: RunId,
    /// ULID of the sweep that it belongs to.
    pub sweep: SweepId,
    /// Place of its cell in the plan of that sweep.
    pub cell: EarlierCell,
    /// Name of its arm.
    pub arm: String,
    /// Condition of its cell; empty where the recipe varies nothing but arms.
    pub condition: String,
    /// Which repeat, from 0.
    pub repeat: u32,
    /// How it stands by the book: running where its driver lives, or was killed.
    pub state: RunState,
    /// The wall time of its last attempt, where the run has a result.
    pub took: Option<Duration>,
    /// Why its last attempt ended, in a sentence; empty for a run that is done or was never begun.
    pub detail: String,
    /// Seed of everything random in it.
    pub seed: u64,
    /// Specification that it ran.
    pub spec: RunSpec,
    /// Identity ([`recipe::Run::identity`]), by which a run is the same as another; `None` if it was not known.
    pub identity: Option<String>,
    /// Provenance of its last attempt; `None` if it was not recorded.
    pub surroundings: Option<Provenance>,
}

/// The place of a cell in an earlier plan, by indices.
#[derive(Clone, Copy, Debug)]
pub struct EarlierCell {
    /// Index into [`recipe::Plan::arms`].
    pub arm: usize,
    /// Index into [`recipe::Plan::cells`].
    pub cell: usize,
}

/// The state of the event in an attempt's history which says that it lost ranks, or failed, because its recipe asked for it.
pub(crate) const ORDERED: &str = "ordered";

/// The state of the event in an attempt's history that holds the surroundings.
pub(crate) const SURROUNDINGS: &str = "surroundings";

from_row! {
    struct Columns {
        ulid: String,
        sweep: String,
        arm: i64,
        position: i64,
        arm_name: String,
        condition: String,
        repeat: u32,
        state: String,
        detail: Option<String>,
        wall: Option<i64>,
        seed: String,
        spec: String,
        identity_hash: Option<String>,
        surroundings: Option<String>,
    }
}

impl Store {
    /// For each arm, condition and repeat of the recipe of this name the newest run with numbers of its own, or
    /// tried in vain.
    pub async fn earlier_runs(&self, recipe: &str) -> Result<Vec<EarlierRun>, StoreError> {
        let rows: Vec<Columns> = sqlx::query_as(
            "SELECT run.ulid, sweep.ulid AS sweep, cell.arm, cell.position, cell.arm_name, cell.condition, run.repeat, run.state, attempt.detail, attempt.wall, run.seed, \
             config.spec, run.identity_hash, (SELECT event.text FROM event WHERE event.attempt = attempt.id \
             AND event.state = 'surroundings' ORDER BY event.id DESC LIMIT 1) AS surroundings, max(run.id) \
             FROM run JOIN sweep ON sweep.id = run.sweep JOIN cell ON cell.id = run.cell \
             JOIN config ON config.id = cell.config JOIN attempt ON attempt.id = \
             (SELECT try.id FROM attempt AS try WHERE try.run = run.id ORDER BY try.number DESC LIMIT 1) \
             WHERE sweep.name = ? AND run.reused_from IS NULL AND sweep.imported_unix IS NULL \
             GROUP BY cell.arm_name, cell.condition, run.repeat ORDER BY run.id",
        )
        .bind(recipe)
        .fetch_all(&self.reader)
        .await?;
        rows.into_iter().map(Columns::row).collect()
    }

    /// The values of the keys of a sweep's runs; none of a sweep of an earlier version.
    pub async fn key_values(&self, sweep: &SweepId) -> Result<Vec<KeyValue>, StoreError> {
        let mut connection = self.reader.acquire().await?;
        let sweep: i64 = sqlx::query_scalar("SELECT id FROM sweep WHERE ulid = ?")
            .bind(sweep.as_str())
            .fetch_one(&mut *connection)
            .await?;
        values_of(&mut connection, sweep).await
    }

    /// Distinct provenances of the attempts of a sweep's runs, as far as they were recorded.
    pub async fn provenances(&self, sweep: &str) -> Result<Vec<Provenance>, StoreError> {
        let mut connection = self.reader.acquire().await?;
        let sweep: i64 = sqlx::query_scalar("SELECT id FROM sweep WHERE ulid = ?")
            .bind(sweep)
            .fetch_one(&mut *connection)
            .await?;
        provenances_of(&mut connection, sweep).await
    }

    /// The newest imported run with this identity that has a result of its own.
    pub async fn find_imported(&self, identity: &str) -> Result<Option<RunId>, StoreError> {
        let found: Option<String> = sqlx::query_scalar(
            "SELECT run.ulid FROM run JOIN sweep ON sweep.id = run.sweep WHERE identity_hash = ? \
             AND run.state IN ('done', 'diverged') AND reused_from IS NULL AND sweep.imported_unix IS NOT NULL ORDER BY run.id DESC LIMIT 1",
        )
        .bind(identity)
        .fetch_optional(&self.reader)
        .await?;
        Ok(found.map(RunId))
    }

    /// The runs with this identity that ended early or were not finished, each with its sweep; the last one first.
    pub async fn ended_early(&self, identity: &str) -> Result<Vec<(RunId, SweepId)>, StoreError> {
        let rows: Vec<(String, String)> = sqlx::query_as(
            "SELECT run.ulid, sweep.ulid FROM run JOIN sweep ON sweep.id = run.sweep \
             WHERE identity_hash = ? AND run.state NOT IN ('done', 'diverged', 'pending') \
             AND reused_from IS NULL AND sweep.imported_unix IS NULL ORDER BY run.id DESC",
        )
        .bind(identity)
        .fetch_all(&self.reader)
        .await?;
        Ok(rows.into_iter().map(|(run, sweep)| (RunId(run), SweepId(sweep))).collect())
    }
}

/// Distinct provenances of the attempts of a sweep's runs.
pub(crate) async fn provenances_of(
    connection: &mut SqliteConnection,
    sweep: i64,
) -> Result<Vec<Provenance>, StoreError> {
    let found: Vec<String> = sqlx::query_scalar(
        "SELECT DISTINCT event.text FROM run JOIN shown ON shown.run = run.id \
         JOIN event ON event.attempt = shown.attempt WHERE run.sweep = ? AND event.state = ? ORDER BY event.text",
    )
    .bind(sweep)
    .bind(SURROUNDINGS)
    .fetch_all(connection)
    .await?;
    Ok(found.iter().filter_map(|text| serde_json::from_str(text).ok()).collect())
}

impl Columns {
    fn row(self) -> Result<EarlierRun, StoreError> {
        let state = state_named(&self.state)?;
        let has_result = matches!(state, RunState::Done | RunState::Diverged);
        Ok(EarlierRun {
            run: RunId(self.ulid),
            sweep: SweepId(self.sweep),
            cell: EarlierCell { arm: uint(self.arm) as usize, cell: uint(self.position) as usize },
            arm: self.arm_name,
            condition: self.condition,
            repeat: self.repeat,
            state,
            took: self
                .wall
                .filter(|_| has_result)
                .and_then(|wall| u64::try_from(wall).ok())
                .map(Duration::from_nanos),
            detail: self.detail.unwrap_or_default(),
            seed: seed_of(&self.seed)?,
            spec: from_json("configuration", &self.spec)?,
            identity: self.identity_hash,
            surroundings: self.surroundings.map(|text| from_json(SURROUNDINGS, &text)).transpose()?,
        })
    }
}
