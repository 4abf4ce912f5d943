//! Which worker made the others wait: workers that step together, compared round by round.
//!
//! A *round* is one step, or, if a strategy exchanges only every few steps, the steps up to and including an exchange. A
//! worker's *own time* in a round is the time in which its compute lane did not wait. The worker with the largest own time
//! is the *last* of the round (ties: lowest rank). It *imposes* on each other worker the time that this one waited, capped
//! at the difference of the two own times; waiting beyond that is caused by the network or a server and hits the last
//! worker too.
//!
//! A round is compared if all workers that still run took part in it with steady steps. A delay that reaches others only in
//! a later round, as in a pipeline or through neighbours, is compared with that round: exact for a worker that is always
//! slow, too small for delays that move from worker to worker, and never more than the waiting time.

use record::{Nanos, Rank};
use std::collections::BTreeMap;

/// A steady step of a worker's compute lane.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WorkerStep {
    pub(crate) rank: u32,
    /// Number of the step, from 1.
    pub(crate) step: u64,
    pub(crate) own: Nanos,
    pub(crate) waited: Nanos,
}

/// Waiting that a worker imposed on the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Imposed {
    /// Rounds in which it was the last one.
    pub(crate) last: u64,
    /// Time that the others waited for it, added up.
    pub(crate) imposed: Nanos,
}

/// The outcome of all rounds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Compared {
    /// Number of rounds that were compared.
    pub(crate) compared: u64,
    /// The workers that were ever last.
    pub(crate) imposed: BTreeMap<Rank, Imposed>,
}

/// Compares rounds while steps arrive in ascending order.
#[derive(Debug, Default)]
pub(crate) struct Rounds {
    period: u64,
    /// Number of steps of each worker.
    steps: BTreeMap<u32, u64>,
    /// Number of the round under way.
    number: u64,
    current: BTreeMap<u32, Share>,
    outcome: Compared,
}

/// A worker's part of a round.
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    steps: u64,
    own: u64,
    waited: u64,
}

impl Rounds {
    /// Rounds of `period` steps. `steps` gives the number of steps of each worker; other ranks are ignored.
    pub(crate) fn of(period: u64, steps: BTreeMap<u32, u64>) -> Self {
        Self { period: period.max(1), steps, ..Self::default() }
    }

    /// The caller adds steps in ascending order of their number.
    pub(crate) fn add(&mut self, step: WorkerStep) {
        if !self.steps.contains_key(&step.rank) {
            return;
        }
        let number = step.step.div_ceil(self.period);
        if number != self.number {
            self.compare();
            self.number = number;
        }
        let share = self.current.entry(step.rank).or_default();
        share.steps += 1;
        share.own = share.own.saturating_add(step.own.0);
        share.waited = share.waited.saturating_add(step.waited.0);
    }

    pub(crate) fn finish(mut self) -> Compared {
        self.compare();
        self.outcome
    }

