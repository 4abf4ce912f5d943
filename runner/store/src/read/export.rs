//! Tables for other programs, page by page, so that a table may be larger than memory.

use crate::derive::cells::range_of;
use crate::derive::roll_up::HISTOGRAM_BITS;
use crate::sql::document::to_json;
use crate::sql::value::{decode_counts, decode_phases, int, lane_of, uint};
use crate::{Selection, Store, StoreError};
use record::Phase;
use sqlx::sqlite::SqliteRow;
use sqlx::{Row, TypeInfo, ValueRef};
use std::collections::VecDeque;

/// The columns of a run.
const RUNS: [&str; 24] = [
    "run",
    "sweep",
    "recipe",
    "position",
    "arm",
    "strategy",
    "condition",
    "workers",
    "repeat",
    "seed",
    "state",
    "reused",
    "attempt",
    "started_unix",
    "wall_s",
    "training_s",
    "step_ms",
    "mean_step_ms",
    "steps",
    "samples",
    "test_accuracy",
    "test_loss",
    "detail",
    "ranks_lost",
];

/// A table for other programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportTable {
    /// One row per run.
    Runs,
    /// One row per step, rank and lane, with the time in each phase; of long runs those that are kept.
    Steps,
    /// One row per evaluation.
    Metrics,
    /// One row per rank, lane and phase: totals over the steady steps.
    Phases,
    /// One row per machine and reading of its counters.
    Hosts,
    /// One row per rank, lane, phase and range of times: number of steady steps.
    Histograms,
}

/// The columns of [`ExportTable::Hosts`].
const HOSTS: &[&str] = &[
    "run",
    "node",
    "at_ns",
    "cores",
    "busy_ns",
    "steal_ns",
    "own_ns",
    "cpu_pressure_ns",
    "memory_pressure_ns",
    "load",
    "frequency_khz",
    "governor",
    "memory_available_bytes",
    "clock_error_ns",
];

