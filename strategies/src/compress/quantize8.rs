//! Quantization to 8 bits: each element as a multiple, from -127 to 127, of a 127th of the largest magnitude of the
//! vector. Guarantee: half of that scale, 1 / 254 of the largest. Not linear: packets have scales of their own.
//! Bytes: 4, the scale, and 1 per element.
//!
//! q = round(x / scale), ties to even, with scale = max |x| / 127; decoded: q * scale. Every vector that travels has
//! a scale of its own: of a chunk and a hop in a ring, of all that is sent together to a server.
//!
//! A scale that is no normal number (all elements are zero, or below 127 * 2^-126) gives zeros. Any NaN or infinity
//! makes the whole decoded vector NaN, the same one wherever it is decoded. 127 steps of the largest float there is
//! round to an infinity.
//!
//! Source: Li et al., "Pipe-SGD: A Decentralized Pipelined SGD Framework for Distributed Deep Net Training",
//! NeurIPS 2018, section 3.2, "scalar quantization".
//!
//! Departure: there the range is that of "a gradient vector", here of what travels together. The paper's reading is
//! `compression.range = "gradient"`, [`Quantize8Gradient`](super::Quantize8Gradient); this one is `"chunk"`.

use super::kernels::quantize as kernels;
use super::{Compressor, Guarantee, Slot};
use crate::buffers::Buffers;
use crate::{Packet, StepError};

/// Where an infinity begins, above it NaN, among the bits of magnitudes.
pub(super) const INFINITE: u32 = 0x7f80_0000;

/// The steps on each side of zero.
pub(super) const STEPS: f32 = 127.0;

/// Bytes of the scale.
const SCALE: usize = 4;

/// Sends each element as a multiple of a 127th of the largest.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quantize8;

impl Compressor for Quantize8 {
    fn encode(&mut self, _: Slot, x: &[f32]) -> Packet {
        packet(x, scale(x))
    }

    fn decode(&self, packet: &Packet, into: &mut [f32]) -> Result<(), StepError> {
        let (scale, steps) = parts(packet, into.len())?;
        kernels::dequantize(steps, scale, into);
        Ok(())
    }

    fn decode_add(&self, packet: &Packet, into: &mut [f32]) -> Result<(), StepError> {
        let (scale, steps) = parts(packet, into.len())?;
        kernels::dequantize_add(steps, scale, into);
        Ok(())
    }

    fn elements(&self, packet: &Packet) -> usize {
        packet.0.len().saturating_sub(SCALE)
    }

    fn guarantee(&self) -> Guarantee {
        // Half a step, and three roundings of 2^-24 of the largest: of the scale, the quotient and the product.
        Guarantee::ShareOfLargest(1.000_05 / 254.0)
    }

    fn linear(&self) -> bool {
        false
    }
}

/// Size of one step: a normal number; zero where it would be subnormal; NaN where an element is NaN or infinite.
fn scale(x: &[f32]) -> f32 {
    let largest = kernels::largest(x);
    if largest >= INFINITE {
        return f32::NAN;
    }
    let scale = f32::from_bits(largest) / STEPS;
    if scale.is_normal() { scale } else { 0.0 }
}

/// A scale, and each element as the nearest multiple of it, which must be within the steps; zeros where it is no normal
/// number.
pub(super) fn packet(x: &[f32], scale: f32) -> Packet {
    Buffers::of_process().packet(SCALE + x.len(), |bytes| {
        let (head, steps) = bytes.split_at_mut(SCALE);
        head.copy_from_slice(&scale.to_le_bytes());
        if scale.is_normal() {
            kernels::quantize(x, scale, steps);
        } else {
            steps.fill(0);
        }
    })
}

