//! The lengths of a worker's steady steps, of which only sums and order statistics are held.

use crate::derive::order_statistics::{FEW, OrderStatistics};
use record::Nanos;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// The largest number of blocks.
pub(crate) const MOST: u64 = 8;
/// The smallest number of blocks.
pub(crate) const FEWEST: u64 = 4;

/// The steady steps of one worker's compute lane.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Worker<'a> {
    pub(crate) lengths: &'a Lengths,
    /// Samples used in these steps.
    pub(crate) samples: u64,
    /// Number of all its steps, steady or not.
    pub(crate) steps: u64,
}

/// The lengths of a lane's steady steps, in nanoseconds and in order; they come in passes.
#[derive(Clone, Debug)]
pub(crate) struct Lengths {
    period: u64,
    /// Steps of the period under way, and their time.
    begun: (u64, u64),
    time: u64,
    count: u64,
    means: OrderStatistics,
    /// The time of all steps before those at the boundaries of blocks.
    sums: Sums,
}

/// Times from the first step on.
#[derive(Clone, Debug)]
enum Sums {
    /// In the first pass, when their number is not known yet: all lengths, while they are few.
    Unknown(Option<Vec<u64>>),
    /// Being added up, with the number of steps so far and their time.
    Open { at: BTreeMap<u64, u64>, count: u64, time: u64 },
    /// By number of steps.
    Known(BTreeMap<u64, u64>),
}

impl Lengths {
    /// Of a strategy that exchanges every `period` steps.
    pub(crate) fn of(period: u64) -> Self {
        let means = OrderStatistics::default();
        let sums = Sums::Unknown(Some(Vec::new()));
        Self { period: period.max(1), begun: (0, 0), time: 0, count: 0, means, sums }
    }

    pub(crate) fn add(&mut self, length: u64) {
        match &mut self.sums {
            Sums::Unknown(lengths) => {
                self.time = self.time.saturating_add(length);
                self.count += 1;
                *lengths = lengths.take().filter(|lengths| lengths.len() < FEW);
                if let Some(lengths) = lengths {
                    lengths.push(length);
                }
            }
            Sums::Open { at, count, time } => {
                *count += 1;
                *time = time.saturating_add(length);
                at.entry(*count).and_modify(|sum| *sum = *time);
            }
            Sums::Known(_) => {}
        }
        let steps = self.begun.0 + 1;
        let time = self.begun.1.saturating_add(length);
        self.begun = (steps, time);
        if steps == self.period {
            self.means.add(time / steps);
            self.begun = (0, 0);
        }
    }

    /// Ends a pass. Returns whether another one is needed.
    pub(crate) fn end_pass(&mut self) -> bool {
        self.begun = (0, 0);
        let period = if self.count < self.period { self.count.max(1) } else { self.period };
        self.sums = match std::mem::replace(&mut self.sums, Sums::Known(BTreeMap::new())) {
            Sums::Unknown(lengths) => {
                let at = boundaries(self.count, period).into_iter().map(|place| (place, 0)).collect();
                let open = Sums::Open { at, count: 0, time: 0 };
                match lengths {
                    None => open,
                    Some(lengths) => {
                        let mut known = Self { sums: open, ..Self::of(self.period) };
                        for length in lengths {
                            known.add(length);
                        }
                        known.closed_sums()
                    }
                }
            }
            Sums::Open { at, .. } | Sums::Known(at) => Sums::Known(at),
        };
        self.means.end_pass() | matches!(self.sums, Sums::Open { .. })
    }

    fn closed_sums(self) -> Sums {
        match self.sums {
            Sums::Open { at, .. } | Sums::Known(at) => Sums::Known(at),
            unknown @ Sums::Unknown(_) => unknown,
        }
    }

    /// The mean length of the steps of a block, in nanoseconds.
    pub(crate) fn mean_of(&self, block: &Range<u64>) -> f64 {
        let sum = |place: u64| match &self.sums {
            Sums::Known(at) => at.get(&place).copied().unwrap_or(0),
            Sums::Unknown(_) | Sums::Open { .. } => 0,
        };
        (sum(block.end) - sum(block.start)) as f64 / (block.end - block.start) as f64
    }

    /// Steps between two exchanges; no more than there are.
    pub(crate) fn period(&self) -> u64 {
        self.period.min(self.count.max(1))
    }

    /// Nanoseconds of all steps.
    pub(crate) fn time(&self) -> u64 {
        self.time
    }

    /// Number of steps in a pass.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// The median over whole periods of the mean length in each; without a whole one, the mean.
    pub(crate) fn typical(&self) -> Option<Nanos> {
        let mean = || self.time.checked_div(self.count).map(Nanos);
        if self.count < self.period { mean() } else { self.means.median() }
    }
}

/// The numbers of steps before all blocks into which a worker's `count` steps may be divided, and after them: by itself in
/// whole periods, and beside others step by step, in as many blocks as the one with the fewest steps has.
fn boundaries(count: u64, period: u64) -> BTreeSet<u64> {
    let divisions = (FEWEST..=MOST).flat_map(|blocks| (0..=blocks).map(move |number| (blocks, number)));
    let of_periods = |(blocks, number)| (count / period) * number / blocks * period;
    let of_steps = |(blocks, number)| count * number / blocks;
    divisions.clone().map(of_periods).chain(divisions.map(of_steps)).collect()
}
