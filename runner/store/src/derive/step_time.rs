//! The step time of an attempt: how long its workers need for one global batch.
//!
//! If workers step together, each step takes as long as the slowest worker needs: the *step time* is the median length of
//! that worker's steady steps. If a strategy exchanges only every few steps, it is the median over such periods of the mean
//! of their steps; a median over single steps would ignore the exchanges.
//!
//! If workers step independently, no single one determines the speed of all. A worker that uses n samples in a step of
//! length t contributes n / t samples per second, and the step time is the global batch divided by the sum over the
//! workers. t is the worker's own median as above and includes its waiting: if a server serves one worker at a time, each
//! step is a whole round of turns, and so is the step time.
//!
//! The *mean step time* is the same with means over all steady steps in place of medians, so that a tail of slow steps
//! counts.

use crate::derive::blocks;
use crate::derive::order_statistics::{FEW, OrderStatistics};
use record::Nanos;
use std::collections::BTreeMap;
use std::ops::Range;

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
                let at = blocks::boundaries(self.count, period).into_iter().map(|place| (place, 0)).collect();
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

/// The slowest worker and its step time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slowest<'a> {
    pub(crate) worker: Worker<'a>,
    pub(crate) step_time: Nanos,
}

/// The slowest worker; of equally slow ones, one with the most steps.
pub(crate) fn slowest<'a>(workers: &[Worker<'a>]) -> Option<Slowest<'a>> {
    let of = |worker: &Worker<'a>| Some(Slowest { worker: *worker, step_time: worker.lengths.typical()? });
    workers.iter().filter_map(of).max_by_key(|slowest| (slowest.step_time, slowest.worker.steps))
}

/// The time in which all workers together use `batch` samples. Workers without a steady step contribute nothing.
pub(crate) fn together(workers: &[Worker], batch: u32) -> Option<Nanos> {
    let rate = |worker: &Worker| {
        let length = worker.lengths.typical().filter(|length| length.0 > 0)?;
        Some(worker.samples as f64 / worker.lengths.count() as f64 / length.0 as f64)
    };
    time_of(batch, workers.iter().filter_map(rate).sum())
}

/// The mean length of the steady steps of the slowest worker, rounded down.
pub(crate) fn slowest_mean(workers: &[Worker]) -> Option<Nanos> {
    workers
        .iter()
        .filter_map(|worker| worker.lengths.time().checked_div(worker.lengths.count()))
        .max()
        .map(Nanos)
}

/// The time in which all workers together use `batch` samples, at their rates over all steady steps.
pub(crate) fn together_mean(workers: &[Worker], batch: u32) -> Option<Nanos> {
    let rates = workers.iter().filter(|worker| worker.lengths.time() > 0);
    time_of(batch, rates.map(|worker| worker.samples as f64 / worker.lengths.time() as f64).sum())
}

