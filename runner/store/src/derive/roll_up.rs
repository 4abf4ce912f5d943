//! The steps that are kept of an attempt that has ended: of each lane every n-th step, so that about [`CURVE`] remain, and
//! the slowest of each rank; on all ranks, the steps at which a loss is extreme or not finite; steps whose spans are kept; and
//! histograms of all steady ones. Medians, percentiles and the points of curves are the same before and after it.

use crate::derive::cells::cell_of;
use crate::derive::kept_spans::KeptSpans;
use crate::derive::loss_extremes::LossExtremes;
use record::{LaneId, Nanos, Phase, PhaseTimes, Rank};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// The largest number of evenly spaced points of a curve, and of the steps of a lane that are kept for their place alone.
pub(crate) const CURVE: u64 = 500;
/// The slowest steps of each rank and lane that are kept besides.
const SLOWEST: usize = 64;
/// Cells of a histogram per factor of two, as a power of two: each is about 3 % wide.
pub(crate) const HISTOGRAM_BITS: u32 = 5;

/// The distance of the steps that a curve shows, of `last` steps.
pub(crate) fn stride_of(last: u64) -> u64 {
    last.div_ceil(CURVE).max(1)
}

/// A step, as far as the choice needs it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct StepKey {
    pub(crate) lane: LaneId,
    pub(crate) rank: Rank,
    pub(crate) step: u64,
    /// Whether it only drains a pipeline.
    pub(crate) drain: bool,
}

/// Length and loss of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct StepValues {
    pub(crate) length: Nanos,
    /// NaN if it was not finite; `None` if the step has none.
    pub(crate) loss: Option<f64>,
}

/// Length and number of a step.
type Slow = (Nanos, Reverse<u64>);

/// The choice of the steps that stay.
#[derive(Clone, Debug, Default)]
pub(crate) struct Choice {
    /// The last step of each lane, of whichever rank.
    last: BTreeMap<LaneId, u64>,
    /// By length; of equal ones, the earliest is the slowest.
    slowest: BTreeMap<(LaneId, Rank), BTreeSet<Slow>>,
    /// Of the compute lanes.
    losses: LossExtremes,
    spans: KeptSpans,
}

impl Choice {
    /// Among the steps of an attempt of which these `spans` stay.
    pub(crate) fn new(spans: KeptSpans) -> Self {
        Self { spans, ..Self::default() }
    }

    /// Takes a step into account.
    pub(crate) fn add(&mut self, key: StepKey, values: StepValues) {
        let last = self.last.entry(key.lane).or_default();
        *last = key.step.max(*last);
        let slowest = self.slowest.entry((key.lane, key.rank)).or_default();
        slowest.insert((values.length, Reverse(key.step)));
        if slowest.len() > SLOWEST {
            slowest.pop_first();
        }
        if key.lane == LaneId::Compute {
            self.losses.reach(key.step);
            values.loss.into_iter().for_each(|loss| self.losses.add(key.step, loss));
        }
    }

    /// Whether a step stays, once all have been added. The same steps stay when only they are added.
    pub(crate) fn keeps(&self, key: StepKey, length: Nanos) -> bool {
        let last = self.last.get(&key.lane).copied().unwrap_or(0);
        key.step == 0
            || key.drain
            || last.saturating_sub(key.step).is_multiple_of(stride_of(last))
            || self.spans.show(key.lane, key.step)
            || key.lane == LaneId::Compute && self.losses.contains(key.step)
            || self
                .slowest
                .get(&(key.lane, key.rank))
                .is_some_and(|slowest| slowest.contains(&(length, Reverse(key.step))))
    }

    /// Whether the spans of a step stay.
    pub(crate) fn keeps_spans(&self, lane: LaneId, step: u64) -> bool {
        self.spans.keep(lane, step)
    }

    /// The steps of the compute lanes at which a loss is extreme or not finite; none where a curve shows each step.
    pub(crate) fn loss_extremes(&self) -> BTreeSet<u64> {
        if self.stride() == 1 { BTreeSet::new() } else { self.losses.steps().collect() }
    }

    /// Number of steps of the compute lanes that recorded spans; `None` if the spans of all of them stay.
    pub(crate) fn recorded_spans(&self) -> Option<u64> {
        self.spans.recorded()
    }

    /// Whether all steps and spans stay.
    pub(crate) fn keeps_all(&self) -> bool {
        self.spans.recorded().is_none() && self.last.values().all(|last| stride_of(*last) == 1)
    }

    /// The distance of the kept steps of the compute lanes.
    pub(crate) fn stride(&self) -> u64 {
        stride_of(self.last.get(&LaneId::Compute).copied().unwrap_or(0))
    }
}

