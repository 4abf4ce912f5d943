//! Permutation tests: the p value is a count of rearrangements, no distribution is assumed.

use super::Draws;

/// Up to this number of rearrangements, all are counted.
const EXACT_UP_TO: u64 = 200_000;
/// Beyond it, this number is drawn.
const DRAWN: usize = 50_000;

/// Two-sided p of the difference of means between two samples: the share of all ways to deal the pooled
/// values into samples of these sizes whose means differ at least as much. `None` if a sample is empty
/// or not finite.
pub fn unpaired(left: &[f64], right: &[f64]) -> Option<f64> {
    let pooled: Vec<f64> = left.iter().chain(right).copied().collect();
    if left.is_empty() || right.is_empty() || pooled.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let centre = pooled.iter().sum::<f64>() / pooled.len() as f64;
    // Centred, the difference of means is proportional to the sum of the left sample.
    let centred: Vec<f64> = pooled.iter().map(|value| value - centre).collect();
    let extreme = Extreme::than(centred[..left.len()].iter().sum(), &centred);
    let ways = choose(pooled.len() as u64, left.len() as u64);
    if ways <= EXACT_UP_TO {
        let mut hits = 0_u64;
        each_subset_sum(&centred, left.len(), 0.0, &mut |sum| hits += u64::from(extreme.reached(sum)));
        return Some(hits as f64 / ways as f64);
    }
    let mut draws = Draws::new();
    let mut deck = centred;
    Some(extreme.drawn_share(|| {
        for place in 0..left.len() {
            let other = place + draws.below(deck.len() - place);
            deck.swap(place, other);
        }
        deck[..left.len()].iter().sum()
    }))
}

/// Two-sided p of paired differences: the share of all ways to flip their signs whose sum is at least as far
/// from zero. `None` without differences, or if one is not finite.
pub fn sign_flip(differences: &[f64]) -> Option<f64> {
    if differences.is_empty() || differences.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let extreme = Extreme::than(differences.iter().sum(), differences);
    let flipped = |signs: u64| -> f64 {
        differences.iter().enumerate().map(|(bit, d)| if signs >> bit & 1 == 1 { -d } else { *d }).sum()
    };
    if differences.len() <= EXACT_UP_TO.ilog2() as usize {
        let ways = 1_u64 << differences.len();
        let hits = (0..ways).filter(|signs| extreme.reached(flipped(*signs))).count();
        return Some(hits as f64 / ways as f64);
    }
    let mut draws = Draws::new();
    Some(extreme.drawn_share(|| differences.iter().map(|d| if draws.coin() { -d } else { *d }).sum()))
}

/// The smallest two-sided p that samples of these sizes can give.
pub fn smallest_p(left: usize, right: usize) -> f64 {
    if left == 0 || right == 0 {
        return 1.0;
    }
    // Samples of one size have a mirror image that is as extreme.
    let extremes = if left == right { 2.0 } else { 1.0 };
    extremes / choose((left + right) as u64, left as u64) as f64
}

/// Counts arrangements that are at least as extreme as the observed one, up to rounding.
struct Extreme(f64);

impl Extreme {
    fn than(observed: f64, values: &[f64]) -> Self {
        let size: f64 = values.iter().map(|value| value.abs()).sum();
        Self(observed.abs() - 1e-12 * size)
    }

    fn reached(&self, sum: f64) -> bool {
        sum.abs() >= self.0
    }

    /// The observed arrangement is one of those counted, so that p is never zero.
    fn drawn_share(&self, mut draw: impl FnMut() -> f64) -> f64 {
        let hits = (0..DRAWN).filter(|_| self.reached(draw())).count();
        (hits + 1) as f64 / (DRAWN + 1) as f64
    }
}

fn each_subset_sum(values: &[f64], take: usize, sum: f64, visit: &mut impl FnMut(f64)) {
    if take == 0 {
        return visit(sum);
    }
    for first in 0..=values.len() - take {
        each_subset_sum(&values[first + 1..], take - 1, sum + values[first], visit);
    }
}