/// The time of `batch` samples at `rate` samples per nanosecond.
fn time_of(batch: u32, rate: f64) -> Option<Nanos> {
    (rate > 0.0).then(|| Nanos((f64::from(batch) / rate).round() as u64))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Steps of these lengths, after all passes.
    pub(crate) fn steady(lengths: &[u64], period: u64) -> Lengths {
        let mut steady = Lengths::of(period);
        loop {
            for length in lengths {
                steady.add(*length);
            }
            if !steady.end_pass() {
                return steady;
            }
        }
    }

    fn typical(lengths: &[u64], period: u64) -> Option<Nanos> {
        steady(lengths, period).typical()
    }

    #[test]
    fn a_period_counts_as_its_mean() {
        // Two steps and one with an exchange, three times and a half.
        let lengths = [2, 2, 11, 2, 2, 14, 2, 2, 8, 2, 2];
        assert_eq!(typical(&lengths, 1), Some(Nanos(2)));
        assert_eq!(typical(&lengths, 3), Some(Nanos(5)));
        assert_eq!(typical(&lengths[..2], 3), Some(Nanos(2)));
        assert_eq!(typical(&[], 3), None);
    }

    fn worker(lengths: &[u64], own_samples: u64, period: u64) -> Worker<'static> {
        let lengths: &'static Lengths = Box::leak(Box::new(steady(lengths, period)));
        Worker { lengths, samples: own_samples * lengths.count(), steps: lengths.count() }
    }

    fn time_and_steps(workers: &[Worker]) -> Option<(Nanos, u64)> {
        slowest(workers).map(|slowest| (slowest.step_time, slowest.worker.steps))
    }

    #[test]
    fn longer_runs_are_as_exact_and_take_more_passes() {
        let length = |number: u64| 5_000_000 + number * 7_919 % 100_003;
        let mut steady = Lengths::of(3);
        let mut passes = 1;
        loop {
            (0..200_000).map(length).for_each(|length| steady.add(length));
            if !steady.end_pass() {
                break;
            }
            passes += 1;
        }
        assert!(passes > 1);
        let lengths: Vec<u64> = (0..200_000).map(length).collect();
        let mut means: Vec<u64> =
            lengths.chunks_exact(3).map(|steps| steps.iter().sum::<u64>() / 3).collect();
        means.sort_unstable();
        let median = means[(means.len() - 1) / 2].midpoint(means[means.len() / 2]);
        assert_eq!(steady.typical(), Some(Nanos(median)));
        assert_eq!((steady.count(), steady.time()), (200_000, lengths.iter().sum()));
    }

    #[test]
    fn workers_that_step_together_are_as_fast_as_the_slowest() {
        let workers =
            [worker(&[20, 20, 21], 25, 1), worker(&[200, 190, 300, 200], 25, 1), worker(&[], 25, 1)];
        assert_eq!(time_and_steps(&workers), Some((Nanos(200), 4)));
        assert_eq!(time_and_steps(&[]), None);
    }

    #[test]
    fn the_rates_of_independent_workers_add_up() {
        // Equal workers: 4 x 25 samples in 20 ns are 100 in 20 ns.
        let fast = [20_000, 20_000, 19_000, 20_000, 90_000];
        let equal = [worker(&fast, 25, 1); 4];
        assert_eq!(together(&equal, 100), Some(Nanos(20_000)));
        // One of four ten times as slow: 3 + 1/10 workers are left of 4.
        let slow = [200_000, 200_000];
        let straggler =
            [worker(&fast, 25, 1), worker(&fast, 25, 1), worker(&fast, 25, 1), worker(&slow, 25, 1)];
        assert_eq!(together(&straggler, 100), Some(Nanos(25_806)));
        assert_eq!(time_and_steps(&straggler), Some((Nanos(200_000), 2)));
        // Shares of the batch differ: 34 + 33 + 33.
        let shares = [worker(&[10_000], 34, 1), worker(&[10_000], 33, 1), worker(&[10_000], 33, 1)];
        assert_eq!(together(&shares, 100), Some(Nanos(10_000)));
        // An exchange every second step counts in both.
        assert_eq!(together(&[worker(&[2_000, 10_000, 2_000, 10_000], 50, 2); 2], 100), Some(Nanos(6_000)));
        // A worker without a steady step contributes nothing; without any rate there is no step time.
        assert_eq!(together(&[worker(&fast, 50, 1), worker(&[], 50, 1)], 100), Some(Nanos(40_000)));
        assert_eq!(together(&[worker(&[0, 0], 50, 1)], 100), None);
        assert_eq!(together(&[worker(&fast, 0, 1)], 100), None);
    }

    #[test]
    fn a_tail_counts_in_the_mean_and_not_in_the_median() {
        // Every fourth step of worker 1 takes ten times as long: 5 + 5 + 5 + 50 in 65.
        let tail = [5, 5, 5, 50, 5, 5, 5, 51];
        let workers = [worker(&[9, 9, 9], 1, 1), worker(&tail, 1, 1), worker(&[], 1, 1)];
        assert_eq!(
            (time_and_steps(&workers), slowest_mean(&workers)),
            (Some((Nanos(9), 3)), Some(Nanos(16)))
        );
        assert_eq!((slowest_mean(&[]), slowest_mean(&[worker(&[], 1, 1)])), (None, None));
        // 3 samples in 27 ns and 8 in 131 ns: 100 in 100 / (1 / 9 + 8 / 131).
        assert_eq!(together_mean(&workers, 100), Some(Nanos(581)));
        assert_eq!(together(&workers, 100), Some(Nanos(321)));
        assert_eq!(together_mean(&[worker(&[0, 0], 5, 1), worker(&[], 5, 1)], 100), None);
        assert_eq!(together_mean(&[worker(&[9], 0, 1)], 100), None);
    }

    /// Turns of one worker after the other: each waits for all others, so that its step is the whole round.
    #[test]
    fn where_one_is_served_at_a_time_the_step_is_a_round_of_turns() {
        let turns = [30_000, 10_000, 10_000, 20_000];
        let round = [turns.iter().sum::<u64>(); 5];
        let workers = turns.map(|_| worker(&round, 25, 1));
        assert_eq!(together(&workers, 100), Some(Nanos(70_000)));
        assert_eq!(time_and_steps(&workers), Some((Nanos(70_000), 5)));
    }
}