/// How often each length occurred in the steady steps of a lane, or each time in one phase of theirs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Histogram {
    pub(crate) rank: Rank,
    pub(crate) lane: LaneId,
    /// `None` for the length of the step.
    pub(crate) phase: Option<Phase>,
    /// Number of steps by cell.
    pub(crate) counts: BTreeMap<u32, u64>,
}

/// The histograms of an attempt under construction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Histograms {
    counts: BTreeMap<(Rank, LaneId, Option<Phase>), BTreeMap<u32, u64>>,
}

impl Histograms {
    /// Counts a steady step.
    pub(crate) fn add(&mut self, rank: Rank, lane: LaneId, length: Nanos, phases: &PhaseTimes) {
        let times = phases.iter().filter(|(_, time)| time.0 > 0).map(|(phase, time)| (Some(phase), time));
        for (phase, time) in times.chain([(None, length)]) {
            let counts = self.counts.entry((rank, lane, phase)).or_default();
            *counts.entry(cell_of::<HISTOGRAM_BITS>(time.0)).or_default() += 1;
        }
    }

    /// By rank, lane and phase.
    pub(crate) fn finish(self) -> Vec<Histogram> {
        let of_lanes = self.counts.into_iter();
        of_lanes.map(|((rank, lane, phase), counts)| Histogram { rank, lane, phase, counts }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(rank: u32, step: u64) -> StepKey {
        StepKey { lane: LaneId::Compute, rank: Rank(rank), step, drain: false }
    }

    fn values(length: u64) -> StepValues {
        StepValues { length: Nanos(length), loss: None }
    }

    /// The kept steps of rank 0 among these, and of rank 1 with the same lengths.
    fn kept(steps: &[(u64, u64)]) -> Vec<(u64, u64)> {
        let mut choice = Choice::new(KeptSpans::All([77].into()));
        for (step, length) in steps {
            choice.add(key(0, *step), values(*length));
            choice.add(key(1, *step), values(*length));
        }
        let kept = |rank: u32| {
            steps
                .iter()
                .copied()
                .filter(|(step, length)| choice.keeps(key(rank, *step), Nanos(*length)))
                .collect::<Vec<_>>()
        };
        assert_eq!(kept(0), kept(1));
        kept(0)
    }

    #[test]
    fn every_nth_the_slowest_the_traced_and_the_start_stay() {
        let steps: Vec<(u64, u64)> = (0..=5_000).map(|step| (step, 100 + step * 7_919 % 1_009)).collect();
        let found = kept(&steps);
        let mut longest: Vec<(u64, u64)> = steps.clone();
        longest.sort_by_key(|(step, length)| (Reverse(*length), *step));
        let expected: BTreeSet<(u64, u64)> = steps
            .iter()
            .filter(|(step, _)| step % 10 == 0 || *step == 77)
            .chain(&longest[..SLOWEST])
            .copied()
            .collect();
        assert_eq!(found, expected.into_iter().collect::<Vec<_>>());
        // The steps that stay are chosen again.
        assert_eq!(kept(&found), found);
        let few: Vec<(u64, u64)> = (0..=CURVE).map(|step| (step, step)).collect();
        assert_eq!(kept(&few), few);
    }

    #[test]
    fn all_ranks_keep_the_extreme_losses_of_each() {
        let mut choice = Choice::default();
        for step in 1..=2_000 {
            for rank in 0..2 {
                let loss = match (rank, step) {
                    (1, 777) => 1e3,
                    (0, 1_501..) => f64::NAN,
                    _ => 1.0 + 1.0 / step as f64,
                };
                choice.add(key(rank, step), StepValues { length: Nanos(5), loss: Some(loss) });
            }
        }
        assert_eq!(choice.stride(), 4);
        for step in [777, 1_501] {
            assert!((0..2).all(|rank| choice.keeps(key(rank, step), Nanos(4))), "step {step}");
            assert!(choice.loss_extremes().contains(&step));
        }
        assert!(!choice.keeps(key(1, 1_502), Nanos(4)));
    }

    #[test]
    fn steps_that_drain_stay_and_other_lanes_are_counted_for_themselves() {
        let mut choice = Choice::default();
        for step in 1..=2_000 {
            choice.add(key(0, step), values(1));
        }
        let client = StepKey { lane: LaneId::Client(3), ..key(0, 4) };
        choice.add(client, values(1));
        assert_eq!((choice.stride(), choice.keeps_all()), (4, false));
        assert!(choice.keeps(StepKey { drain: true, ..key(0, 1_999) }, Nanos(1)));
        assert!(!choice.keeps(key(0, 1_999), Nanos(1)) && choice.keeps(client, Nanos(1)));
    }
}