/// The binomial coefficient, capped at the largest number.
fn choose(n: u64, k: u64) -> u64 {
    (0..k.min(n - k)).fold(1_u64, |ways, i| ways.saturating_mul(n - i) / (i + 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn close(found: Option<f64>, wanted: f64) {
        assert!((found.unwrap() - wanted).abs() < 1e-12, "{found:?} is not {wanted}");
    }

    fn ramp(from: u32, count: u32) -> Vec<f64> {
        (from..from + count).map(f64::from).collect()
    }

    #[test]
    fn fully_separated_samples_give_the_smallest_p() {
        for (n, wanted) in [(2, 2.0 / 6.0), (3, 0.10), (4, 2.0 / 70.0), (5, 2.0 / 252.0), (6, 2.0 / 924.0)] {
            close(unpaired(&ramp(1, n), &ramp(100, n)), wanted);
            close(unpaired(&ramp(100, n), &ramp(1, n)), wanted);
            close(Some(smallest_p(n as usize, n as usize)), wanted);
        }
        close(unpaired(&ramp(1, 2), &ramp(10, 5)), 1.0 / 21.0);
        close(Some(smallest_p(2, 5)), 1.0 / 21.0);
        close(Some(smallest_p(1, 1)), 1.0);
        close(Some(smallest_p(0, 3)), 1.0);
    }

    #[test]
    fn equal_samples_differ_as_much_as_any() {
        close(unpaired(&[1.0, 1.0, 1.0], &[1.0, 1.0, 1.0]), 1.0);
        close(unpaired(&[1.0, 4.0], &[2.0, 3.0]), 1.0);
    }

    #[test]
    fn nothing_and_no_number_have_no_p() {
        assert_eq!(unpaired(&[], &[1.0]), None);
        assert_eq!(unpaired(&[1.0], &[f64::NAN]), None);
        assert_eq!(sign_flip(&[]), None);
        assert_eq!(sign_flip(&[f64::INFINITY]), None);
    }

    #[test]
    fn sign_flips_of_one_sided_differences() {
        for (n, wanted) in [(1, 1.0), (2, 0.5), (5, 0.0625), (6, 0.031_25)] {
            close(sign_flip(&ramp(1, n)), wanted);
        }
        close(sign_flip(&[1.0, -1.0]), 1.0);
    }

    #[test]
    fn beyond_the_exact_limit_draws_are_near_and_repeatable() {
        let low = ramp(0, 14);
        let high = ramp(5, 14);
        let p = unpaired(&low, &high).unwrap();
        assert_eq!(Some(p), unpaired(&low, &high));
        // A t test of the same samples gives 0.0040.
        assert!((0.002..0.007).contains(&p), "{p}");
        let flipped = sign_flip(&ramp(1, 30)).unwrap();
        assert!(flipped < 1e-4 && flipped > 0.0);
    }

    #[test]
    fn coefficients() {
        assert_eq!((choose(6, 3), choose(10, 5), choose(5, 0), choose(20, 10)), (20, 252, 1, 184_756));
        assert!(choose(400, 200) > EXACT_UP_TO);
    }

    proptest! {
        #[test]
        fn equals_brute_force_over_all_bit_masks(
            left in prop::collection::vec(-9_i32..9, 1..6),
            right in prop::collection::vec(-9_i32..9, 1..6),
        ) {
            let left: Vec<f64> = left.into_iter().map(f64::from).collect();
            let right: Vec<f64> = right.into_iter().map(f64::from).collect();
            let pooled: Vec<f64> = left.iter().chain(&right).copied().collect();
            let gap = |mask: u32| {
                let mut inside = 0.0;
                let mut outside = 0.0;
                for (bit, value) in pooled.iter().enumerate() {
                    if mask >> bit & 1 == 1 { inside += value } else { outside += value }
                }
                (inside / left.len() as f64 - outside / right.len() as f64).abs()
            };
            let observed = gap((1 << left.len()) - 1);
            let masks: Vec<u32> =
                (0..1_u32 << pooled.len()).filter(|mask| mask.count_ones() as usize == left.len()).collect();
            let hits = masks.iter().filter(|mask| gap(**mask) >= observed - 1e-9).count();
            let wanted = hits as f64 / masks.len() as f64;
            prop_assert!((unpaired(&left, &right).unwrap() - wanted).abs() < 1e-12);
        }
    }
}
