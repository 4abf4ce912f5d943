//! Random-k: the elements at k positions that are drawn anew for every vector, the same ones on all ranks, and zeros.
//! Guarantee: without error feedback unbiased, as what travels is scaled by n / k, with the variance (n / k - 1) |x|^2;
//! with it unscaled, so that the squared error is (1 - k / n) of the squared length on average. Linear. Sent: an
//! all-reduce of k elements, without positions.
//!
//! k = ratio n, rounded up. The positions are a pure function of the run's seed and of which vector it is. A NaN
//! travels where its position is drawn.
//!
//! Source: Stich, Cordonnier and Jaggi, "Sparsified SGD with Memory", NeurIPS 2018, definition 2.2; scaled, Wangni et
//! al., "Gradient Sparsification for Communication-Efficient Distributed Optimization", NeurIPS 2018, with equal
//! probabilities; positions that all ranks draw alike as in Vogels et al., NeurIPS 2019, section 5, "random K".

use super::{Projection, ProjectionAdder};
use crate::{StepError, rng};
use recipe::share_of;

/// Keeps elements that are drawn.
#[derive(Debug)]
pub struct RandomK {
    ratio: f64,
    seed: u64,
    scaled: bool,
    drawn: Vec<bool>,
}

impl RandomK {
    /// Keeps that share of the elements, scaled so that it is right on average.
    pub fn unbiased(ratio: f64, seed: u64) -> Self {
        Self { ratio, seed, scaled: true, drawn: Vec::new() }
    }

    /// Keeps that share of the elements as they are.
    pub fn contracting(ratio: f64, seed: u64) -> Self {
        Self { scaled: false, ..Self::unbiased(ratio, seed) }
    }

    /// The drawn positions below `n`, in ascending order: every choice is equally likely.
    ///
    /// Floyd's algorithm: Bentley, "Programming Pearls: a sample of brilliance", CACM 1987.
    fn positions(&mut self, n: usize, keys: &[u64]) -> Vec<usize> {
        let k = share_of(self.ratio, n);
        let mut random = rng::keyed(self.seed, "random-k", keys);
        self.drawn.clear();
        self.drawn.resize(n, false);
        for last in n - k..n {
            let one = rng::below(&mut random, last as u64 + 1) as usize;
            let one = if self.drawn[one] { last } else { one };
            self.drawn[one] = true;
        }
        (0..n).filter(|i| self.drawn[*i]).collect()
    }

    fn scale(&self, n: usize, k: usize) -> f32 {
        if self.scaled { n as f32 / k.max(1) as f32 } else { 1.0 }
    }
}

impl Projection for RandomK {
    fn reduce(
        &mut self,
        x: &mut [f32],
        own: Option<&mut [f32]>,
        adder: &mut ProjectionAdder<'_, '_>,
    ) -> Result<(), StepError> {
        let n = x.len();
        let keys = adder.keys();
        let (positions, mut y) = adder.encode(n, || {
            let positions = self.positions(n, &keys);
            let y: Vec<f32> = positions.iter().map(|i| x[*i]).collect();
            (positions, y)
        });
        let scale = self.scale(n, positions.len());
        let spread = |y: &[f32], into: &mut [f32]| {
            into.fill(0.0);
            positions.iter().zip(y).for_each(|(i, value)| into[*i] = value * scale);
        };
        if let Some(own) = own {
            adder.encode(0, || spread(&y, own));
        }
        adder.sum(&mut y)?;
        adder.decode(n, || spread(&y, x));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of five positions two: each of the ten pairs is as likely as any other, so that with the scale every element is
    /// right on average.
    #[test]
    fn every_choice_is_equally_likely() {
        let mut counts = std::collections::BTreeMap::new();
        let mut codec = RandomK::unbiased(0.4, 3);
        for step in 0..20_000 {
            *counts.entry(codec.positions(5, &[step])).or_insert(0) += 1;
        }
        assert_eq!(counts.len(), 10);
        // Five standard deviations of a binomial distribution around 2000.
        assert!(counts.values().all(|count| (1788..2212).contains(count)), "{counts:?}");
    }

    #[test]
    fn positions_are_as_many_as_stated_ascending_and_a_function_of_the_keys() {
        let mut codec = RandomK::unbiased(0.25, 3);
        for n in 0..50 {
            let positions = codec.positions(n, &[1, 2]);
            assert_eq!(positions.len(), n.div_ceil(4));
            assert!(positions.is_sorted_by(|a, b| a < b) && positions.iter().all(|i| *i < n));
            assert_eq!(codec.positions(n, &[1, 2]), positions);
        }
        assert_ne!(codec.positions(50, &[1, 2]), codec.positions(50, &[1, 3]));
        assert_ne!(codec.positions(50, &[1, 2]), RandomK::unbiased(0.25, 4).positions(50, &[1, 2]));
        assert_eq!(RandomK::unbiased(1.0, 4).positions(9, &[]), (0..9).collect::<Vec<_>>());
    }

    #[test]
    fn the_scale_makes_up_for_what_is_left_out() {
        let scales = [(8, 2), (5, 5), (0, 0)].map(|(n, k)| RandomK::unbiased(0.5, 1).scale(n, k).to_bits());
        assert_eq!(scales, [4.0_f32, 1.0, 0.0].map(f32::to_bits));
        assert_eq!(RandomK::contracting(0.5, 1).scale(8, 2).to_bits(), 1.0_f32.to_bits());
    }
}
