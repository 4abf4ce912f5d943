//! Runs as lines of a list, and one run with its history.

use crate::read::earlier::SURROUNDINGS;
use crate::read::load::standing;
use crate::sql::document::{from_json, to_json};
use crate::sql::from_row::from_row;
use crate::sql::value::{float_of, metric_named, state_named, uint};
use crate::{
    Annotations, NodeRow, RunId, RunInFull, RunLine, RunRow, RunState, Selection, Store, StoreError,
};
use recipe::{Configuration, KeyValue, Metric, Provenance, RunSpec};
use record::Nanos;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// A run with all its attempts.
#[derive(Clone, Debug, Serialize)]
pub struct RunDetail {
    /// As in the list.
    pub line: RunInFull,
    /// The last attempt in full.
    pub run: RunRow,
    /// Tags, note and origin of its sweep.
    pub annotations: Annotations,
    /// The values of its recipe's keys; none of a run of an earlier version.
    #[serde(skip)]
    pub values: Vec<KeyValue>,
    /// The machines of the last attempt.
    pub nodes: Vec<NodeRow>,
    /// Its identity ([`recipe::Run::identity`]), if it is known.
    pub identity: Option<String>,
    /// The run its result was taken from.
    pub reused_from: Option<String>,
    /// All attempts, in order; of a reused run those of its source.
    pub attempts: Vec<AttemptLine>,
    /// Their history, in order.
    pub events: Vec<EventLine>,
}

impl RunDetail {
    /// Everything that it was to do.
    pub fn configuration(&self) -> Configuration {
        Configuration { values: self.values.clone(), spec: self.line.spec.clone() }
    }

    /// Provenance of its last attempt, which decides its numbers together with the configuration; `None` if it was not
    /// recorded.
    pub fn surroundings(&self) -> Option<Provenance> {
        let last = self.events.iter().rev().find(|event| event.state == SURROUNDINGS)?;
        serde_json::from_str(&last.text).ok()
    }
}

/// A line about one attempt.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AttemptLine {
    /// Its number, from 1.
    pub number: u32,
    /// Start, in seconds since 1970.
    pub started: i64,
    /// State in which it ended; of one under way, the state of the run.
    pub state: RunState,
    /// Whether that is what its recipe asked for.
    pub as_ordered: bool,
    /// The reason, in a sentence.
    pub detail: String,
    /// The directory of its logs, events and snapshots.
    pub directory: PathBuf,
}

/// An event of an attempt's history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EventLine {
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// Time of the event, in seconds since 1970.
    pub time: i64,
    /// The state after it.
    pub state: String,
    /// Details; may be empty.
    pub text: String,
}

/// Configurations by their row.
type Specs = BTreeMap<i64, RunSpec>;

/// The last evaluations by attempt.
type Latest = BTreeMap<(i64, Metric), f64>;

from_row! {
    struct LineColumns {
        ulid: String,
        sweep_row: i64,
        sweep: String,
        recipe: String,
        arm: String,
        condition: String,
        repeat: u32,
        state: String,
        as_ordered: bool,
        reused: bool,
        config: i64,
        attempt: Option<i64>,
        started: Option<i64>,
        training: Option<i64>,
        /// That of the recipe's target.
        metric: Option<String>,
    }
}

/// A line, and the row of its configuration.
struct Listed {
    line: RunLine,
    config: i64,
}

impl Store {
    /// The runs that fit, in the order in which they were planned.
    pub async fn list(&self, selection: &Selection) -> Result<Vec<RunLine>, StoreError> {
        Ok(self.listed(selection).await?.into_iter().map(|listed| listed.line).collect())
    }

    /// The runs that fit, with their configurations, which takes longer than the lines alone.
    pub async fn list_in_full(&self, selection: &Selection) -> Result<Vec<RunInFull>, StoreError> {
        let listed = self.listed(selection).await?;
        let configs: BTreeSet<i64> = listed.iter().map(|listed| listed.config).collect();
        // A configuration is parsed once for all runs that share it.
        let specs = self.specs_of(&to_json("list of configurations", &configs)?).await?;
        listed
            .into_iter()
            .map(|Listed { line, config }| {
                let unknown = || StoreError::Unknown { what: "configuration", id: config.to_string() };
                Ok(RunInFull { line, spec: specs.get(&config).cloned().ok_or_else(unknown)? })
            })
            .collect()
    }

