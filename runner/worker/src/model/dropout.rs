//! Masks of dropped values, which follow the example to whichever rank computes it.

use crate::stream;
use rand_chacha::rand_core::Rng;
use std::ops::Range;
use tch::{TchError, Tensor};

/// Parameters of one dropout layer's masks; with an example's number they determine its mask.
#[derive(Clone, Copy)]
pub(super) struct Mask<'a> {
    /// Seed of the run.
    pub(super) seed: u64,
    /// Name of the layer.
    pub(super) layer: &'a str,
    /// Epoch of the batch.
    pub(super) epoch: u64,
    /// Probability of a zero, below 1.
    pub(super) rate: f32,
}

/// The masks of the dropout layers inside of a block, in the order in which they are met.
pub(super) enum Masks {
    /// Evaluation: nothing is dropped.
    Off,
    /// Training: a mask for each of the layers.
    Drawn(std::vec::IntoIter<Tensor>),
}

impl Masks {
    /// `x` times the next mask.
    pub(super) fn result(&mut self, name: &str, x: &Tensor) -> Result<Tensor, TchError> {
        match self {
            Self::Off => Ok(x.shallow_clone()),
            Self::Drawn(masks) => {
                let missing = || TchError::Shape(format!("no mask was drawn for {name}"));
                x.f_mul(&masks.next().ok_or_else(missing)?)
            }
        }
    }
}

impl Mask<'_> {
    /// One row for each example: 0 with probability `rate`, else 1 / (1 - rate). Of the layer's full width
    /// only `columns` are kept, so that a slice of the layer sees the same mask as the whole.
    pub(super) fn rows(&self, examples: &[u32], columns: Range<usize>) -> Vec<f32> {
        let keep = 1.0 / (1.0 - self.rate);
        // Draws have 32 bits; the comparison in 64 makes a rate of 0 drop nothing.
        let dropped = (f64::from(self.rate) * 4_294_967_296.0) as u64;
        let purpose = format!("dropout {}", self.layer);
        let mut rows = Vec::with_capacity(examples.len() * columns.len());
        for example in examples {
            let mut draws = stream::keyed(self.seed, &purpose, &[self.epoch, u64::from(*example)]);
            for _ in 0..columns.start {
                draws.next_u32();
            }
            rows.extend(
                columns.clone().map(|_| if u64::from(draws.next_u32()) < dropped { 0.0 } else { keep }),
            );
        }
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MASK: Mask<'static> = Mask { seed: 3, layer: "dropout1", epoch: 2, rate: 0.25 };

    #[test]
    fn a_mask_follows_its_example() {
        let together = MASK.rows(&[5, 9, 7], 0..40);
        assert_eq!(MASK.rows(&[9], 0..40), together[40..80]);
        assert_eq!(MASK.rows(&[9], 10..30), together[50..70]);
        assert_ne!(together[..40], together[40..80]);
        assert_ne!(Mask { epoch: 3, ..MASK }.rows(&[9], 0..40), together[40..80]);
        assert_ne!(Mask { layer: "dropout2", ..MASK }.rows(&[9], 0..40), together[40..80]);
    }

    #[test]
    fn the_share_of_zeros_is_the_rate_and_the_rest_is_scaled() {
        let rows = MASK.rows(&[0, 1, 2, 3], 0..2500);
        let zeros = rows.iter().filter(|value| **value == 0.0).count();
        assert!((2300..2700).contains(&zeros), "{zeros}");
        let keep = (1.0_f32 / 0.75).to_bits();
        assert!(rows.iter().all(|value| [0, keep].contains(&value.to_bits())));
        let rows = Mask { rate: 0.0, ..MASK }.rows(&[0], 0..1000);
        assert!(rows.iter().all(|value| value.to_bits() == 1.0_f32.to_bits()));
    }
}