impl ExportTable {
    /// Every table that can be exported.
    pub const ALL: [Self; 6] =
        [Self::Runs, Self::Steps, Self::Metrics, Self::Phases, Self::Hosts, Self::Histograms];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Runs => "runs",
            Self::Steps => "steps",
            Self::Metrics => "metrics",
            Self::Phases => "phases",
            Self::Hosts => "hosts",
            Self::Histograms => "histograms",
        }
    }

    /// The names of the columns, with units.
    pub fn columns(self) -> Vec<String> {
        let fixed: &[&str] = match self {
            Self::Runs => &RUNS,
            Self::Steps => &[
                "run",
                "rank",
                "lane",
                "step",
                "begin_ns",
                "length_ns",
                "samples",
                "own_samples",
                "bytes_out",
                "bytes_in",
                "loss",
                "is_finite",
                "rate",
                "drain",
                "hidden_ns",
            ],
            Self::Metrics => &[
                "run",
                "metric",
                "model",
                "step",
                "samples",
                "epoch",
                "at_ns",
                "value",
                "is_finite",
                "judged",
            ],
            Self::Phases => &[
                "run", "rank", "lane", "phase", "category", "count", "total_ns", "p50_ns", "p95_ns", "max_ns",
            ],
            Self::Hosts => HOSTS,
            Self::Histograms => &["run", "rank", "lane", "phase", "from_ns", "to_ns", "steps"],
        };
        let phases = Phase::ALL.iter().map(|phase| format!("{}_ns", phase.name().replace('-', "_")));
        let phases = phases.filter(|_| self == Self::Steps);
        fixed.iter().map(|name| (*name).to_owned()).chain(phases).collect()
    }

    /// One page of one run: `?1` is its row, `?2` to `?4` the key after which the page begins, `?5` its size.
    fn page(self) -> &'static str {
        match self {
            Self::Runs => {
                "SELECT runs_flat.run, runs_flat.sweep, recipe, runs_flat.position, arm, strategy, condition, workers, \
                 runs_flat.repeat, runs_flat.seed, runs_flat.state, reused, attempt, started_unix, wall_s, training_s, \
                 step_ms, mean_step_ms, steps, samples, test_accuracy, test_loss, detail, \
                 (SELECT count(*) FROM shown JOIN loss ON loss.attempt = shown.attempt WHERE shown.run = run.id) \
                 FROM runs_flat JOIN run ON run.ulid = runs_flat.run WHERE run.id = ?1 AND ?2 < 0 AND ?3 < 0 AND ?4 < 0 LIMIT ?5"
            }
            Self::Steps => {
                "SELECT run.ulid, step.rank, lane, step, \
                 begin, length, step.samples, own_samples, bytes_out, bytes_in, loss, is_finite, rate, drain, hidden, phases, \
                 lane, step, step.rank FROM run JOIN shown ON shown.run = run.id \
                 JOIN step ON step.attempt = shown.attempt WHERE run.id = ?1 \
                 AND (lane, step.step, step.rank) > (?2, ?3, ?4) ORDER BY lane, step.step, step.rank LIMIT ?5"
            }
            Self::Metrics => {
                "SELECT run.ulid, name, model, step, metric.samples, epoch, at, value, is_finite, judged FROM run \
                 JOIN shown ON shown.run = run.id \
                 JOIN metric ON metric.attempt = shown.attempt WHERE run.id = ?1 AND ?2 < 0 AND ?3 < 0 AND ?4 < 0 \
                 ORDER BY at, step, name, model LIMIT ?5"
            }
            Self::Phases => {
                "SELECT run.ulid, rank, lane, phase.name, \
                 category, count, total, p50, p95, max FROM run \
                 JOIN shown ON shown.run = run.id \
                 JOIN phase_total ON phase_total.attempt = shown.attempt JOIN phase ON phase.id = phase_total.phase \
                 WHERE run.id = ?1 AND ?2 < 0 AND ?3 < 0 AND ?4 < 0 ORDER BY rank, lane, phase.id LIMIT ?5"
            }
            Self::Hosts => {
                "SELECT run.ulid, node, at, cores, busy, steal, own, cpu_pressure, memory_pressure, load, frequency, governor, \
                 memory_available, clock_error FROM run JOIN shown ON shown.run = run.id JOIN host ON host.attempt = shown.attempt \
                 WHERE run.id = ?1 AND ?2 < 0 AND ?3 < 0 AND ?4 < 0 ORDER BY node, at LIMIT ?5"
            }
            Self::Histograms => {
                "SELECT run.ulid, rank, lane, coalesce(phase.name, 'step'), counts FROM run \
                 JOIN shown ON shown.run = run.id JOIN step_histogram ON step_histogram.attempt = shown.attempt \
                 LEFT JOIN phase ON phase.id = step_histogram.phase \
                 WHERE run.id = ?1 AND ?2 < 0 AND ?3 < 0 AND ?4 < 0 ORDER BY rank, lane, step_histogram.phase LIMIT ?5"
            }
        }
    }
}

/// A value of a table.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Missing, or NaN in a column of numbers.
    Null,
    /// Signed integer, as SQLite stores it.
    Integer(i64),
    /// Floating-point number, which may be infinite.
    Real(f64),
    /// As it is, without quotes.
    Text(String),
}

/// A table, read page by page.
#[derive(Debug)]
pub struct Export {
    store: Store,
    table: ExportTable,
    runs: VecDeque<i64>,
    after: (i64, i64, i64),
}

/// The column of the lane, in the tables that have one.
const LANE: usize = 2;
/// Rows of a page of steps.
const STEPS: i64 = 4096;

impl Store {
    /// Reads `table` for the runs that match. Runs that never began have rows in `runs` only.
    ///
    /// # Errors
    /// [`StoreError::Empty`] if no run matches.
    pub async fn export(&self, table: ExportTable, selection: &Selection) -> Result<Export, StoreError> {
        let runs: VecDeque<i64> = self.fitting(selection).await?.into_iter().map(|run| run.run).collect();
        if runs.is_empty() {
            return Err(StoreError::Empty { selection: selection.to_string() });
        }
        Ok(Export { store: self.clone(), table, runs, after: BEGIN })
    }
}

impl Store {
    /// For each run that fits and of which not all steps are kept, the distance of those that are, in steps.
    pub async fn sampled_runs(&self, selection: &Selection) -> Result<Vec<u64>, StoreError> {
        let runs: Vec<i64> = self.fitting(selection).await?.into_iter().map(|run| run.run).collect();
        let strides: Vec<i64> = sqlx::query_scalar(
            "SELECT step_stride FROM shown JOIN attempt ON attempt.id = shown.attempt \
             WHERE shown.run IN (SELECT value FROM json_each(?)) AND step_stride IS NOT NULL",
        )
        .bind(to_json("list of runs", &runs)?)
        .fetch_all(&self.reader)
        .await?;
        Ok(strides.into_iter().map(uint).collect())
    }

