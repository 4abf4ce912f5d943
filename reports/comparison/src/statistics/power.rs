//! The number of repeats that settles a question.

use super::student_quantile;
use statrs::distribution::{ContinuousCDF, Normal};

/// The largest number of repeats that is considered.
pub(crate) const MOST_REPEATS: usize = 200;

/// The chance with which the advised number of repeats is to settle the question.
pub const CHANCE: f64 = 0.8;

/// A difference that is `gap` standard units of `deviation` away from the edge that it must leave.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Question {
    /// Distance of the true difference from the edge.
    pub(crate) gap: f64,
    /// Distance from a second edge that it must leave too, on the other side.
    pub(crate) other_gap: Option<f64>,
    /// Deviation of the difference of one pair.
    pub(crate) deviation: f64,
    /// Degrees of freedom of the deviation beyond those of the pairs themselves.
    pub(crate) borrowed: f64,
    /// Two-sided level of the test, after its correction.
    pub(crate) level: f64,
}

impl Question {
    /// The chance that `repeats` pairs settle it, if the difference and its deviation are what they seem. Of two edges that must both be
    /// left, it is at least one less the chances that either is not (Bonferroni).
    pub(crate) fn chance(&self, repeats: usize) -> f64 {
        let other = self.other_gap.map_or(1.0, |gap| self.chance_beyond(gap, repeats));
        (self.chance_beyond(self.gap, repeats) + other - 1.0).max(0.0)
    }

    /// The chance that a noncentral t variable exceeds the critical value. Abramowitz and Stegun 26.7.10: from two degrees of freedom on
    /// within five points of a hundred, and too small at even chances and above.
    fn chance_beyond(&self, gap: f64, repeats: usize) -> f64 {
        let freedom = repeats as f64 - 1.0 + self.borrowed;
        let Some(critical) = student_quantile(1.0 - self.level / 2.0, freedom) else { return 0.0 };
        let noncentrality = gap * (repeats as f64).sqrt() / self.deviation;
        let scale = (1.0 + critical * critical / (2.0 * freedom)).sqrt();
        Normal::standard().cdf((noncentrality - critical * (1.0 - 0.25 / freedom)) / scale)
    }

    /// The smallest number of repeats, above `from`, with at least the given chance; `None` beyond [`MOST_REPEATS`].
    pub(crate) fn repeats(&self, from: usize, chance: f64) -> Option<usize> {
        (from.max(2) + 1..=MOST_REPEATS).find(|repeats| self.chance(*repeats) >= chance)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_repeats_are_a_better_chance_and_the_advice_keeps_its_word() {
        let question = Question { gap: 0.05, other_gap: None, deviation: 0.08, borrowed: 0.0, level: 0.05 };
        let chances: Vec<f64> = (3..40).map(|repeats| question.chance(repeats)).collect();
        assert!(chances.windows(2).all(|pair| pair[1] >= pair[0]), "{chances:?}");
        let even = question.repeats(3, 0.5).unwrap();
        let sure = question.repeats(3, CHANCE).unwrap();
        assert!(even < sure && question.chance(sure) >= CHANCE && question.chance(sure - 1) < CHANCE);
        // The normal approximation: (1.96 + 0.84)² (0.08 / 0.05)² is 20.1.
        assert!((21..=24).contains(&sure), "{sure}");
        assert_eq!(Question { gap: 0.0, ..question }.repeats(3, CHANCE), None);
    }

    #[test]
    fn the_chance_is_that_of_the_noncentral_t_distribution() {
        // The effects with a power of 0.8, as `noise_floor` integrates them.
        for repeats in [3_u32, 4, 5, 7, 10, 30] {
            let gap = crate::noise_floor::smallest_in_deviations(repeats, 0.95).unwrap();
            let question = Question { gap, other_gap: None, deviation: 1.0, borrowed: 0.0, level: 0.05 };
            let chance = question.chance(repeats as usize);
            assert!((chance - 0.8).abs() < 0.02, "{repeats}: {chance}");
        }
    }

    /// Of two edges, equally far away, one of them is not left twice as often; of a far one hardly.
    #[test]
    fn both_edges_must_be_left() {
        let question = Question { gap: 0.05, other_gap: None, deviation: 0.08, borrowed: 0.0, level: 0.05 };
        let one = question.chance(20);
        let both = Question { other_gap: Some(0.05), ..question }.chance(20);
        assert!((1.0 - both - 2.0 * (1.0 - one)).abs() < 1e-12, "{one} {both}");
        assert!((Question { other_gap: Some(0.5), ..question }.chance(20) - one).abs() < 1e-9);
        let few = Question { other_gap: Some(0.05), ..question }.chance(3);
        assert!(few >= 0.0 && few < question.chance(3));
    }
}
