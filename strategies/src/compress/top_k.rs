//! Top-k: the k elements of the largest magnitude as they are, and zeros. Guarantee: the squared error is at most
//! (1 - k / n) of the squared length. Biased. Not linear: each packet has elements of its own. Bytes: 4, the number of
//! elements, and 8 for each of the k: its position and its value.
//!
//! k = ratio n, rounded up, of the elements encoded together: of all of a gradient where it travels whole, of a chunk
//! in rank order, of a server's part. Of equal magnitudes the first ones are taken, so that there are exactly k.
//! NaN counts as larger than infinity, infinity as larger than numbers; they travel as they are. A negative zero
//! arrives as zero.
//!
//! Source: Aji and Heafield, "Sparse Communication for Distributed Gradient Descent", EMNLP 2017; Stich, Cordonnier and
//! Jaggi, "Sparsified SGD with Memory", NeurIPS 2018, definition 2.2 and lemma A.1.

use super::counted::{self, HEAD};
use super::{Compressor, Guarantee, Slot};
use crate::buffers::Buffers;
use crate::{Packet, StepError};
use recipe::share_of;

/// Bytes of a position, and of a value.
const POSITION: usize = 4;
const VALUE: usize = 4;

/// Sends the largest elements.
#[derive(Debug)]
pub struct TopK {
    ratio: f64,
    // Magnitude and position of every element, to find the k-th.
    ranking: Vec<u64>,
}

impl TopK {
    /// Keeps that share of the elements.
    pub fn new(ratio: f64) -> Self {
        Self { ratio, ranking: Vec::new() }
    }

    /// Positions of the k largest elements, in ascending order.
    fn chosen(&mut self, x: &[f32]) -> &[u64] {
        let k = share_of(self.ratio, x.len());
        self.ranking.clear();
        self.ranking.extend(x.iter().enumerate().map(|(i, value)| rank(*value) << 32 | i as u64));
        if k < x.len() {
            self.ranking.select_nth_unstable(k);
            self.ranking.truncate(k);
        }
        for ranked in &mut self.ranking {
            *ranked &= u64::from(u32::MAX);
        }
        self.ranking.sort_unstable();
        &self.ranking
    }
}

/// The smaller, the larger the magnitude.
fn rank(value: f32) -> u64 {
    u64::from(!(value.to_bits() & 0x7fff_ffff))
}

impl Compressor for TopK {
    fn encode(&mut self, _: Slot, x: &[f32]) -> Packet {
        let chosen = self.chosen(x);
        Buffers::of_process().packet(HEAD + (POSITION + VALUE) * chosen.len(), |bytes| {
            let (head, rest) = bytes.split_at_mut(HEAD);
            head.copy_from_slice(&counted::head(x.len()));
            let (positions, values) = rest.split_at_mut(POSITION * chosen.len());
            let places = positions.as_chunks_mut().0.iter_mut().zip(values.as_chunks_mut().0);
            for ((position, value), i) in places.zip(chosen) {
                *position = (*i as u32).to_le_bytes();
                *value = (x[*i as usize] + 0.0).to_le_bytes();
            }
        })
    }

    fn decode(&self, packet: &Packet, into: &mut [f32]) -> Result<(), StepError> {
        let (positions, values) = self.parts(packet, into.len())?;
        into.fill(0.0);
        for (i, value) in positions.zip(values) {
            into[i] = value;
        }
        Ok(())
    }

    fn decode_add(&self, packet: &Packet, into: &mut [f32]) -> Result<(), StepError> {
        let (positions, values) = self.parts(packet, into.len())?;
        // Of most elements this is all: a negative zero becomes zero.
        for sum in into.iter_mut() {
            *sum += 0.0;
        }
        for (i, value) in positions.zip(values) {
            into[i] += value;
        }
        Ok(())
    }

    fn elements(&self, packet: &Packet) -> usize {
        counted::elements(packet)
    }

    fn guarantee(&self) -> Guarantee {
        Guarantee::Contraction { delta: self.ratio }
    }

    fn linear(&self) -> bool {
        false
    }
}

