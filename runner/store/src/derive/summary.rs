//! An attempt in a few numbers, derived from its steps: when it ends, or, if it still runs or its driver was killed, when
//! it is read.
//!
//! A lane's *steady* steps are those after its first max(3, 10 %) steps, at most its first half, without those that only
//! drain a pipeline: by then caches, connections and memory of the tensor library have settled. If a strategy begins as
//! another one, as `pipe-sgd` begins as `d-sync`, the count starts after that warm-up. `step_time.rs` defines the step time
//! of an attempt. Its *steps* are those of its slowest worker; if workers step independently, they have no common number
//! of steps, and it is the samples that all have consumed divided by the global batch, rounded. A median of an even number
//! of values is the mean of the middle two, rounded down; the 95th percentile is the value of rank ceil(0.95 n).

use crate::derive::blocks;
use crate::derive::lengths::{Lengths, Worker};
use crate::derive::order_statistics::OrderStatistics;
use crate::derive::roll_up::{Histogram, Histograms, StepKey, StepValues};
use crate::derive::rounds::{Imposed, Rounds, WorkerStep};
use crate::derive::step_time;
use crate::{BlockRow, PaceRow, PhaseRow, Steady, TransferRow};
use recipe::RunSpec;
use record::{Category, LaneId, Nanos, Phase, PhaseTimes, Rank};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The totals of an attempt.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Summary {
    pub(crate) training: Option<Nanos>,
    pub(crate) step_time: Option<Nanos>,
    pub(crate) mean_step_time: Option<Nanos>,
    pub(crate) steps: u64,
    pub(crate) samples: u64,
    pub(crate) rounds: u64,
    pub(crate) ranks: BTreeMap<Rank, RankSummary>,
    pub(crate) transfers: Vec<TransferRow>,
    pub(crate) blocks: Vec<BlockRow>,
}

/// The totals of a rank.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct RankSummary {
    pub(crate) exposed: Nanos,
    pub(crate) hidden: Nanos,
    pub(crate) steady: Steady,
    pub(crate) pace: Option<PaceRow>,
    pub(crate) bytes_out: u64,
    pub(crate) bytes_in: u64,
    pub(crate) phases: Vec<PhaseRow>,
}

/// One step of one lane.
#[derive(Clone, Debug)]
pub(crate) struct StepRow {
    pub(crate) lane: LaneId,
    pub(crate) rank: u32,
    /// From 1; 0 is the start-up.
    pub(crate) step: u64,
    pub(crate) length: Nanos,
    pub(crate) own_samples: u64,
    /// Whether it only drains a pipeline.
    pub(crate) drain: bool,
    /// NaN if it was not finite.
    pub(crate) loss: Option<f64>,
    pub(crate) phases: PhaseTimes,
    /// Communication of the rank's other lanes that computation hid.
    pub(crate) hidden: Nanos,
}

impl StepRow {
    pub(crate) fn key(&self) -> StepKey {
        StepKey { lane: self.lane, rank: Rank(self.rank), step: self.step, drain: self.drain }
    }

    pub(crate) fn values(&self) -> StepValues {
        StepValues { length: self.length, loss: self.loss }
    }
}

/// All steps of one lane, added up.
#[derive(Clone, Debug)]
pub(crate) struct LaneTotals {
    pub(crate) lane: LaneId,
    pub(crate) rank: u32,
    pub(crate) steps: u64,
    /// Steps of a warm-up in which the strategy was another one.
    pub(crate) warm_up_steps: u64,
    pub(crate) samples: u64,
    pub(crate) end: Nanos,
    pub(crate) bytes_out: u64,
    pub(crate) bytes_in: u64,
}

impl LaneTotals {
    /// The last step that does not count as steady yet.
    fn last_unsteady(&self) -> u64 {
        let own = self.steps.saturating_sub(self.warm_up_steps);
        self.warm_up_steps + (own / 10).max(3).min(own / 2)
    }
}

/// Takes the steps of an attempt one by one, in one pass or several, in memory that does not grow with their number.
pub(crate) struct SummaryBuilder<'a> {
    spec: &'a RunSpec,
    lanes: Vec<LaneTotals>,
    workers: BTreeSet<u32>,
    last_unsteady: BTreeMap<(LaneId, u32), u64>,
    rounds: Rounds,
    steady: BTreeMap<(LaneId, u32), SteadySteps>,
    histograms: Histograms,
    first_pass: bool,
}

