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

use crate::derive::lengths::Worker;
use record::Nanos;

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
    use crate::derive::lengths::Lengths;

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