    /// Number of runs that fit and of whose spans only those of a timeline's steps are kept.
    pub async fn thinned_traces(&self, selection: &Selection) -> Result<usize, StoreError> {
        let runs: Vec<i64> = self.fitting(selection).await?.into_iter().map(|run| run.run).collect();
        let count: i64 = sqlx::query_scalar(
            "SELECT count(*) FROM shown JOIN attempt ON attempt.id = shown.attempt \
             WHERE shown.run IN (SELECT value FROM json_each(?)) AND traced_steps IS NOT NULL",
        )
        .bind(to_json("list of runs", &runs)?)
        .fetch_one(&self.reader)
        .await?;
        Ok(usize::try_from(count).unwrap_or(0))
    }
}

const BEGIN: (i64, i64, i64) = (-1, -1, -1);

impl Export {
    /// The next rows, each with a value per column of [`ExportTable::columns`]; `None` at the end.
    pub async fn next_page(&mut self) -> Result<Option<Vec<Vec<Value>>>, StoreError> {
        while let Some(run) = self.runs.front().copied() {
            let paged = self.table == ExportTable::Steps;
            let rows = sqlx::query(self.table.page())
                .bind(run)
                .bind(self.after.0)
                .bind(self.after.1)
                .bind(self.after.2)
                .bind(if paged { STEPS } else { i64::MAX })
                .fetch_all(&self.store.reader)
                .await?;
            if paged && let Some(last) = rows.last() {
                self.after = (last.try_get(16)?, last.try_get(17)?, last.try_get(18)?);
            } else {
                self.runs.pop_front();
                self.after = BEGIN;
            }
            if !rows.is_empty() {
                if self.table == ExportTable::Histograms {
                    return rows
                        .iter()
                        .map(cells)
                        .collect::<Result<Vec<_>, _>>()
                        .map(|rows| Some(rows.concat()));
                }
                return rows.iter().map(|row| self.values(row)).collect::<Result<_, _>>().map(Some);
            }
        }
        Ok(None)
    }

    fn values(&self, row: &SqliteRow) -> Result<Vec<Value>, StoreError> {
        let columns = if self.table == ExportTable::Steps { 15 } else { row.len() };
        let mut values = (0..columns).map(|column| value(row, column)).collect::<Result<Vec<_>, _>>()?;
        if matches!(self.table, ExportTable::Steps | ExportTable::Phases) {
            values[LANE] = Value::Text(lane_of(row.try_get(LANE)?)?.to_string());
        }
        if self.table != ExportTable::Steps {
            return Ok(values);
        }
        let times = decode_phases(row.try_get(15)?)?;
        values.extend(times.iter().map(|(_, time)| Value::Integer(int(time.0))));
        Ok(values)
    }
}

/// The rows of a histogram, one for each range with steps.
fn cells(row: &SqliteRow) -> Result<Vec<Vec<Value>>, StoreError> {
    let lane = Value::Text(lane_of(row.try_get(LANE)?)?.to_string());
    let head = [value(row, 0)?, value(row, 1)?, lane, value(row, 3)?];
    let counts = decode_counts(row.try_get(4)?)?;
    let rows = counts.into_iter().map(|(cell, count)| {
        let (from, to) = range_of::<HISTOGRAM_BITS>(cell);
        let numbers = [from, to, count].map(|number| Value::Integer(int(number)));
        head.iter().cloned().chain(numbers).collect()
    });
    Ok(rows.collect())
}

fn value(row: &SqliteRow, column: usize) -> Result<Value, StoreError> {
    let raw = row.try_get_raw(column)?;
    if raw.is_null() {
        return Ok(Value::Null);
    }
    Ok(match raw.type_info().name() {
        "INTEGER" => Value::Integer(row.try_get_unchecked(column)?),
        "REAL" => Value::Real(row.try_get_unchecked(column)?),
        _ => Value::Text(row.try_get_unchecked(column)?),
    })
}
