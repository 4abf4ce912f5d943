//! Rounding by chance: up or down, so that it is right on average.
//!
//! Every draw is a pure function of the run's seed, the rank, the purpose and step of the vector, and how much the rank
//! has encoded in this step before: same recipe, same numbers. A part and the sum that it goes into are rounded by
//! different draws, or one rounding would depend on the other.

use super::Slot;
use crate::Kind;
use crate::rng;
use rand_chacha::rand_core::Rng;
use record::Rank;

/// Who rounds, in which run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// That of the run, the same on all ranks.
    pub seed: u64,
    /// The rank that encodes.
    pub rank: Rank,
}

/// Draws for one vector after the other.
#[derive(Debug)]
pub(super) struct Dice {
    origin: Origin,
    step: Option<(Kind, u64)>,
    calls: u64,
    draws: Vec<u32>,
}

impl Dice {
    pub(super) fn new(origin: Origin) -> Self {
        Self { origin, step: None, calls: 0, draws: Vec::new() }
    }

    /// A draw for each element of the vector that is encoded next.
    pub(super) fn throw(&mut self, slot: Slot, elements: usize) -> &[u32] {
        let step = Some((slot.kind, slot.step));
        self.calls = if self.step == step { self.calls + 1 } else { 0 };
        self.step = step;
        let Origin { seed, rank } = self.origin;
        let keys = [u64::from(rank.0), slot.kind as u64, slot.step, slot.at as u64, self.calls];
        let mut random = rng::keyed(seed, "rounding", &keys);
        self.draws.clear();
        self.draws.extend((0..elements).map(|_| random.next_u32()));
        &self.draws
    }
}

/// The whole number below `r` or the one above it: the latter with the probability of the fraction above the one below, to
/// 24 bits. For `r` from 0 to 2^24.
#[inline]
pub(super) fn round(r: f32, draw: u32) -> u32 {
    let below = r as u32;
    // 24 bits, which a float holds exactly.
    let share = (draw >> 8) as f32 / 16_777_216.0;
    below + u32::from(share < r - below as f32)
}

#[cfg(test)]
mod tests {
    use super::super::samples::SLOT;
    use super::*;

    /// All 256 draws that differ in their upper bits, for all 256 sub-levels: exactly as many go up as should.
    #[test]
    fn of_all_draws_the_right_number_goes_up() {
        for below in [0, 1, 5, 126] {
            for part in 0..256_u32 {
                let r = below as f32 + part as f32 / 256.0;
                let sum: u32 = (0..256).map(|draw| round(r, draw << 24)).sum();
                assert_eq!(sum, 256 * below + part);
            }
        }
    }

    #[test]
    fn whole_numbers_stay_for_every_draw() {
        for draw in [0, 1, 1 << 31, u32::MAX] {
            assert_eq!([0.0, 1.0, 127.0].map(|r| round(r, draw)), [0, 1, 127]);
        }
    }

    #[test]
    fn draws_differ_by_rank_step_place_and_turn_and_repeat_themselves() {
        let dice = |seed, rank| Dice::new(Origin { seed, rank: Rank(rank) });
        let first = |mut dice: Dice, slot| dice.throw(slot, 8).to_vec();
        let mut twice = dice(1, 2);
        let own = twice.throw(SLOT, 8).to_vec();
        let all = [
            own.clone(),
            twice.throw(SLOT, 8).to_vec(),
            first(dice(2, 2), SLOT),
            first(dice(1, 3), SLOT),
            first(dice(1, 2), Slot { step: 9, ..SLOT }),
            first(dice(1, 2), Slot { at: 9, ..SLOT }),
            first(dice(1, 2), Slot { kind: Kind::Push, ..SLOT }),
        ];
        for (i, draws) in all.iter().enumerate() {
            assert!(!all[..i].contains(draws), "{i}");
        }
        assert_eq!(first(dice(1, 2), SLOT), own);
        assert_eq!(first(dice(1, 2), SLOT)[..3], first(dice(1, 2), SLOT)[..3]);
    }
}