/// A packet's scale and steps.
fn parts(packet: &Packet, elements: usize) -> Result<(f32, &[u8]), StepError> {
    match packet.0.split_first_chunk::<SCALE>() {
        Some((scale, steps)) if steps.len() == elements => Ok((f32::from_le_bytes(*scale), steps)),
        _ => Err(StepError::Packet { bytes: packet.0.len(), elements }),
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples::{self, SLOT};
    use super::*;
    use proptest::prelude::*;

    /// The definition, element by element.
    fn expected(x: &[f32]) -> Vec<f32> {
        if x.iter().any(|value| !value.is_finite()) {
            return vec![f32::NAN; x.len()];
        }
        let scale = x.iter().fold(0.0_f32, |most, value| most.max(value.abs())) / 127.0;
        let step = |value: &f32| (value / scale).round_ties_even() as i8;
        x.iter().map(|value| if scale.is_normal() { f32::from(step(value)) * scale } else { 0.0 }).collect()
    }

    fn through(x: &[f32]) -> Vec<f32> {
        samples::through(&mut Quantize8, SLOT, x)
    }

    proptest! {
        #[test]
        fn it_is_its_definition(x in samples::vectors()) {
            samples::assert_same_bits(&through(&x), &expected(&x));
        }

        #[test]
        fn the_error_is_half_a_step(x in samples::finite_vectors(), power in -30..30_i32) {
            let x: Vec<f32> = x.iter().map(|value| (value % 1000.0) * 2.0_f32.powi(power)).collect();
            let largest = x.iter().fold(0.0_f32, |most, value| most.max(value.abs()));
            let Guarantee::ShareOfLargest(share) = Quantize8.guarantee() else { panic!() };
            // Below that, the scale is no normal number.
            let bound = f64::from(largest) * if largest < 1.5e-36 { 1.0 } else { share };
            for (x, y) in x.iter().zip(through(&x)) {
                prop_assert!((f64::from(*x) - f64::from(y)).abs() <= bound, "{} became {}", x, y);
            }
        }

        #[test]
        fn other_bytes_are_an_error(bytes in prop::collection::vec(any::<u8>(), 0..12), elements in 0..12_usize) {
            let packet = Packet(bytes.clone().into());
            let fits = bytes.len() == elements + 4;
            let mut into = vec![0.0; elements];
            let error = Err(StepError::Packet { bytes: bytes.len(), elements });
            for answer in [
                Quantize8.decode(&packet, &mut into),
                Quantize8.decode_add(&packet, &mut into),
            ] {
                prop_assert_eq!(answer, if fits { Ok(()) } else { error.clone() });
            }
        }
    }

    #[test]
    fn zeros_nothing_and_what_is_too_small_are_zeros() {
        assert_eq!(through(&[]), [] as [f32; 0]);
        samples::assert_same_bits(&through(&[0.0, -0.0]), &[0.0, 0.0]);
        let small = 126.0 * f32::MIN_POSITIVE;
        samples::assert_same_bits(&through(&[small, -small]), &[0.0, 0.0]);
        assert_eq!(through(&[127.0 * f32::MIN_POSITIVE]), [127.0 * f32::MIN_POSITIVE]);
    }

    #[test]
    fn a_number_that_is_none_makes_all_the_same_nan() {
        for odd in [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::from_bits(0x7f80_0001)] {
            samples::assert_same_bits(&through(&[1.0, odd, 0.0]), &[f32::NAN; 3]);
        }
    }

    #[test]
    fn the_largest_number_of_all_is_too_large() {
        assert_eq!(through(&[f32::MAX, -0.25 * f32::MAX]), [f32::INFINITY, -32.0 * (f32::MAX / 127.0)]);
        assert_eq!(through(&[f32::MAX / 2.0]), [127.0 * (f32::MAX / 254.0)]);
    }

    #[test]
    fn ties_go_to_the_even_step() {
        let x = [127.0, 0.5, 1.5, 2.5, -0.5, -1.5, -126.5];
        assert_eq!(through(&x), [127.0, 0.0, 2.0, 2.0, 0.0, -2.0, -126.0]);
    }
}
