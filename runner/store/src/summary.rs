//! An attempt in a few numbers, derived from its steps: when it ends, or, for one that is under way or whose
//! driver was killed, when somebody looks.
//!
//! *Steady* are a lane's steps after its first max(3, 10 %), at most its first half, without those that only
//! empty a pipeline: caches, connections and memory of the tensor library have settled then. Where a strategy begins as
//! another one, as `pipe-sgd` as `d-sync`, its first step is the first after that. `step_time.rs` says what the
//! step time of an attempt is. Its *steps* are those of its slowest worker; where workers go at their own pace, which have no
//! number of steps in common, the samples that all have consumed divided by the global batch, rounded. A median of an
//! even number of values is the mean of the middle two, rounded down; the 95th percentile is the value of rank ceil(0.95 n).

use crate::insert::{Target, insert};
use crate::rounds::{Held, Rounds};
use crate::step_time::{self, Worker, median, sorted_median};
use crate::value::{COMPUTE, decode_phases, int, lane_code, lane_of, uint};
use crate::{AttemptId, PaceRow, PhaseRow, Steady, StoreError, TransferRow, transfers};
use recipe::{Epoch, Metric, RunSpec, Strategy};
use record::{Category, LaneId, Nanos, Phase, PhaseTimes, Rank};
use sqlx::sqlite::SqliteConnection;
use std::collections::{BTreeMap, BTreeSet};

/// What an attempt's steps come to.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Summary {
    pub(crate) training: Option<Nanos>,
    pub(crate) step_time: Option<Nanos>,
    pub(crate) steps: u64,
    pub(crate) samples: u64,
    pub(crate) rounds: u64,
    pub(crate) ranks: BTreeMap<Rank, RankSummary>,
    pub(crate) transfers: Vec<TransferRow>,
}

/// What a rank's steps come to.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RankSummary {
    pub(crate) exposed: Nanos,
    pub(crate) hidden: Nanos,
    pub(crate) steady: Steady,
    pub(crate) pace: Option<PaceRow>,
    pub(crate) bytes_out: u64,
    pub(crate) bytes_in: u64,
    pub(crate) phases: Vec<PhaseRow>,
}

/// Keeps the totals of an attempt that has ended.
pub(crate) async fn store(
    connection: &mut SqliteConnection,
    attempt: AttemptId,
    summary: &Summary,
) -> Result<(), StoreError> {
    sqlx::query(
        "UPDATE attempt SET training = ?, step_time = ?, steps = ?, samples = ?, rounds = ? WHERE id = ?",
    )
    .bind(summary.training.map(|time| int(time.0)))
    .bind(summary.step_time.map(|time| int(time.0)))
    .bind(int(summary.steps))
    .bind(int(summary.samples))
    .bind(int(summary.rounds))
    .bind(attempt.0)
    .execute(&mut *connection)
    .await?;
    transfers::store(connection, attempt, &summary.transfers).await?;
    for (rank, of_rank) in &summary.ranks {
        store_rank(connection, attempt, *rank, of_rank).await?;
    }
    store_target(connection, attempt).await
}

/// Derives the totals of an attempt from its steps.
pub(crate) async fn of(connection: &mut SqliteConnection, attempt: AttemptId) -> Result<Summary, StoreError> {
    let spec = spec_of(connection, attempt).await?;
    let other_until = other_until(connection, attempt, &spec).await?;
    let lanes = lanes_of(connection, attempt, other_until).await?;
    let mut summary = Summary::default();
    let workers = workers_of(connection, attempt).await?;
    let mut rounds = rounds_of(&spec, &lanes, &workers);
    let mut tallies = tallies(connection, attempt, &lanes, &mut rounds).await?;
    let (compared, mut held) = rounds.finish();
    let pace: Vec<Worker> = lanes
        .iter()
        .filter(|lane| lane.code == COMPUTE && workers.contains(&lane.rank))
        .filter_map(|lane| Some((lane, tallies.get(&(lane.code, lane.rank))?)))
        .map(|(lane, tally)| Worker { lengths: &tally.lengths, samples: tally.samples, steps: lane.steps })
        .collect();
    summary.samples = lanes.iter().map(|lane| lane.samples).max().unwrap_or(0);
    (summary.step_time, summary.steps) = step_time_of(&spec, &pace, summary.samples);
    (summary.rounds, summary.transfers) = (compared, transfers::of(connection, attempt).await?);
    for lane in &lanes {
        let tally = tallies.remove(&(lane.code, lane.rank)).unwrap_or_default();
        let of_rank = summary.ranks.entry(Rank(lane.rank)).or_default();
        of_rank.bytes_out += lane.bytes_out;
        of_rank.bytes_in += lane.bytes_in;
        if lane.code == COMPUTE {
            (of_rank.exposed, of_rank.hidden) = (tally.exposed, tally.hidden);
            of_rank.steady =
                Steady { time: Nanos(tally.lengths.iter().sum()), steps: tally.lengths.len() as u64 };
        }
        of_rank.phases.extend(phase_rows(lane_of(lane.code)?, tally.phases));
        if lane.code == COMPUTE && workers.contains(&lane.rank) {
            summary.training = summary.training.max(Some(lane.end));
            let Held { last, imposed } = held.remove(&Rank(lane.rank)).unwrap_or_default();
            of_rank.pace = median(tally.own).map(|own| PaceRow { own, last, imposed });
        }
    }
    Ok(summary)
}

