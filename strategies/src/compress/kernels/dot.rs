//! The product of two vectors.

use crate::arithmetic::kernels;

/// Sums that are kept side by side: one would have to wait for each addition.
const LANES: usize = 8;

kernels! {
    /// The sum of the products of the elements of two vectors of one length. Every eighth goes into the same sum, and
    /// these together in the end.
    fn dot, plain_dot(x: &[f32], y: &[f32]) -> f64 {
        let mut sums = [0.0_f64; LANES];
        let (whole, rest) = x.as_chunks::<LANES>();
        let (other_whole, other_rest) = y.as_chunks::<LANES>();
        for (x, y) in whole.iter().zip(other_whole) {
            for (sum, (x, y)) in sums.iter_mut().zip(x.iter().zip(y)) {
                *sum += f64::from(*x) * f64::from(*y);
            }
        }
        for (sum, (x, y)) in sums.iter_mut().zip(rest.iter().zip(other_rest)) {
            *sum += f64::from(*x) * f64::from(*y);
        }
        sums.iter().sum()
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
            let y: Vec<f32> = x.iter().map(|value| value - 3.0).collect();
            let expected: f64 = x.iter().zip(&y).map(|(x, y)| f64::from(x * y)).sum();
            assert!((dot(&x, &y) - expected).abs() < f64::EPSILON);
            assert_eq!(plain_dot(&x, &y).to_bits(), dot(&x, &y).to_bits());
        }
    }
}