impl TopK {
    /// Positions, which are ascending and below `n`, and values.
    fn parts<'a>(
        &self,
        packet: &'a Packet,
        n: usize,
    ) -> Result<(impl Iterator<Item = usize> + 'a, impl Iterator<Item = f32> + 'a), StepError> {
        let k = share_of(self.ratio, n);
        let body = counted::body(packet, HEAD + (POSITION + VALUE) * k, n)?;
        let (positions, values) = body.split_at(POSITION * k);
        let positions = positions.as_chunks().0.iter().map(|four| u32::from_le_bytes(*four) as usize);
        let ascending = positions.clone().is_sorted_by(|a, b| a < b);
        if ascending && positions.clone().next_back().is_none_or(|last| last < n) {
            Ok((positions, counted::floats(values)))
        } else {
            Err(counted::malformed(packet, n))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples::{self, SLOT, through};
    use super::*;
    use proptest::prelude::*;

    /// The definition: sorted by magnitude, of equal ones the first.
    fn expected(x: &[f32], k: usize) -> Vec<f32> {
        let mut order: Vec<usize> = (0..x.len()).collect();
        order.sort_by(|a, b| x[*b].abs().to_bits().cmp(&x[*a].abs().to_bits()));
        let mut y = vec![0.0; x.len()];
        order[..k].iter().for_each(|i| y[*i] = x[*i] + 0.0);
        y
    }

    proptest! {
        #[test]
        fn it_is_its_definition(x in samples::vectors(), ratio in 0.001..1.0_f64) {
            let mut codec = TopK::new(ratio);
            let k = share_of(ratio, x.len());
            prop_assert_eq!(codec.encode(SLOT, &x).0.len(), 4 + 8 * k);
            samples::assert_same_bits(&through(&mut codec, SLOT, &x), &expected(&x, k));
        }

        #[test]
        fn it_contracts(x in samples::finite_vectors(), ratio in 0.001..1.0_f64) {
            samples::check_contraction(&mut TopK::new(ratio), &x);
        }

        #[test]
        fn other_bytes_are_an_error(bytes in prop::collection::vec(any::<u8>(), 0..40), n in 0..9_usize) {
            samples::check_refusal(&TopK::new(0.5), &bytes, n);
        }
    }

    #[test]
    fn equal_ones_are_taken_from_the_front() {
        let x = [1.0, -2.0, 2.0, 2.0, 1.0];
        assert_eq!(through(&mut TopK::new(0.4), SLOT, &x), [0.0, -2.0, 2.0, 0.0, 0.0]);
        assert_eq!(through(&mut TopK::new(0.2), SLOT, &[0.0; 5]), [0.0; 5]);
        assert_eq!(through(&mut TopK::new(1.0), SLOT, &x), x);
        assert_eq!(through(&mut TopK::new(0.01), SLOT, &[f32::from_bits(1)]), [f32::from_bits(1)]);
        assert_eq!(through(&mut TopK::new(0.01), SLOT, &[]), [] as [f32; 0]);
    }

    #[test]
    fn a_share_is_rounded_up_and_its_product_is_not() {
        assert_eq!([0.1, 0.01, 0.001, 1.0].map(|ratio| share_of(ratio, 30)), [3, 1, 1, 30]);
        assert_eq!([0.1, 0.3, 0.7].map(|ratio| share_of(ratio, 1_000_000)), [100_000, 300_000, 700_000]);
        assert_eq!(share_of(0.01, 431_080), 4311);
    }

    #[test]
    fn positions_that_are_none_are_refused() {
        let codec = TopK::new(0.5);
        let packet = |positions: [u32; 2]| {
            let mut bytes = 4_u32.to_le_bytes().to_vec();
            for i in positions {
                bytes.extend(u32::to_le_bytes(i));
            }
            bytes.extend([0; 8]);
            Packet(bytes.into())
        };
        let answer = |positions| codec.decode(&packet(positions), &mut [0.0; 4]).is_ok();
        assert_eq!([[0, 3], [3, 0], [1, 1], [0, 4]].map(answer), [true, false, false, false]);
    }
}