/// Rounds in which the workers are compared: nobody is where each goes at its own pace, because steps with the same number
/// have nothing to do with each other there.
fn rounds_of(spec: &RunSpec, lanes: &[Lane], workers: &BTreeSet<u32>) -> Rounds {
    let trains = |lane: &&Lane| lane.code == COMPUTE && workers.contains(&lane.rank);
    let steps = lanes.iter().filter(trains).filter(|_| !spec.strategy.is_asynchronous());
    Rounds::of(spec.strategy.period(), steps.map(|lane| (lane.rank, lane.steps)).collect())
}

/// The step time, and the steps that go with it; without a steady step, neither.
fn step_time_of(spec: &RunSpec, workers: &[Worker], samples: u64) -> (Option<Nanos>, u64) {
    let (period, batch) = (spec.strategy.period(), spec.train.global_batch);
    if spec.strategy.is_asynchronous() {
        let time = step_time::together(workers, period, batch);
        let batch = u64::from(batch.max(1));
        return (time, if time.is_some() { samples.saturating_add(batch / 2) / batch } else { 0 });
    }
    step_time::slowest(workers, period).map_or((None, 0), |(time, steps)| (Some(time), steps))
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

/// A lane of a rank, by its steps.
#[derive(Clone, Debug)]
struct Lane {
    /// As in the column `lane`.
    code: i64,
    rank: u32,
    steps: u64,
    /// Those of them that it took as another strategy.
    other: u64,
    samples: u64,
    end: Nanos,
    bytes_out: u64,
    bytes_in: u64,
}

impl Lane {
    /// The last step that does not count as steady yet.
    fn warm_up(&self) -> u64 {
        let own = self.steps.saturating_sub(self.other);
        self.other + (own / 10).max(3).min(own / 2)
    }
}

/// Samples of all ranks together after the last step that is taken as another strategy; 0 where there is none.
async fn other_until(
    connection: &mut SqliteConnection,
    attempt: AttemptId,
    spec: &RunSpec,
) -> Result<u64, StoreError> {
    let Strategy::PipeSgd { warmup, .. } = spec.strategy else { return Ok(0) };
    let known: Option<i64> = sqlx::query_scalar("SELECT max(training_samples) FROM rank WHERE attempt = ?")
        .bind(attempt.0)
        .fetch_one(connection)
        .await?;
    let Some(training_samples) = known.map(uint).filter(|samples| *samples > 0) else { return Ok(0) };
    let epoch = Epoch { training_samples, global_batch: spec.train.global_batch };
    // A step belongs to the warm-up when it begins within it.
    let before = warmup.samples(training_samples, spec.train.global_batch).checked_sub(1);
    Ok(before.map_or(0, |before| epoch.samples_after(epoch.steps_within(before) + 1)))
}

/// Lane, rank, steps, those of another strategy, samples, end, bytes out, bytes in.
type LaneColumns = (i64, u32, i64, i64, i64, i64, i64, i64);

async fn lanes_of(
    connection: &mut SqliteConnection,
    attempt: AttemptId,
    other_until: u64,
) -> Result<Vec<Lane>, StoreError> {
    let rows: Vec<LaneColumns> = sqlx::query_as(
        "SELECT lane, rank, sum(drain = 0 AND step > 0), sum(drain = 0 AND step > 0 AND samples <= ?2), max(samples), \
         max(begin + length), sum(bytes_out), sum(bytes_in) FROM step WHERE attempt = ?1 GROUP BY lane, rank \
         ORDER BY lane, rank",
    )
    .bind(attempt.0)
    .bind(int(other_until))
    .fetch_all(connection)
    .await?;
    Ok(rows
        .into_iter()
        .map(|(code, rank, steps, other, samples, end, bytes_out, bytes_in)| Lane {
            code,
            rank,
            steps: uint(steps),
            other: uint(other),
            samples: uint(samples),
            end: Nanos(uint(end)),
            bytes_out: uint(bytes_out),
            bytes_in: uint(bytes_in),
        })
        .collect())
}

/// The steady steps of a lane.
#[derive(Default)]
struct Tally {
    lengths: Vec<u64>,
    /// Of the lengths, what was not waited; of compute lanes only.
    own: Vec<u64>,
    samples: u64,
    exposed: Nanos,
    hidden: Nanos,
    phases: BTreeMap<Phase, Vec<u64>>,
}

/// Lane, step, rank, length, own samples, whether it only drains, phases, hidden communication.
type StepColumns = (i64, i64, u32, i64, i64, bool, Vec<u8>, i64);

/// Steps fetched at once: a run may have millions.
const PAGE: i64 = 4096;

async fn tallies(
    connection: &mut SqliteConnection,
    attempt: AttemptId,
    lanes: &[Lane],
    rounds: &mut Rounds,
) -> Result<BTreeMap<(i64, u32), Tally>, StoreError> {
    let warm_up: BTreeMap<(i64, u32), u64> =
        lanes.iter().map(|lane| ((lane.code, lane.rank), lane.warm_up())).collect();
    let mut tallies: BTreeMap<(i64, u32), Tally> = BTreeMap::new();
    let (mut lane, mut step, mut rank) = (-1, 0, -1);
    loop {
        let rows: Vec<StepColumns> = sqlx::query_as(
            "SELECT lane, step, rank, length, own_samples, drain, phases, hidden FROM step \
             WHERE attempt = ?1 AND (lane, step, rank) > (?2, ?3, ?4) ORDER BY lane, step, rank LIMIT ?5",
        )
        .bind(attempt.0)
        .bind(lane)
        .bind(step)
        .bind(rank)
        .bind(PAGE)
        .fetch_all(&mut *connection)
        .await?;
        let Some(last) = rows.last() else { return Ok(tallies) };
        (lane, step, rank) = (last.0, last.1, i64::from(last.2));
        for (lane, step, rank, length, own_samples, drain, phases, hidden) in rows {
            let begins = warm_up.get(&(lane, rank)).copied().unwrap_or(0);
            if drain || uint(step) <= begins {
                continue;
            }
            let tally = tallies.entry((lane, rank)).or_default();
            let times = decode_phases(&phases)?;
            let waited = waiting(&times);
            let own = Nanos(uint(length)) - waited;
            if lane == COMPUTE {
                rounds.add((rank, uint(step)), own, waited);
                tally.own.push(own.0);
            }
            tally.lengths.push(uint(length));
            tally.samples += uint(own_samples);
            tally.exposed += times.exposed();
            tally.hidden += Nanos(uint(hidden));
            for (phase, time) in times.iter().filter(|(_, time)| time.0 > 0) {
                tally.phases.entry(phase).or_default().push(time.0);
            }
        }
    }
}

/// For how long a lane waited, for a peer or for another lane.
fn waiting(times: &PhaseTimes) -> Nanos {
    let waits = times.iter().filter(|(phase, _)| phase.category() == Category::Waiting);
    waits.fold(Nanos(0), |sum, (_, time)| sum + time)
}

fn phase_rows(lane: LaneId, phases: BTreeMap<Phase, Vec<u64>>) -> impl Iterator<Item = PhaseRow> {
    phases.into_iter().map(move |(phase, mut times)| {
        times.sort_unstable();
        PhaseRow {
            lane,
            phase,
            count: times.len() as u64,
            total: Nanos(times.iter().sum()),
            p50: sorted_median(&times).unwrap_or_default(),
            p95: Nanos(times[(times.len() * 95).div_ceil(100) - 1]),
            max: Nanos(times[times.len() - 1]),
        }
    })
}

async fn store_rank(
    connection: &mut SqliteConnection,
    attempt: AttemptId,
    rank: Rank,
    summary: &RankSummary,
) -> Result<(), StoreError> {
    sqlx::query(
        "UPDATE rank SET exposed = ?, hidden = ?, steady = ?, steady_steps = ?, bytes_out = ?, bytes_in = ?, own = ?, \
         last = ?, imposed = ? WHERE attempt = ? AND rank = ?",
    )
    .bind(int(summary.exposed.0))
    .bind(int(summary.hidden.0))
    .bind(int(summary.steady.time.0))
    .bind(int(summary.steady.steps))
    .bind(int(summary.bytes_out))
    .bind(int(summary.bytes_in))
    .bind(summary.pace.map(|pace| int(pace.own.0)))
    .bind(summary.pace.map(|pace| int(pace.last)))
    .bind(summary.pace.map(|pace| int(pace.imposed.0)))
    .bind(attempt.0)
    .bind(rank.0)
    .execute(&mut *connection)
    .await?;
    let target = Target {
        head: "INSERT OR REPLACE INTO phase_total (attempt, rank, lane, phase, count, total, p50, p95, max)",
        tail: "",
    };
    insert(connection, target, &summary.phases, |row, values| {
        values.add(attempt.0).add(rank.0).add(lane_code(row.lane)).add(row.phase as i64).add(int(row.count));
        values.add(int(row.total.0)).add(int(row.p50.0)).add(int(row.p95.0)).add(int(row.max.0));
    })
    .await
}

/// What the attempt's run does.
async fn spec_of(connection: &mut SqliteConnection, attempt: AttemptId) -> Result<RunSpec, StoreError> {
    let spec: String = sqlx::query_scalar(
        "SELECT config.spec FROM attempt JOIN run ON run.id = attempt.run JOIN cell ON cell.id = run.cell \
         JOIN config ON config.id = cell.config WHERE attempt.id = ?",
    )
    .bind(attempt.0)
    .fetch_one(connection)
    .await?;
    serde_json::from_str(&spec).map_err(|source| StoreError::Document { what: "configuration", source })
}

/// Where and when the target was reached first, if the run has one.
async fn store_target(connection: &mut SqliteConnection, attempt: AttemptId) -> Result<(), StoreError> {
    let spec = spec_of(&mut *connection, attempt).await?;
    let Some(target) = spec.train.target else { return Ok(()) };
    // What a server calls a step is an update of its own: methods compare by samples.
    let batch = i64::from(spec.train.global_batch.max(1));
    let hit = first_hit(connection, attempt, target.metric, &target).await?;
    sqlx::query(
        "INSERT OR REPLACE INTO target_hit (attempt, metric, threshold, reached, at, step, samples, bytes) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, CASE WHEN ?4 THEN \
         (SELECT coalesce(sum(bytes_out), 0) FROM step WHERE attempt = ?1 AND drain = 0 AND samples <= ?7) END)",
    )
    .bind(attempt.0)
    .bind(target.metric.name())
    .bind(target.threshold)
    .bind(hit.is_some())
    .bind(hit.map(|(at, ..)| at))
    .bind(hit.map(|(_, samples)| samples.saturating_add(batch / 2).div_euclid(batch)))
    .bind(hit.map(|(_, samples)| samples))
    .execute(connection)
    .await?;
    Ok(())
}

/// Time and samples of the first evaluation that reaches the target in time.
async fn first_hit(
    connection: &mut SqliteConnection,
    attempt: AttemptId,
    metric: Metric,
    target: &recipe::Target,
) -> Result<Option<(i64, i64)>, StoreError> {
    let values: Vec<(i64, i64, f64)> = sqlx::query_as(
        "SELECT at, samples, value FROM metric WHERE attempt = ? AND name = ? AND judged AND value IS NOT NULL \
         ORDER BY at, step",
    )
    .bind(attempt.0)
    .bind(metric.name())
    .fetch_all(connection)
    .await?;
    let latest =
        target.after.map_or(i64::MAX, |after| int(u64::try_from(after.as_nanos()).unwrap_or(u64::MAX)));
    Ok(values
        .into_iter()
        .find(|(at, .., value)| *at <= latest && target.reached(*value))
        .map(|(at, samples, _)| (at, samples)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_exact() {
        let phases = BTreeMap::from([(Phase::Forward, (1..=100).rev().collect())]);
        let rows: Vec<_> = phase_rows(LaneId::Compute, phases).collect();
        assert_eq!((rows[0].p50, rows[0].p95, rows[0].max), (Nanos(50), Nanos(95), Nanos(100)));
        assert_eq!((rows[0].count, rows[0].total), (100, Nanos(5050)));
    }

    #[test]
    fn short_runs_keep_half_of_their_steps() {
        let warm_up = |steps| {
            Lane { code: 0, rank: 0, steps, other: 0, samples: 0, end: Nanos(0), bytes_out: 0, bytes_in: 0 }
                .warm_up()
        };
        assert_eq!([0, 1, 2, 5, 6, 30, 200].map(warm_up), [0, 0, 1, 2, 3, 3, 20]);
    }
}