/// The steady steps of a lane.
struct SteadySteps {
    lengths: Lengths,
    /// The lengths without waiting; of compute lanes only.
    own: OrderStatistics,
    samples: u64,
    exposed: Nanos,
    hidden: Nanos,
    phases: BTreeMap<Phase, OrderStatistics>,
}

impl SteadySteps {
    fn of(period: u64) -> Self {
        Self {
            lengths: Lengths::of(period),
            own: OrderStatistics::default(),
            samples: 0,
            exposed: Nanos(0),
            hidden: Nanos(0),
            phases: BTreeMap::new(),
        }
    }

    fn end_pass(&mut self) -> bool {
        let others = self.phases.values_mut().chain([&mut self.own]);
        let open = others.map(OrderStatistics::end_pass).fold(false, |open, more| open | more);
        self.lengths.end_pass() | open
    }
}

impl<'a> SummaryBuilder<'a> {
    /// `lanes` in any order; `workers` are the ranks that train.
    pub(crate) fn new(spec: &'a RunSpec, lanes: Vec<LaneTotals>, workers: BTreeSet<u32>) -> Self {
        // Workers that step independently are not compared: their steps with the same number are unrelated.
        let compared = lanes
            .iter()
            .filter(|lane| lane.lane == LaneId::Compute && workers.contains(&lane.rank))
            .filter(|_| !spec.strategy.is_asynchronous())
            .map(|lane| (lane.rank, lane.steps));
        Self {
            spec,
            rounds: Rounds::of(spec.strategy.period(), compared.collect()),
            last_unsteady: lanes.iter().map(|lane| ((lane.lane, lane.rank), lane.last_unsteady())).collect(),
            lanes,
            workers,
            steady: BTreeMap::new(),
            histograms: Histograms::default(),
            first_pass: true,
        }
    }

    /// Adds a step; in each pass all steps again. Those of the compute lanes must come in ascending order of their number.
    pub(crate) fn add(&mut self, row: &StepRow) {
        let key = (row.lane, row.rank);
        let last_unsteady = self.last_unsteady.get(&key).copied().unwrap_or(0);
        if row.drain || row.step <= last_unsteady {
            return;
        }
        let period = self.spec.strategy.period();
        let steady = self.steady.entry(key).or_insert_with(|| SteadySteps::of(period));
        let waited = waiting(&row.phases);
        let own = row.length - waited;
        if row.lane == LaneId::Compute {
            steady.own.add(own.0);
        }
        steady.lengths.add(row.length.0);
        for (phase, time) in row.phases.iter().filter(|(_, time)| time.0 > 0) {
            steady.phases.entry(phase).or_default().add(time.0);
        }
        if !self.first_pass {
            return;
        }
        if row.lane == LaneId::Compute {
            self.rounds.add(WorkerStep { rank: row.rank, step: row.step, own, waited });
        }
        self.histograms.add(Rank(row.rank), row.lane, row.length, &row.phases);
        steady.samples += row.own_samples;
        steady.exposed += row.phases.exposed();
        steady.hidden += row.hidden;
    }

    /// Ends a pass. Returns whether another one is needed before [`SummaryBuilder::finish`].
    pub(crate) fn end_pass(&mut self) -> bool {
        self.first_pass = false;
        self.steady.values_mut().map(SteadySteps::end_pass).fold(false, |open, more| open | more)
    }

    /// The histograms of all steady steps; none are left.
    pub(crate) fn histograms(&mut self) -> Vec<Histogram> {
        std::mem::take(&mut self.histograms).finish()
    }

