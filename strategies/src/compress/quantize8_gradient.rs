//! Quantization to 8 bits in one range for a whole gradient: of every chunk, on every hop, on all places
//! (`compression.range = "gradient"`). Guarantee: half of the scale, 1 / 254 of 127 of them. Not linear: it rounds.
//! Bytes: those of [`Quantize8`](super::Quantize8), whose packets these are; and one float before, in an exact
//! all-reduce of its own, which counts as any message does.
//!
//! q = round(x / scale), ties to even, with scale = S / (127 - p). S is the sum over the p places of
//! max |x| + max |e|, e the error that error feedback remembers of the gradient's positions (of each receiver by itself).
//!
//! No partial sum clips. An encoded vector is a sum of parts that are at most S together, and of the roundings before it,
//! half a scale each: at most 2 p - 2 of them (recursive doubling; p - 1 in a ring), or p + 1 with the error that the place has
//! just remembered. So it is at most S + (p - 1/2) scale = 126.5 scale, and the roundings of floats, some thousand times
//! 2^-24 of it, stay below the next half.
//!
//! The scale grows with the places, 127 - p steps for all of them together: at p = 127 none is left. Under error
//! feedback each memory is up to half a scale and widens the next range by that: m memories multiply a range by
//! m / (2 (127 - p)), which must be below 1. A recipe beyond either bound is refused.
//!
//! Zeros stay zeros. A NaN or infinity of any place, or a sum that is too large for a float, makes all of the sum the same
//! NaN on all places. So does a vector that was encoded without an agreement, or that exceeds it because a peer broke it:
//! nothing is clipped in silence.
//!
//! Source: Li et al., "Pipe-SGD: A Decentralized Pipelined SGD Framework for Distributed Deep Net Training",
//! NeurIPS 2018, section 3.2: "a quantization range determined by the maximal element of a gradient vector". How places
//! that add partial sums come to one range is not said there; this sum is our reading.

use super::kernels::quantize as kernels;
use super::quantize8::{INFINITE, STEPS, packet};
use super::{Compressor, Guarantee, Quantize8, Slot};
use crate::{Packet, StepError};

/// From here on, the nearest step is none of the 127.
const BEYOND: f32 = 127.5;

/// Sends each element as a multiple of a scale that all places of an all-reduce have agreed on.
#[derive(Clone, Copy, Debug)]
pub struct Quantize8Gradient {
    /// Size of one step: a normal number, zero, or NaN; NaN as long as nothing is agreed on.
    scale: f32,
}

impl Default for Quantize8Gradient {
    fn default() -> Self {
        Self { scale: f32::NAN }
    }
}

impl Compressor for Quantize8Gradient {
    fn encode(&mut self, _: Slot, x: &[f32]) -> Packet {
        let largest = kernels::largest(x);
        let within =
            !self.scale.is_normal() || largest < INFINITE && f32::from_bits(largest) / self.scale < BEYOND;
        packet(x, if within { self.scale } else { f32::NAN })
    }

    fn reach(&self, _: Slot, x: &[f32]) -> f32 {
        let largest = kernels::largest(x);
        if largest < INFINITE { f32::from_bits(largest) } else { f32::INFINITY }
    }

    fn agree(&mut self, reach: f32, places: usize) {
        let scale = reach / (STEPS - places as f32);
        self.scale = match scale {
            scale if !scale.is_finite() || scale < 0.0 => f32::NAN,
            scale if scale.is_normal() => scale,
            _ => 0.0,
        };
    }

    fn decode(&self, packet: &Packet, into: &mut [f32]) -> Result<(), StepError> {
        Quantize8.decode(packet, into)
    }

    fn decode_add(&self, packet: &Packet, into: &mut [f32]) -> Result<(), StepError> {
        Quantize8.decode_add(packet, into)
    }

    fn elements(&self, packet: &Packet) -> usize {
        Quantize8.elements(packet)
    }

