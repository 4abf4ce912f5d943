//! TernGrad: each element as -1, 0 or 1 times the largest magnitude of its bucket, by chance. Guarantee: unbiased. Not
//! linear: buckets have scales of their own. Bytes: 4, the number of elements; 4 for each bucket, its scale; and 1 for
//! each five elements, whose digits base 3 it holds (1.6 bits per element).
//!
//! With s = max |x| over the bucket: s sign(x) with probability |x| / s, else 0; right on average, with the variance
//! |x| (s - |x|). A bucket with a NaN or an infinity becomes NaN, one of zeros stays. How chance is drawn:
//! [`stochastic`](super::stochastic).
//!
//! Source: Wen et al., "TernGrad: Ternary Gradients to Reduce Communication in Distributed Deep Learning", NeurIPS
//! 2017, equations 1 to 3. Departures: buckets of a stated number of elements instead of layers, of the vectors encoded
//! together; no scales that are shared between workers, as sums are decoded here; clipping is `train.optimizer.clip`.

use super::counted::{self, HEAD};
use super::stochastic::{Dice, Origin, round};
use super::{Compressor, Guarantee, Slot};
use crate::buffers::Buffers;
use crate::{Packet, StepError};

/// Bytes of a scale.
const SCALE: usize = 4;
/// Digits in a byte.
const DIGITS: usize = 5;
/// Number of values of five digits base 3; each byte of digits is below it.
const BYTES: u8 = 243;

/// Sends digits base 3.
#[derive(Debug)]
pub struct Terngrad {
    bucket: usize,
    dice: Dice,
}

impl Terngrad {
    /// A scale for each `bucket` elements; 0 counts as 1.
    pub fn new(bucket: usize, origin: Origin) -> Self {
        Self { bucket: bucket.max(1), dice: Dice::new(origin) }
    }

    fn size(&self, elements: usize) -> usize {
        HEAD + SCALE * elements.div_ceil(self.bucket) + elements.div_ceil(DIGITS)
    }

    /// Shows each element of a packet to `take`, in order.
    fn each(&self, packet: &Packet, into: &mut [f32], take: impl Fn(&mut f32, f32)) -> Result<(), StepError> {
        let body = counted::body(packet, self.size(into.len()), into.len())?;
        let (scales, digits) = body.split_at(SCALE * into.len().div_ceil(self.bucket));
        if digits.iter().any(|byte| *byte >= BYTES) {
            return Err(counted::malformed(packet, into.len()));
        }
        let mut digits = digits.iter().flat_map(|byte| digits_of(*byte));
        for (bucket, scale) in into.chunks_mut(self.bucket).zip(counted::floats(scales)) {
            for (value, digit) in bucket.iter_mut().zip(&mut digits) {
                take(value, digit * scale);
            }
        }
        Ok(())
    }
}

/// -1, 0 and 1, the lowest first.
fn digits_of(byte: u8) -> [f32; DIGITS] {
    [1, 3, 9, 27, 81].map(|power| f32::from(byte / power % 3) - 1.0)
}

/// The largest magnitude, NaN where an element is none or infinite.
fn scale(x: &[f32]) -> f32 {
    let largest = super::kernels::quantize::largest(x);
    let scale = f32::from_bits(largest);
    if scale.is_finite() { scale } else { f32::NAN }
}

impl Compressor for Terngrad {
    fn encode(&mut self, slot: Slot, x: &[f32]) -> Packet {
        let size = self.size(x.len());
        let Self { bucket, dice } = self;
        let draws = dice.throw(slot, x.len());
        Buffers::of_process().packet(size, |bytes| {
            let (head, rest) = bytes.split_at_mut(HEAD);
            head.copy_from_slice(&counted::head(x.len()));
            let (scales, digits) = rest.split_at_mut(SCALE * x.len().div_ceil(*bucket));
            let mut next = 0;
            digits.fill(0);
            for (place, x) in scales.as_chunks_mut().0.iter_mut().zip(x.chunks(*bucket)) {
                let scale = scale(x);
                *place = scale.to_le_bytes();
                for value in x {
                    let digit = ternary(*value, scale, draws[next]);
                    digits[next / DIGITS] += digit * [1, 3, 9, 27, 81][next % DIGITS];
                    next += 1;
                }
            }
        })
    }