    async fn listed(&self, selection: &Selection) -> Result<Vec<Listed>, StoreError> {
        let fitting: Vec<i64> = self.fitting(selection).await?.into_iter().map(|run| run.run).collect();
        let abandoned = self.abandoned_sweeps().await?;
        let wanted = to_json("list of runs", &fitting)?;
        let metrics = self.latest_metrics_of(&wanted).await?;
        let rows: Vec<LineColumns> = sqlx::query_as(
            "SELECT run.ulid, sweep.id AS sweep_row, sweep.ulid AS sweep, sweep.name AS recipe, \
             cell.arm_name AS arm, cell.condition, run.repeat, run.state, cell.config, \
             EXISTS (SELECT 1 FROM event WHERE event.attempt = attempt.id AND event.state = 'ordered') AS as_ordered, run.reused_from IS NOT NULL AS reused, \
             attempt.id AS attempt, attempt.started_unix AS started, attempt.training, \
             (SELECT spec ->> '$.train.target.metric' FROM config WHERE id = cell.config) AS metric FROM run \
             JOIN sweep ON sweep.id = run.sweep JOIN cell ON cell.id = run.cell \
             JOIN shown ON shown.run = run.id LEFT JOIN attempt ON attempt.id = shown.attempt \
             WHERE run.id IN (SELECT value FROM json_each(?)) ORDER BY substr(sweep.ulid, 1, 10), sweep.id, run.position",
        )
        .bind(&wanted)
        .fetch_all(&self.reader)
        .await?;
        let annotations = self.annotations().await?;
        rows.into_iter()
            .map(|row| {
                let abandoned = abandoned.contains(&row.sweep_row);
                let said = annotations.get(&row.sweep);
                let mut listed = listed(row, &metrics, abandoned)?;
                if let Some(said) = said {
                    listed.line.tags.clone_from(&said.tags);
                    listed.line.imported = said.imported.is_some();
                }
                Ok(listed)
            })
            .collect()
    }

    /// The run whose id begins or ends with `part`.
    ///
    /// # Errors
    /// [`StoreError::Unknown`] if no run has such an id, [`StoreError::Ambiguous`] if several have.
    pub async fn show(&self, part: &str) -> Result<RunDetail, StoreError> {
        let run = self.find_run(part).await?;
        let mut rows = self.sweep_rows(&Selection::run(&run)).await?;
        let unknown = || StoreError::Unknown { what: "run", id: part.to_owned() };
        let line = self.list_in_full(&Selection::run(&run)).await?.pop().ok_or_else(unknown)?;
        let row = rows.runs.pop().ok_or_else(unknown)?;
        let (identity, reused_from): (Option<String>, Option<String>) = sqlx::query_as(
            "SELECT run.identity_hash, source.ulid FROM run LEFT JOIN run AS source ON source.id = run.reused_from \
             WHERE run.ulid = ?",
        )
        .bind(run.as_str())
        .fetch_one(&self.reader)
        .await?;
        let owner = reused_from.clone().map_or(run, RunId);
        Ok(RunDetail {
            values: rows.plan.values_of(row.cell),
            run: row,
            annotations: rows.annotations,
            nodes: rows.nodes,
            identity,
            reused_from,
            attempts: self.attempts_of(&owner, line.state).await?,
            events: self.events_of(&owner).await?,
            line,
        })
    }

    /// The run whose id begins or ends with `part`; with `last`, letters that no id has, the one that started last.
    ///
    /// # Errors
    /// [`StoreError::Unknown`] if no run has such an id, [`StoreError::Ambiguous`] if several have.
    pub async fn find_run(&self, part: &str) -> Result<RunId, StoreError> {
        if part == "last" {
            return self.last_run().await;
        }
        let wanted = part.to_ascii_uppercase();
        let found: Vec<String> = sqlx::query_scalar(
            "SELECT ulid FROM run WHERE substr(ulid, 1, length(?1)) = ?1 OR substr(ulid, -length(?1)) = ?1 \
             ORDER BY id LIMIT 5",
        )
        .bind(&wanted)
        .fetch_all(&self.reader)
        .await?;
        match <[String; 1]>::try_from(found) {
            Ok([only]) if !wanted.is_empty() => Ok(RunId(only)),
            Ok(_) => Err(StoreError::Unknown { what: "run", id: part.to_owned() }),
            Err(none) if none.is_empty() => Err(StoreError::Unknown { what: "run", id: part.to_owned() }),
            Err(candidates) => Err(StoreError::Ambiguous { part: part.to_owned(), candidates }),
        }
    }

