//! Who held whom up: workers that step together, compared round by round.
//!
//! A *round* is a step, or, where a strategy exchanges every few steps only, the steps up to an exchange and with it. A
//! worker's *own time* in a round is the time in which its compute lane did not wait. The one with the largest own time is the
//! *last* of the round (of equal ones, the lowest rank), and it *imposes* on each other worker what that one waited, but no
//! more than the difference of their own times: what is beyond that, the last one waits itself, for the network or
//! a server.
//!
//! Rounds are compared that have all workers that are still there, with steady steps alone. What reaches others only in a
//! later round, as a delay does in a pipeline or among neighbours that pass it on, is compared with that round: exact for
//! a worker that is slow all the time, and too little for delays that wander. It is never more than was waited.

use record::{Nanos, Rank};
use std::collections::BTreeMap;

/// What a worker's steady steps say about it and the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Held {
    /// Rounds in which it was the last one.
    pub(crate) last: u64,
    /// For how long it made the others wait in them, all together.
    pub(crate) imposed: Nanos,
}

/// The rounds of an attempt, while its steps come in by number.
#[derive(Debug, Default)]
pub(crate) struct Rounds {
    period: u64,
    /// Steps of each worker.
    steps: BTreeMap<u32, u64>,
    /// The round under way: its number, and what each worker did in it.
    number: u64,
    current: BTreeMap<u32, Share>,
    compared: u64,
    held: BTreeMap<u32, Held>,
}

/// A worker's part of a round.
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    steps: u64,
    own: u64,
    waited: u64,
}

impl Rounds {
    /// Rounds of `period` steps, of workers that make so many steps each. Nobody else is compared.
    pub(crate) fn of(period: u64, steps: BTreeMap<u32, u64>) -> Self {
        Self { period: period.max(1), steps, ..Self::default() }
    }

    /// A steady step of a worker, from 1; none comes after one with a higher number.
    pub(crate) fn add(&mut self, (rank, step): (u32, u64), own: Nanos, waited: Nanos) {
        if !self.steps.contains_key(&rank) {
            return;
        }
        let number = step.div_ceil(self.period);
        if number != self.number {
            self.settle();
            self.number = number;
        }
        let share = self.current.entry(rank).or_default();
        share.steps += 1;
        share.own = share.own.saturating_add(own.0);
        share.waited = share.waited.saturating_add(waited.0);
    }

    /// How many rounds were compared, and what came of it, for those who were ever last.
    pub(crate) fn finish(mut self) -> (u64, BTreeMap<Rank, Held>) {
        self.settle();
        (self.compared, self.held.into_iter().map(|(rank, held)| (Rank(rank), held)).collect())
    }

    fn settle(&mut self) {
        let current = std::mem::take(&mut self.current);
        let begin = self.number.saturating_sub(1).saturating_mul(self.period);
        let here = self.steps.iter().filter(|(_, steps)| **steps > begin).map(|(rank, _)| rank);
        let whole = |rank: &u32| current.get(rank).is_some_and(|share| share.steps == self.period);
        if current.len() < 2 || !here.into_iter().all(whole) {
            return;
        }
        let longest = current.iter().max_by_key(|(rank, share)| (share.own, std::cmp::Reverse(**rank)));
        let Some((last, slowest)) = longest else { return };
        let held = self.held.entry(*last).or_default();
        held.last += 1;
        // The last one is not behind itself, so that it imposes nothing on itself.
        for share in current.values() {
            held.imposed += Nanos(share.waited.min(slowest.own - share.own));
        }
        self.compared += 1;
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
                    rounds.add((rank, step as u64 + 1), Nanos(*own), Nanos(*waited));
                }
            }
        }
        let (count, held) = rounds.finish();
        (count, held.into_iter().map(|(rank, held)| (rank.0, held.last, held.imposed.0)).collect())
    }

    #[test]
    fn the_last_one_imposes_what_the_others_waited_but_no_more_than_it_is_behind() {
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
        // Nobody waits: neighbours at a distance, or all that communicates is hidden.
        assert_eq!(compared(1, &[&[(10, 0)], &[(90, 0)]]), (1, vec![(1, 1, 0)]));
        assert_eq!(compared(1, &[&[(10, 0)]]), (0, vec![]));
    }

    #[test]
    fn an_exchange_every_few_steps_is_waited_for_by_all_of_them() {
        // Two steps and one with an exchange: rank 1 is 30 behind in each, and all 90 are waited for at the end.
        let (fast, slow): (&[_], &[_]) = (&[(10, 0), (10, 0), (10, 95)], &[(40, 0), (40, 0), (40, 5)]);
        assert_eq!(compared(3, &[fast, slow]), (1, vec![(1, 1, 90)]));
        // By single steps it would be the difference of one.
        assert_eq!(compared(1, &[fast, slow]), (3, vec![(1, 3, 30)]));
        // A round that is not whole is not compared.
        assert_eq!(compared(2, &[fast, slow]), (1, vec![(1, 1, 0)]));
    }

    #[test]
    fn only_whole_rounds_of_those_who_are_still_there_count() {
        let (fast, slow) = ([(10, 5); 4], [(15, 0); 4]);
        assert_eq!(compared(1, &[&fast, &slow, &[(90, 0)]]), (4, vec![(1, 3, 15), (2, 1, 5)]));
        // Rank 1 leaves in the middle of the second round.
        assert_eq!(compared(2, &[&fast, &slow[..3]]), (1, vec![(1, 1, 10)]));
        let mut rounds = Rounds::of(1, [(0, 9), (1, 9)].into());
        rounds.add((0, 4), Nanos(1), Nanos(1));
        rounds.add((0, 5), Nanos(1), Nanos(1));
        rounds.add((1, 5), Nanos(2), Nanos(0));
        rounds.add((2, 5), Nanos(99), Nanos(0));
        assert_eq!(rounds.finish(), (1, [(Rank(1), Held { last: 1, imposed: Nanos(1) })].into()));
    }
}
