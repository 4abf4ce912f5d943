//! What is kept of the steps of an attempt that has ended: of each lane every n-th step, so that about [`CURVE`] remain, and
//! the slowest of each rank; steps whose spans are kept; and histograms of all steady ones. Medians, percentiles and the points
//! of curves are the same before and after it.

use crate::derive::cells::cell_of;
use record::{LaneId, Nanos, Phase, PhaseTimes, Rank};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// The largest number of points of a curve, and of the steps of a lane that are kept for their place alone.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StepKey {
    pub(crate) lane: LaneId,
    pub(crate) rank: Rank,
    pub(crate) step: u64,
    /// Whether it only drains a pipeline.
    pub(crate) drain: bool,
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
    /// Steps of the compute lanes whose spans are kept.
    traced: BTreeSet<u64>,
}

impl Choice {
    /// Among steps of which the `traced` ones of the compute lanes have spans.
    pub(crate) fn new(traced: BTreeSet<u64>) -> Self {
        Self { traced, ..Self::default() }
    }

    /// Takes a step into account.
    pub(crate) fn add(&mut self, key: StepKey, length: Nanos) {
        let last = self.last.entry(key.lane).or_default();
        *last = key.step.max(*last);
        let slowest = self.slowest.entry((key.lane, key.rank)).or_default();
        slowest.insert((length, Reverse(key.step)));
        if slowest.len() > SLOWEST {
            slowest.pop_first();
        }
    }

    /// Whether a step stays, once all have been added. The same steps stay when only they are added.
    pub(crate) fn keeps(&self, key: StepKey, length: Nanos) -> bool {
        let last = self.last.get(&key.lane).copied().unwrap_or(0);
        key.step == 0
            || key.drain
            || last.saturating_sub(key.step).is_multiple_of(stride_of(last))
            || key.lane == LaneId::Compute && self.traced.contains(&key.step)
            || self
                .slowest
                .get(&(key.lane, key.rank))
                .is_some_and(|slowest| slowest.contains(&(length, Reverse(key.step))))
    }

    /// Whether all steps stay.
    pub(crate) fn keeps_all(&self) -> bool {
        self.last.values().all(|last| stride_of(*last) == 1)
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

    /// The kept steps of rank 0 among these, and of rank 1 with the same lengths.
    fn kept(steps: &[(u64, u64)]) -> Vec<(u64, u64)> {
        let mut choice = Choice::new([77].into());
        for (step, length) in steps {
            choice.add(key(0, *step), Nanos(*length));
            choice.add(key(1, *step), Nanos(*length));
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
        // What stays is what is chosen again.
        assert_eq!(kept(&found), found);
        let few: Vec<(u64, u64)> = (0..=CURVE).map(|step| (step, step)).collect();
        assert_eq!(kept(&few), few);
    }

    #[test]
    fn steps_that_drain_stay_and_other_lanes_are_counted_for_themselves() {
        let mut choice = Choice::default();
        for step in 1..=2_000 {
            choice.add(key(0, step), Nanos(1));
        }
        let client = StepKey { lane: LaneId::Client(3), ..key(0, 4) };
        choice.add(client, Nanos(1));
        assert_eq!((choice.stride(), choice.keeps_all()), (4, false));
        assert!(choice.keeps(StepKey { drain: true, ..key(0, 1_999) }, Nanos(1)));
        assert!(!choice.keeps(key(0, 1_999), Nanos(1)) && choice.keeps(client, Nanos(1)));
    }
}