    pub(crate) fn finish(mut self, transfers: Vec<TransferRow>) -> Summary {
        let samples = self.lanes.iter().map(|lane| lane.samples).max().unwrap_or(0);
        let pace = self.step_time(samples);
        let rounds = std::mem::take(&mut self.rounds).finish();
        let mut summary = Summary {
            steps: pace.as_ref().map_or(0, |pace| pace.steps),
            samples,
            step_time: pace.as_ref().map(|pace| pace.typical),
            mean_step_time: pace.as_ref().and_then(|pace| pace.mean),
            blocks: pace.map(|pace| pace.blocks).unwrap_or_default(),
            rounds: rounds.compared,
            transfers,
            ..Summary::default()
        };
        for lane in &self.lanes {
            let period = self.spec.strategy.period();
            let steady = self.steady.remove(&(lane.lane, lane.rank));
            let steady = steady.unwrap_or_else(|| SteadySteps::of(period));
            let of_rank = summary.ranks.entry(Rank(lane.rank)).or_default();
            of_rank.bytes_out += lane.bytes_out;
            of_rank.bytes_in += lane.bytes_in;
            if lane.lane == LaneId::Compute {
                of_rank.exposed = steady.exposed;
                of_rank.hidden = steady.hidden;
                of_rank.steady = Steady { time: Nanos(steady.lengths.time()), steps: steady.lengths.count() };
            }
            of_rank.phases.extend(phase_rows(lane.lane, steady.phases));
            if lane.lane == LaneId::Compute && self.workers.contains(&lane.rank) {
                summary.training = summary.training.max(Some(lane.end));
                let Imposed { last, imposed } =
                    rounds.imposed.get(&Rank(lane.rank)).copied().unwrap_or_default();
                of_rank.pace = steady.own.median().map(|own| PaceRow { own, last, imposed });
            }
        }
        summary
    }

    /// The step time and the number of steps; nothing without a steady step.
    fn step_time(&self, samples: u64) -> Option<Timing> {
        let workers: Vec<Worker> = self
            .lanes
            .iter()
            .filter(|lane| lane.lane == LaneId::Compute && self.workers.contains(&lane.rank))
            .filter_map(|lane| Some((lane, self.steady.get(&(lane.lane, lane.rank))?)))
            .map(|(lane, steady)| Worker {
                lengths: &steady.lengths,
                samples: steady.samples,
                steps: lane.steps,
            })
            .collect();
        let global_batch = self.spec.train.global_batch;
        if self.spec.strategy.is_asynchronous() {
            let typical = step_time::together(&workers, global_batch)?;
            let mean = step_time::together_mean(&workers, global_batch);
            let steps = self.spec.train.steps_of(samples).round() as u64;
            let blocks = blocks::together(&workers, global_batch);
            return Some(Timing { typical, mean, steps, blocks });
        }
        let slowest = step_time::slowest(&workers)?;
        let blocks = blocks::of(slowest.worker.lengths);
        let mean = step_time::slowest_mean(&workers);
        Some(Timing { typical: slowest.step_time, mean, steps: slowest.worker.steps, blocks })
    }
}

struct Timing {
    typical: Nanos,
    mean: Option<Nanos>,
    steps: u64,
    blocks: Vec<BlockRow>,
}

/// The time in which a lane waited, for a peer or for another lane.
fn waiting(times: &PhaseTimes) -> Nanos {
    let waits = times.iter().filter(|(phase, _)| phase.category() == Category::Waiting);
    waits.fold(Nanos(0), |sum, (_, time)| sum + time)
}

fn phase_rows(lane: LaneId, phases: BTreeMap<Phase, OrderStatistics>) -> impl Iterator<Item = PhaseRow> {
    phases.into_iter().map(move |(phase, times)| PhaseRow {
        lane,
        phase,
        count: times.count(),
        total: times.total(),
        p50: times.median().unwrap_or_default(),
        p95: times.p95().unwrap_or_default(),
        max: times.max(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_exact() {
        let mut times = OrderStatistics::default();
        (1..=100).rev().for_each(|time| times.add(time));
        assert!(!times.end_pass());
        let rows: Vec<_> = phase_rows(LaneId::Compute, [(Phase::Forward, times)].into()).collect();
        assert_eq!((rows[0].p50, rows[0].p95, rows[0].max), (Nanos(50), Nanos(95), Nanos(100)));
        assert_eq!((rows[0].count, rows[0].total), (100, Nanos(5050)));
    }

    #[test]
    fn short_runs_keep_half_of_their_steps() {
        let last_unsteady = |steps| {
            LaneTotals {
                lane: LaneId::Compute,
                rank: 0,
                steps,
                warm_up_steps: 0,
                samples: 0,
                end: Nanos(0),
                bytes_out: 0,
                bytes_in: 0,
            }
            .last_unsteady()
        };
        assert_eq!([0, 1, 2, 5, 6, 30, 200].map(last_unsteady), [0, 0, 1, 2, 3, 3, 20]);
    }
}