    fn compare(&mut self) {
        let current = std::mem::take(&mut self.current);
        let begin = self.number.saturating_sub(1).saturating_mul(self.period);
        let here = self.steps.iter().filter(|(_, steps)| **steps > begin).map(|(rank, _)| rank);
        let whole = |rank: &u32| current.get(rank).is_some_and(|share| share.steps == self.period);
        if current.len() < 2 || !here.into_iter().all(whole) {
            return;
        }
        let longest = current.iter().max_by_key(|(rank, share)| (share.own, std::cmp::Reverse(**rank)));
        let Some((last, slowest)) = longest else { return };
        let outcome = self.outcome.imposed.entry(Rank(*last)).or_default();
        outcome.last += 1;
        // The last worker is not behind itself, so it imposes nothing on itself.
        for share in current.values() {
            outcome.imposed += Nanos(share.waited.min(slowest.own - share.own));
        }
        self.outcome.compared += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Steps of workers, each as own time and waiting, rank by rank.
    fn compared(period: u64, workers: &[&[(u64, u64)]]) -> (u64, Vec<(u32, u64, u64)>) {
        let steps = workers.iter().map(|steps| steps.len() as u64);
        let mut rounds = Rounds::of(period, (0..).zip(steps).collect());
        let most = workers.iter().map(|steps| steps.len()).max().unwrap_or(0);
        for step in 0..most {
            for (rank, steps) in (0..).zip(workers) {
                if let Some((own, waited)) = steps.get(step) {
                    rounds.add(worker_step(rank, step as u64 + 1, *own, *waited));
                }
            }
        }
        let outcome = rounds.finish();
        let imposed = outcome.imposed.into_iter();
        (outcome.compared, imposed.map(|(rank, of_rank)| (rank.0, of_rank.last, of_rank.imposed.0)).collect())
    }

    fn worker_step(rank: u32, step: u64, own: u64, waited: u64) -> WorkerStep {
        WorkerStep { rank, step, own: Nanos(own), waited: Nanos(waited) }
    }

    #[test]
    fn the_last_one_imposes_the_waiting_of_the_others_up_to_its_delay() {
        // Rank 2 takes 100 where the others take 10 and 12: they wait for it, and one of them 3 more, as it does itself.
        let straggler = compared(1, &[&[(10, 93), (10, 90)], &[(12, 88), (12, 88)], &[(100, 3), (100, 3)]]);
        assert_eq!(straggler, (2, vec![(2, 2, 90 + 88 + 90 + 88)]));
        // The last one changes.
        assert_eq!(
            compared(1, &[&[(10, 40), (50, 0)], &[(50, 0), (10, 40)]]),
            (2, vec![(0, 1, 40), (1, 1, 40)])
        );
        // All wait for the network alone.
        assert_eq!(compared(1, &[&[(10, 40)], &[(10, 40)]]), (1, vec![(0, 1, 0)]));
        // No worker waits: neighbours at a distance, or all communication is hidden.
        assert_eq!(compared(1, &[&[(10, 0)], &[(90, 0)]]), (1, vec![(1, 1, 0)]));
        assert_eq!(compared(1, &[&[(10, 0)]]), (0, vec![]));
    }

    #[test]
    fn an_exchange_every_few_steps_is_waited_for_by_all_of_them() {
        // Two steps and one with an exchange: rank 1 is 30 behind in each, and all 90 are waited for at the end.
        let fast: &[_] = &[(10, 0), (10, 0), (10, 95)];
        let slow: &[_] = &[(40, 0), (40, 0), (40, 5)];
        assert_eq!(compared(3, &[fast, slow]), (1, vec![(1, 1, 90)]));
        // By single steps it would be the difference of one.
        assert_eq!(compared(1, &[fast, slow]), (3, vec![(1, 3, 30)]));
        // A round that is not whole is not compared.
        assert_eq!(compared(2, &[fast, slow]), (1, vec![(1, 1, 0)]));
    }

    #[test]
    fn only_complete_rounds_of_the_workers_still_running_count() {
        let fast = [(10, 5); 4];
        let slow = [(15, 0); 4];
        assert_eq!(compared(1, &[&fast, &slow, &[(90, 0)]]), (4, vec![(1, 3, 15), (2, 1, 5)]));
        // Rank 1 leaves in the middle of the second round.
        assert_eq!(compared(2, &[&fast, &slow[..3]]), (1, vec![(1, 1, 10)]));
        let mut rounds = Rounds::of(1, [(0, 9), (1, 9)].into());
        rounds.add(worker_step(0, 4, 1, 1));
        rounds.add(worker_step(0, 5, 1, 1));
        rounds.add(worker_step(1, 5, 2, 0));
        rounds.add(worker_step(2, 5, 99, 0));
        let imposed = [(Rank(1), Imposed { last: 1, imposed: Nanos(1) })].into();
        assert_eq!(rounds.finish(), Compared { compared: 1, imposed });
    }
}