    fn guarantee(&self) -> Guarantee {
        // As of `quantize8`, whose range is the largest element.
        Guarantee::ShareOfRange(1.000_05 / 254.0)
    }

    fn linear(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::super::ErrorFeedback;
    use super::super::samples::{SLOT, assert_same_bits, through};
    use super::*;
    use proptest::prelude::*;

    fn agreed(reach: f32, places: usize) -> Quantize8Gradient {
        let mut codec = Quantize8Gradient::default();
        codec.agree(reach, places);
        codec
    }

    proptest! {
        /// The definition, element by element, with a scale that is no matter of the vector.
        #[test]
        fn it_is_its_definition(
            x in prop::collection::vec(-100.0_f32..100.0, 0..70),
            reach in 100.0_f32..1.0e6,
            places in 2..=126_usize,
        ) {
            let scale = reach / (127 - places) as f32;
            let expected: Vec<f32> = x.iter().map(|x| (x / scale).round_ties_even() * scale).collect();
            let came = through(&mut agreed(reach, places), SLOT, &x);
            for (x, (came, expected)) in x.iter().zip(came.iter().zip(&expected)) {
                prop_assert!((came - expected).abs() == 0.0 && (came - x).abs() <= 0.500_01 * scale);
            }
        }
    }

    #[test]
    fn what_is_beyond_the_range_is_no_number() {
        // Four places: a scale of 1.
        let mut codec = agreed(123.0, 4);
        assert_eq!(through(&mut codec, SLOT, &[127.4, -127.4, 0.5, 1.5]), [127.0, -127.0, 0.0, 2.0]);
        for beyond in [127.5, -127.5, 1.0e30, f32::INFINITY, f32::NAN] {
            assert_same_bits(&through(&mut codec, SLOT, &[1.0, beyond]), &[f32::NAN; 2]);
        }
    }

    #[test]
    fn without_an_agreement_there_is_no_number() {
        assert_same_bits(&through(&mut Quantize8Gradient::default(), SLOT, &[0.0, 1.0]), &[f32::NAN; 2]);
        for (reach, places) in [(1.0, 127), (1.0, 128), (1.0, 4000), (f32::INFINITY, 2), (f32::NAN, 2)] {
            let came = through(&mut agreed(reach, places), SLOT, &[0.0, 1.0e-9]);
            assert_same_bits(&came, &[f32::NAN; 2]);
        }
    }

    #[test]
    fn zeros_and_what_is_too_small_are_zeros() {
        assert_same_bits(&through(&mut agreed(0.0, 3), SLOT, &[0.0, -0.0]), &[0.0; 2]);
        let small = f32::MIN_POSITIVE;
        assert_same_bits(&through(&mut agreed(small, 3), SLOT, &[small, -small]), &[0.0; 2]);
    }

    #[test]
    fn what_is_remembered_reaches_further() {
        let mut codec = ErrorFeedback::new(Quantize8Gradient::default());
        codec.agree(123.0, 4);
        let other = Slot { peer: record::Rank(7), ..SLOT };
        codec.encode(SLOT, &[10.25, -3.5, 0.0]);
        codec.encode(other, &[-2.375, 0.0, 9.125]);
        assert!((codec.reach(SLOT, &[0.0, -40.0, 1.0]) - (40.0 + 0.5 + 0.375)).abs() < 1e-6);
        // Of the positions that travel, and of their purpose.
        let last = Slot { at: SLOT.at + 2, ..SLOT };
        assert!((codec.reach(last, &[5.0]) - (5.0 + 0.125)).abs() < 1e-6);
        let beyond = Slot { at: SLOT.at + 9, ..SLOT };
        assert!((codec.reach(beyond, &[5.0]) - 5.0).abs() < 1e-6);
        let another = Slot { kind: crate::Kind::Overlap, ..SLOT };
        assert!((codec.reach(another, &[5.0, 0.0, 0.0]) - 5.0).abs() < 1e-6);
        assert_eq!(codec.reach(SLOT, &[f32::NAN]).to_bits(), f32::INFINITY.to_bits());
    }
}