    fn decode(&self, packet: &Packet, into: &mut [f32]) -> Result<(), StepError> {
        self.each(packet, into, |value, decoded| *value = decoded)
    }

    fn decode_add(&self, packet: &Packet, into: &mut [f32]) -> Result<(), StepError> {
        self.each(packet, into, |value, decoded| *value += decoded)
    }

    fn elements(&self, packet: &Packet) -> usize {
        counted::elements(packet)
    }

    fn guarantee(&self) -> Guarantee {
        Guarantee::Unbiased
    }

    fn linear(&self) -> bool {
        false
    }
}

/// 0, 1 or 2 for -1, 0 or 1.
fn ternary(value: f32, scale: f32, draw: u32) -> u8 {
    let kept = scale > 0.0 && round(value.abs() / scale, draw) > 0;
    if !kept {
        1
    } else if value < 0.0 {
        0
    } else {
        2
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples::{self, ORIGIN, SLOT, through};
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn each_element_is_zero_or_as_large_as_the_largest_of_its_bucket(
            x in samples::vectors(),
            bucket in 1..50_usize,
        ) {
            let mut codec = Terngrad::new(bucket, ORIGIN);
            let size = codec.encode(SLOT, &x).0.len();
            prop_assert_eq!(size, 4 + 4 * x.len().div_ceil(bucket) + x.len().div_ceil(5));
            let y = through(&mut codec, SLOT, &x);
            for (x, y) in x.chunks(bucket).zip(y.chunks(bucket)) {
                let largest = x.iter().fold(0.0_f32, |most, value| most.max(value.abs()));
                let finite = x.iter().all(|value| value.is_finite());
                for (x, y) in x.iter().zip(y) {
                    let whole = y.abs().to_bits() == largest.to_bits() && (*y < 0.0) == (*x < 0.0);
                    prop_assert!(if finite { *y == 0.0 || whole } else { y.is_nan() }, "{} became {}", x, y);
                    prop_assert!(!finite || x.abs() < largest || whole, "the largest stays");
                }
            }
        }

        #[test]
        fn other_bytes_are_an_error(bytes in prop::collection::vec(any::<u8>(), 0..16), n in 0..12_usize) {
            samples::check_refusal(&Terngrad::new(4, ORIGIN), &bytes, n);
        }
    }

    /// Over all draws that differ in 8 bits, each element is exactly right on average.
    #[test]
    fn it_is_unbiased() {
        for step in -256..=256_i16 {
            let x = f32::from(step) / 256.0 * 3.0;
            let sum: i32 = (0..256).map(|draw| i32::from(ternary(x, 3.0, draw << 24)) - 1).sum();
            assert_eq!(sum, i32::from(step));
        }
    }

    #[test]
    fn digits_beyond_three_to_the_five_are_refused() {
        let bytes = |digits| Packet([&5_u32.to_le_bytes()[..], &[0; 4], &[digits]].concat().into());
        let codec = Terngrad::new(9, ORIGIN);
        assert!(codec.decode(&bytes(242), &mut [0.0; 5]).is_ok());
        assert!(codec.decode(&bytes(243), &mut [0.0; 5]).is_err());
    }

    #[test]
    fn zeros_nothing_and_what_is_small() {
        let mut codec = Terngrad::new(4, ORIGIN);
        assert_eq!(through(&mut codec, SLOT, &[]), [] as [f32; 0]);
        assert_eq!(through(&mut codec, SLOT, &[0.0, -0.0]), [0.0, 0.0]);
        let small = f32::from_bits(1);
        assert_eq!(through(&mut codec, SLOT, &[-small]), [-small]);
        assert_eq!(through(&mut codec, SLOT, &[-2.5, 2.5, 0.0, 2.5, 7.0]), [-2.5, 2.5, 0.0, 2.5, 7.0]);
    }
}
