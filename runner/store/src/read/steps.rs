//! The steps of an attempt, read from the database and summed up.

use crate::derive::roll_up::{Choice, Histogram};
use crate::derive::summary::{LaneTotals, StepRow, Summary, SummaryBuilder};
use crate::journal::entries::RolledUp;
use crate::read::attempt_spec::spec_of;
use crate::read::target::{TargetTotals, target_of, target_with};
use crate::read::timeline::kept_spans;
use crate::read::transfers::transfers_of;
use crate::sql::from_row::from_row;
use crate::sql::value::{decode_phases, int, lane_of, uint};
use crate::{AttemptId, StoreError};
use recipe::{Epoch, Extent, KeptSteps, RunSpec};
use record::Nanos;
use sqlx::sqlite::SqliteConnection;
use std::collections::BTreeSet;

/// Steps fetched at once: a run may have millions.
const PAGE: i64 = 4096;

/// Derives the totals of an attempt from its steps.
pub(crate) async fn summary_of(
    connection: &mut SqliteConnection,
    attempt: AttemptId,
) -> Result<Summary, StoreError> {
    Ok(summed_up(connection, attempt, None).await?.0)
}

/// The totals and the histograms of an attempt; shows its steps to a `choice`.
async fn summed_up(
    connection: &mut SqliteConnection,
    attempt: AttemptId,
    mut choice: Option<&mut Choice>,
) -> Result<(Summary, Vec<Histogram>), StoreError> {
    let spec = spec_of(connection, attempt).await?;
    let warm_up = warm_up_samples(connection, attempt, &spec).await?;
    let lanes = lanes_of(connection, attempt, warm_up).await?;
    let workers = workers_of(connection, attempt).await?;
    let mut builder = SummaryBuilder::new(&spec, lanes, workers);
    each_step(connection, attempt, |row| {
        builder.add(row);
        if let Some(choice) = &mut choice {
            choice.add(row.key(), row.values());
        }
    })
    .await?;
    while builder.end_pass() {
        each_step(connection, attempt, |row| builder.add(row)).await?;
    }
    let histograms = builder.histograms();
    Ok((builder.finish(transfers_of(connection, attempt).await?), histograms))
}

/// The totals that are kept of an attempt that has ended, beside its rows.
pub(crate) struct Totals {
    pub(crate) summary: Summary,
    /// Nothing if the run has no target.
    pub(crate) target: Option<TargetTotals>,
    pub(crate) histograms: Vec<Histogram>,
    /// The steps of the compute lanes that a loss curve shows beside its evenly spaced ones.
    pub(crate) loss_extremes: BTreeSet<u64>,
    /// Number of steps of the compute lanes that recorded spans, if not all of them are kept.
    pub(crate) recorded_spans: Option<u64>,
    /// The steps and spans that stay; nothing if all do.
    pub(crate) choice: Option<Choice>,
}

impl Totals {
    /// Totals that the event log no longer gives once steps are removed; `None` if all stay.
    pub(crate) fn rolled_up(&self) -> Option<RolledUp> {
        self.choice.as_ref()?;
        let hit = self.target.as_ref().and_then(|target| target.hit);
        Some(RolledUp {
            summary: self.summary.clone(),
            hit,
            histograms: self.histograms.clone(),
            recorded_spans: self.recorded_spans,
        })
    }
}

/// Derives the totals of an attempt. It reads all of its steps, so that no lock must be held.
pub(crate) async fn totals_of(
    connection: &mut SqliteConnection,
    attempt: AttemptId,
) -> Result<Totals, StoreError> {
    let spec = spec_of(connection, attempt).await?;
    let mut choice = Choice::new(kept_spans(connection, attempt, &spec.measure).await?);
    let (summary, histograms) = summed_up(connection, attempt, Some(&mut choice)).await?;
    let target = target_of(connection, attempt).await?;
    let loss_extremes = choice.loss_extremes();
    let choice = (spec.measure.steps == KeptSteps::Sampled && !choice.keeps_all()).then_some(choice);
    let recorded_spans = choice.as_ref().and_then(Choice::recorded_spans);
    Ok(Totals { summary, target, histograms, loss_extremes, recorded_spans, choice })
}

/// Totals of an attempt in a rebuilt database: those recorded at its end, and the rest from the steps that were kept.
pub(crate) async fn totals_again(
    connection: &mut SqliteConnection,
    attempt: AttemptId,
    kept: RolledUp,
) -> Result<Totals, StoreError> {
    let RolledUp { summary, hit, histograms, recorded_spans } = kept;
    let spec = spec_of(connection, attempt).await?;
    let mut choice = Choice::new(kept_spans(connection, attempt, &spec.measure).await?);
    each_step(connection, attempt, |row| choice.add(row.key(), row.values())).await?;
    Ok(Totals {
        summary,
        target: target_with(&spec, hit),
        histograms,
        loss_extremes: choice.loss_extremes(),
        // An earlier version kept all spans; they go now.
        recorded_spans: recorded_spans.or_else(|| choice.recorded_spans()),
        choice: Some(choice),
    })
}