    async fn last_run(&self) -> Result<RunId, StoreError> {
        let last: Option<String> = sqlx::query_scalar(
            "SELECT ulid FROM run JOIN attempt ON attempt.run = run.id ORDER BY started_unix DESC, attempt.id DESC LIMIT 1",
        )
        .fetch_optional(&self.reader)
        .await?;
        last.map(RunId).ok_or_else(|| StoreError::Unknown { what: "run", id: "last".to_owned() })
    }

    async fn attempts_of(&self, run: &RunId, standing: RunState) -> Result<Vec<AttemptLine>, StoreError> {
        let rows: Vec<(u32, i64, String, String, bool)> = sqlx::query_as(
            "SELECT number, started_unix, attempt.state, detail, \
             EXISTS (SELECT 1 FROM event WHERE event.attempt = attempt.id AND event.state = 'ordered') FROM attempt JOIN run ON run.id = attempt.run \
             WHERE run.ulid = ? ORDER BY number",
        )
        .bind(run.as_str())
        .fetch_all(&self.reader)
        .await?;
        rows.into_iter()
            .map(|(number, started, state, detail, as_ordered)| {
                let state = match state_named(&state)? {
                    RunState::Running => standing,
                    state => state,
                };
                let directory = self.attempt_directory(run, number);
                Ok(AttemptLine { number, started, state, as_ordered, detail, directory })
            })
            .collect()
    }

    async fn events_of(&self, run: &RunId) -> Result<Vec<EventLine>, StoreError> {
        let rows: Vec<(u32, i64, String, String)> = sqlx::query_as(
            "SELECT number, time_unix, event.state, text FROM event JOIN attempt ON attempt.id = event.attempt \
             JOIN run ON run.id = attempt.run WHERE run.ulid = ? ORDER BY event.id",
        )
        .bind(run.as_str())
        .fetch_all(&self.reader)
        .await?;
        Ok(rows
            .into_iter()
            .map(|(attempt, time, state, text)| EventLine { attempt, time, state, text })
            .collect())
    }

    async fn specs_of(&self, wanted: &str) -> Result<Specs, StoreError> {
        let rows: Vec<(i64, String)> =
            sqlx::query_as("SELECT id, spec FROM config WHERE id IN (SELECT value FROM json_each(?))")
                .bind(wanted)
                .fetch_all(&self.reader)
                .await?;
        rows.into_iter().map(|(id, spec)| Ok((id, from_json("configuration", &spec)?))).collect()
    }

    async fn latest_metrics_of(&self, wanted: &str) -> Result<Latest, StoreError> {
        let rows: Vec<(i64, String, Option<f64>)> = sqlx::query_as(
            "SELECT metric_latest.attempt, name, value FROM shown \
             JOIN metric_latest ON metric_latest.attempt = shown.attempt \
             WHERE shown.run IN (SELECT value FROM json_each(?))",
        )
        .bind(wanted)
        .fetch_all(&self.reader)
        .await?;
        rows.into_iter()
            .map(|(attempt, name, value)| Ok(((attempt, metric_named(&name)?), float_of(value))))
            .collect()
    }
}

fn listed(row: LineColumns, metrics: &Latest, abandoned: bool) -> Result<Listed, StoreError> {
    let wanted = row.metric.as_deref().map_or(Ok(Metric::TestAccuracy), metric_named)?;
    let value = row.attempt.and_then(|attempt| metrics.get(&(attempt, wanted)));
    let line = RunLine {
        id: row.ulid,
        sweep: row.sweep,
        recipe: row.recipe,
        arm: row.arm,
        condition: row.condition,
        repeat: row.repeat,
        state: standing(&row.state, abandoned)?,
        as_ordered: row.as_ordered,
        started: row.started,
        training: row.training.map(|time| Nanos(uint(time))),
        metric: value.map(|value| (wanted, *value)),
        tags: Vec::new(),
        imported: false,
        reused: row.reused,
    };
    Ok(Listed { line, config: row.config })
}
