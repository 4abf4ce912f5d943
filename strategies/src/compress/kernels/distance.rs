//! How far two vectors are apart.

use crate::arithmetic::kernels;

/// Sums that are kept side by side: one would have to wait for each addition.
const LANES: usize = 8;

/// How far a vector is from another.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Distance {
    /// The squared length of the vector.
    pub(crate) squared: f64,
    /// That of its difference from the other.
    pub(crate) squared_error: f64,
}

kernels! {
    /// Squared length of `x`, and of its difference from `y`, of the same length. Every eighth element goes into the
    /// same sum, and these together in the end.
    fn distance, plain_distance(x: &[f32], y: &[f32]) -> Distance {
        let mut squared = [0.0_f64; LANES];
        let mut apart = [0.0_f64; LANES];
        let mut add = |x: &[f32], y: &[f32]| {
            for (lane, (x, y)) in x.iter().zip(y).enumerate() {
                let value = f64::from(*x);
                let lost = f64::from(*x) - f64::from(*y);
                squared[lane] += value * value;
                apart[lane] += lost * lost;
            }
        };
        let (whole, rest) = x.as_chunks::<LANES>();
        let (other_whole, other_rest) = y.as_chunks::<LANES>();
        for (x, y) in whole.iter().zip(other_whole) {
            add(x, y);
        }
        add(rest, other_rest);
        Distance { squared: squared.iter().sum(), squared_error: apart.iter().sum() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_counts_once() {
        for n in 0..40_u8 {
            // Whole numbers: every order of adding gives the same.
            let x: Vec<f32> = (0..n).map(f32::from).collect();
            let y: Vec<f32> = x.iter().map(|value| value - 2.0).collect();
            let squared = x.iter().map(|value| f64::from(value * value)).sum::<f64>();
            assert_eq!(distance(&x, &y), Distance { squared, squared_error: 4.0 * f64::from(n) });
            assert_eq!(plain_distance(&x, &y), distance(&x, &y));
        }
    }
}