async fn workers_of(
    connection: &mut SqliteConnection,
    attempt: AttemptId,
) -> Result<BTreeSet<u32>, StoreError> {
    let workers: Vec<u32> = sqlx::query_scalar("SELECT rank FROM rank WHERE attempt = ? AND role = 'worker'")
        .bind(attempt.0)
        .fetch_all(connection)
        .await?;
    Ok(workers.into_iter().collect())
}

/// Samples of all ranks together after the last step of a warm-up in which the strategy is another one; 0 without one.
async fn warm_up_samples(
    connection: &mut SqliteConnection,
    attempt: AttemptId,
    spec: &RunSpec,
) -> Result<u64, StoreError> {
    let measured = spec.communication.schedule.measured_steps();
    let warm_up = spec.strategy.warm_up();
    if measured == 0 && warm_up == Extent::Steps(0) {
        return Ok(0);
    }
    let known: Option<i64> = sqlx::query_scalar("SELECT max(training_samples) FROM rank WHERE attempt = ?")
        .bind(attempt.0)
        .fetch_one(connection)
        .await?;
    let Some(training_samples) = known.map(uint).filter(|samples| *samples > 0) else { return Ok(0) };
    let epoch = Epoch { training_samples, global_batch: spec.train.global_batch };
    // A step belongs to the warm-up if it begins within it.
    let before = warm_up.samples(training_samples, spec.train.global_batch).checked_sub(1);
    let steps = before.map_or(0, |before| epoch.steps_within(before) + 1).max(measured);
    Ok(if steps == 0 { 0 } else { epoch.samples_after(steps) })
}

from_row! {
    struct LaneColumns {
        lane: i64,
        rank: u32,
        steps: i64,
        warm_up_steps: i64,
        samples: i64,
        finish: i64,
        bytes_out: i64,
        bytes_in: i64,
    }
}

async fn lanes_of(
    connection: &mut SqliteConnection,
    attempt: AttemptId,
    warm_up: u64,
) -> Result<Vec<LaneTotals>, StoreError> {
    let rows: Vec<LaneColumns> = sqlx::query_as(
        "SELECT lane, rank, sum(drain = 0 AND step > 0) AS steps, \
         sum(drain = 0 AND step > 0 AND samples <= ?2) AS warm_up_steps, max(samples) AS samples, \
         max(begin + length) AS finish, sum(bytes_out) AS bytes_out, sum(bytes_in) AS bytes_in \
         FROM step WHERE attempt = ?1 GROUP BY lane, rank ORDER BY lane, rank",
    )
    .bind(attempt.0)
    .bind(int(warm_up))
    .fetch_all(connection)
    .await?;
    rows.into_iter()
        .map(|row| {
            Ok(LaneTotals {
                lane: lane_of(row.lane)?,
                rank: row.rank,
                steps: uint(row.steps),
                warm_up_steps: uint(row.warm_up_steps),
                samples: uint(row.samples),
                end: Nanos(uint(row.finish)),
                bytes_out: uint(row.bytes_out),
                bytes_in: uint(row.bytes_in),
            })
        })
        .collect()
}

from_row! {
    struct StepColumns {
        lane: i64,
        step: i64,
        rank: u32,
        length: i64,
        own_samples: i64,
        drain: bool,
        loss: Option<f64>,
        is_finite: bool,
        phases: Vec<u8>,
        hidden: i64,
    }
}

impl StepColumns {
    fn row(&self) -> Result<StepRow, StoreError> {
        Ok(StepRow {
            lane: lane_of(self.lane)?,
            rank: self.rank,
            step: uint(self.step),
            length: Nanos(uint(self.length)),
            own_samples: uint(self.own_samples),
            drain: self.drain,
            // A loss that is no number is stored as none with a mark.
            loss: if self.is_finite { self.loss } else { Some(f64::NAN) },
            phases: decode_phases(&self.phases)?,
            hidden: Nanos(uint(self.hidden)),
        })
    }
}

/// Reads the steps page by page, by lane, step and rank.
pub(crate) async fn each_step(
    connection: &mut SqliteConnection,
    attempt: AttemptId,
    mut take: impl FnMut(&StepRow),
) -> Result<(), StoreError> {
    let mut lane = -1;
    let mut step = 0;
    let mut rank = -1;
    loop {
        let rows: Vec<StepColumns> = sqlx::query_as(
            "SELECT lane, step, rank, length, own_samples, drain, loss, is_finite, phases, hidden \
             FROM step WHERE attempt = ?1 AND (lane, step, rank) > (?2, ?3, ?4) ORDER BY lane, step, rank LIMIT ?5",
        )
        .bind(attempt.0)
        .bind(lane)
        .bind(step)
        .bind(rank)
        .bind(PAGE)
        .fetch_all(&mut *connection)
        .await?;
        let Some(last) = rows.last() else { return Ok(()) };
        lane = last.lane;
        step = last.step;
        rank = i64::from(last.rank);
        for row in &rows {
            take(&row.row()?);
        }
    }
}
