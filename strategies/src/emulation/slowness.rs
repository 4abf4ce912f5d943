//! Which ranks of a run are slow, and when: a pure function of the recipe and the run's seed.

use crate::rng;
use recipe::{Emulation, FaultAction, PlannedFault, Whom};
use record::Rank;

/// How slow one rank is.
#[derive(Clone, Debug, PartialEq)]
pub struct Slowness {
    rank: Rank,
    seed: u64,
    /// Divisor of the bandwidth of its card.
    link: f64,
    /// Factors on the time of its computing, each with its place in the recipe and its probability in a step.
    compute: Vec<(u64, f64, f64)>,
    /// Planned faults of this rank.
    faults: Vec<PlannedFault>,
}

impl Slowness {
    /// The slowness of a rank in a run with `workers` workers.
    pub fn of(emulation: &Emulation, seed: u64, workers: u32, rank: Rank) -> Self {
        let mut this = Self { rank, seed, link: 1.0, compute: Vec::new(), faults: Vec::new() };
        for (place, slow) in (0_u64..).zip(&emulation.slow) {
            let meant = match slow.whom {
                Whom::Rank(slow) => slow == rank.0,
                Whom::Random(count) => drawn(seed, place, workers, count).contains(&rank.0),
            };
            if meant {
                this.link *= slow.link;
                this.compute.push((place, slow.compute, slow.probability));
            }
        }
        this
    }

    /// The same where these faults slow ranks down as well.
    #[must_use]
    pub fn with_faults(mut self, faults: &[PlannedFault]) -> Self {
        self.faults = faults.iter().filter(|fault| fault.rank == self.rank.0).copied().collect();
        self
    }

    /// Divisor of the bandwidth of its card.
    pub fn link(&self) -> f64 {
        self.link
    }

    /// Factor on the time of its computing in a step; 1 where nothing slows it down.
    pub fn compute(&self, step: u64) -> f64 {
        let factors = self.compute.iter().map(|(place, factor, probability)| {
            let keys = [*place, u64::from(self.rank.0), step];
            let hit = *probability >= 1.0
                || rng::unit(&mut rng::keyed(self.seed, "slow step", &keys)) < *probability;
            if hit { *factor } else { 1.0 }
        });
        factors.product::<f64>() * self.faults.iter().map(|fault| fault.slowdown(step)).product::<f64>()
    }

    /// Whether its computing is ever slowed down.
    pub fn computes_slowly(&self) -> bool {
        let is_slow = |fault: &PlannedFault| matches!(fault.action, FaultAction::Slow { .. });
        self.compute.iter().any(|(_, factor, _)| *factor > 1.0) || self.faults.iter().any(is_slow)
    }
}

/// The workers that an entry slows down.
fn drawn(seed: u64, place: u64, workers: u32, count: u32) -> Vec<u32> {
    let mut ranks: Vec<u32> = (0..workers).collect();
    rng::shuffle(&mut rng::keyed(seed, "slow ranks", &[place]), &mut ranks);
    ranks.truncate(count as usize);
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;
    use recipe::Slow;

    const FOUR: Slow = Slow { whom: Whom::Rank(1), compute: 4.0, link: 1.0, probability: 1.0 };

    fn of(slow: &[Slow], seed: u64, rank: u32) -> Slowness {
        let emulation = Emulation { slow: slow.to_vec(), ..Emulation::default() };
        Slowness::of(&emulation, seed, 8, Rank(rank))
    }

    #[test]
    fn a_rank_is_slow_by_all_its_entries() {
        let entries =
            [FOUR, Slow { link: 3.0, compute: 1.0, ..FOUR }, Slow { compute: 1.5, link: 2.0, ..FOUR }];
        let slow = of(&entries, 1, 1);
        assert_eq!((slow.link(), slow.compute(7)), (6.0, 6.0));
        let other = of(&entries, 1, 2);
        assert_eq!((other.link(), other.compute(7), other.computes_slowly()), (1.0, 1.0, false));
    }

    #[test]
    fn a_fault_slows_its_rank_down_for_its_steps() {
        let action = FaultAction::Slow { compute: 2.0, until: Some(9) };
        let faults = [PlannedFault { rank: 1, step: 7, action }];
        let slow = |rank| of(&[FOUR], 1, rank).with_faults(&faults);
        assert_eq!([6, 7, 8, 9].map(|step| slow(1).compute(step) as u32), [4, 8, 8, 4]);
        assert!(of(&[], 1, 1).with_faults(&faults).computes_slowly());
        assert!(!of(&[], 1, 2).with_faults(&faults).computes_slowly());
    }

    #[test]
    fn so_many_random_workers_are_slow_and_another_seed_slows_others() {
        let entry = [Slow { whom: Whom::Random(3), ..FOUR }];
        let slow =
            |seed| -> Vec<u32> { (0..8).filter(|rank| of(&entry, seed, *rank).computes_slowly()).collect() };
        assert!((0..20).all(|seed| slow(seed).len() == 3));
        assert_eq!(slow(5), slow(5));
        assert!((0..20).any(|seed| slow(seed) != slow(5)));
    }

    #[test]
    fn steps_are_slowed_down_as_often_as_the_probability_says() {
        let entry = [Slow { probability: 0.25, ..FOUR }];
        let slow = of(&entry, 3, 1);
        let factors: Vec<f64> = (1..=4000).map(|step| slow.compute(step)).collect();
        assert!(factors.iter().all(|factor| [1.0, 4.0].contains(factor)));
        // Of 4000 draws with probability 1/4, ten standard deviations.
        let hits = factors.iter().filter(|factor| **factor > 1.0).count();
        assert!((726..1274).contains(&hits), "{hits}");
        assert_eq!(factors, (1..=4000).map(|step| of(&entry, 3, 1).compute(step)).collect::<Vec<_>>());
    }
}
