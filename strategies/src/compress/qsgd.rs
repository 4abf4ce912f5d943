//! QSGD: each element as a multiple, from -s to s, of the s-th part of the length of its bucket, rounded by chance.
//! Guarantee: unbiased; the mean squared error is at most min(d / s^2, sqrt(d) / s) of the squared length for buckets of
//! d. Not linear: buckets have scales of their own. Bytes: 4, the number of elements; 4 for each bucket, its length; and
//! for each element as many bits as 2 s + 1 values need.
//!
//! With |b| the Euclidean length of the bucket: r = s |x| / |b|, rounded to a whole number next to it so that it is right on
//! average. A bucket with a NaN or an infinity, or one whose length no float holds, becomes NaN; one of zeros stays; the highest
//! level of the largest floats there are may round to an infinity. How chance is drawn: [`stochastic`](super::stochastic).
//!
//! Source: Alistarh et al., "QSGD: Communication-Efficient SGD via Gradient Quantization and Encoding", NeurIPS 2017,
//! section 3.1, lemma 3.1, and the buckets of section 4. Departure: levels take the same number of bits each instead of
//! Elias' codes, as in the paper's own measurements.

use super::counted::{self, HEAD};
use super::stochastic::{Dice, Origin, round};
use super::{Compressor, Guarantee, Slot};
use crate::buffers::Buffers;
use crate::{Packet, StepError};

/// Bytes of a bucket's length.
const NORM: usize = 4;

/// Sends each element as a multiple of a share of its bucket's length, rounded by chance.
#[derive(Debug)]
pub struct Qsgd {
    levels: u32,
    bucket: usize,
    dice: Dice,
    // The codes of the vector that is encoded, to be packed.
    codes: Vec<u32>,
}

impl Qsgd {
    /// `levels` levels on each side of zero, and a scale for each `bucket` elements; 0 counts as 1.
    pub fn new(levels: u32, bucket: usize, origin: Origin) -> Self {
        Self { levels: levels.max(1), bucket: bucket.max(1), dice: Dice::new(origin), codes: Vec::new() }
    }

    /// Bits of an element.
    fn bits(&self) -> usize {
        (2 * self.levels + 1).next_power_of_two().ilog2() as usize
    }

    fn size(&self, elements: usize) -> usize {
        HEAD + NORM * elements.div_ceil(self.bucket) + (elements * self.bits()).div_ceil(8)
    }

    /// Shows each element of a packet to `take`, in order.
    fn each(&self, packet: &Packet, into: &mut [f32], take: impl Fn(&mut f32, f32)) -> Result<(), StepError> {
        let body = counted::body(packet, self.size(into.len()), into.len())?;
        let (norms, packed) = body.split_at(NORM * into.len().div_ceil(self.bucket));
        let levels = self.levels;
        let elements = into.len();
        if unpacked(packed, self.bits()).take(elements).any(|code| code > 2 * levels) {
            return Err(counted::malformed(packet, elements));
        }
        let mut codes = unpacked(packed, self.bits());
        for (bucket, norm) in into.chunks_mut(self.bucket).zip(counted::floats(norms)) {
            let unit = norm / levels as f32;
            for (value, code) in bucket.iter_mut().zip(&mut codes) {
                take(value, (code.cast_signed() - levels.cast_signed()) as f32 * unit);
            }
        }
        Ok(())
    }
}

impl Compressor for Qsgd {
    fn encode(&mut self, slot: Slot, x: &[f32]) -> Packet {
        let size = self.size(x.len());
        let bits = self.bits();
        let Self { levels, bucket, dice, codes } = self;
        let draws = dice.throw(slot, x.len());
        codes.clear();
        Buffers::of_process().packet(size, |bytes| {
            let (head, rest) = bytes.split_at_mut(HEAD);
            head.copy_from_slice(&counted::head(x.len()));
            let (norms, packed) = rest.split_at_mut(NORM * x.len().div_ceil(*bucket));
            let buckets = x.chunks(*bucket).zip(draws.chunks(*bucket));
            for (place, (x, draws)) in norms.as_chunks_mut().0.iter_mut().zip(buckets) {
                let norm = norm(x);
                *place = norm.to_le_bytes();
                codes.extend(x.iter().zip(draws).map(|(value, draw)| code(*value, norm, *levels, *draw)));
            }
            pack(codes, bits, packed);
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

/// The Euclidean length, NaN where it is no finite number.
fn norm(x: &[f32]) -> f32 {
    let norm = super::dot(x, x).sqrt() as f32;
    if norm.is_finite() { norm } else { f32::NAN }
}

/// From 0 for the lowest level to 2 s for the highest.
fn code(value: f32, norm: f32, levels: u32, draw: u32) -> u32 {
    if norm > 0.0 {
        // A length that was rounded down must not make a level of its own.
        let share = (value.abs() / norm).min(1.0);
        let level = round(share * levels as f32, draw);
        if value < 0.0 { levels - level } else { levels + level }
    } else {
        levels
    }
}

/// Writes the lower bits of each code, one after the other, the lowest first.
fn pack(codes: &[u32], bits: usize, bytes: &mut [u8]) {
    let mut waiting = 0_u64;
    let mut count = 0;
    let mut bytes = bytes.iter_mut();
    for code in codes {
        waiting |= u64::from(*code) << count;
        count += bits;
        while count >= 8 {
            if let Some(byte) = bytes.next() {
                *byte = waiting as u8;
            }
            waiting >>= 8;
            count -= 8;
        }
    }
    if let Some(byte) = bytes.next() {
        *byte = waiting as u8;
    }
}

/// The codes in some bytes, and perhaps the rest of the last byte.
fn unpacked(bytes: &[u8], bits: usize) -> impl Iterator<Item = u32> + '_ {
    let mut waiting = 0_u64;
    let mut count = 0;
    let mut bytes = bytes.iter();
    let mask = (1_u64 << bits) - 1;
    std::iter::from_fn(move || {
        while count < bits {
            waiting |= u64::from(*bytes.next()?) << count;
            count += 8;
        }
        let code = (waiting & mask) as u32;
        waiting >>= bits;
        count -= bits;
        Some(code)
    })
}

#[cfg(test)]
mod tests {
    use super::super::samples::{self, ORIGIN, SLOT, through};
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn each_element_is_a_level_next_to_it(
            x in samples::vectors(),
            bucket in 1..50_usize,
            levels in 1..200_u32,
        ) {
            let mut codec = Qsgd::new(levels, bucket, ORIGIN);
            let bits = (0..32).find(|bits| 1_u32 << bits > 2 * levels).unwrap();
            let size = codec.encode(SLOT, &x).0.len();
            prop_assert_eq!(size, 4 + 4 * x.len().div_ceil(bucket) + (x.len() * bits).div_ceil(8));
            let y = through(&mut codec, SLOT, &x);
            for (x, y) in x.chunks(bucket).zip(y.chunks(bucket)) {
                let norm = x.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt() as f32;
                for (x, y) in x.iter().zip(y) {
                    if !norm.is_finite() {
                        prop_assert!(y.is_nan());
                        continue;
                    }
                    if norm > 1e38 {
                        // The highest level may be beyond the largest float.
                        continue;
                    }
                    // One level, and what a scale that is hardly a number loses.
                    let level = f64::from(norm) / f64::from(levels) * 1.000_01 + 1e-40;
                    let apart = (f64::from(*x) - f64::from(*y)).abs();
                    prop_assert!(apart <= level, "{} became {}, levels are {}", x, y, level);
                    prop_assert!(*y == 0.0 || (*y < 0.0) == (*x < 0.0));
                }
            }
        }

        #[test]
        fn codes_come_back(codes in prop::collection::vec(any::<u32>(), 0..40), bits in 2..25_usize) {
            let codes: Vec<u32> = codes.iter().map(|code| code & ((1 << bits) - 1)).collect();
            let mut bytes = vec![0xa5; (codes.len() * bits).div_ceil(8)];
            pack(&codes, bits, &mut bytes);
            let back: Vec<u32> = unpacked(&bytes, bits).take(codes.len()).collect();
            prop_assert_eq!(back, codes);
        }

        #[test]
        fn other_bytes_are_an_error(bytes in prop::collection::vec(any::<u8>(), 0..16), n in 0..12_usize) {
            samples::check_refusal(&Qsgd::new(5, 4, ORIGIN), &bytes, n);
        }
    }

    /// Over all draws that differ in 8 bits, each element is exactly right on average.
    #[test]
    fn it_is_unbiased() {
        for levels in [1, 3, 7, 8] {
            for step in -256..=256_i16 {
                let x = f32::from(step) / 256.0 * 2.0;
                let s = levels as i32;
                let sum: i32 = (0..256).map(|draw| code(x, 2.0, levels, draw << 24) as i32 - s).sum();
                assert_eq!(sum, i32::from(step) * s, "{levels} levels");
            }
        }
    }

    /// Lemma 3.1, over all draws, with both elements of a bucket drawn alike: variances add all the same.
    #[test]
    fn its_error_is_within_the_lemma() {
        for levels in 1..20_u32 {
            for x in [[3.0_f32, 4.0], [1.0, 0.001], [0.5, 0.5]] {
                let norm = norm(&x);
                let error = |draw: u32| -> f64 {
                    let lost = |value: &f32| {
                        let level = code(*value, norm, levels, draw << 16) as f32 - levels as f32;
                        (f64::from(*value) - f64::from(level * norm / levels as f32)).powi(2)
                    };
                    x.iter().map(lost).sum()
                };
                let mean = (0..1 << 16).map(error).sum::<f64>() / f64::from(1 << 16);
                let d = 2.0_f64;
                let s = f64::from(levels);
                let bound = (d / (s * s)).min(d.sqrt() / s) * f64::from(norm).powi(2);
                assert!(mean <= bound * 1.001, "{levels} levels: {mean} of {bound}");
            }
        }
    }

    #[test]
    fn a_level_beyond_the_last_is_refused() {
        let bytes = |level: u8| Packet([&1_u32.to_le_bytes()[..], &[0; 4], &[level]].concat().into());
        let codec = Qsgd::new(5, 4, ORIGIN);
        assert!(codec.decode(&bytes(10), &mut [0.0]).is_ok());
        assert!(codec.decode(&bytes(11), &mut [0.0]).is_err());
    }

    #[test]
    fn zeros_nothing_and_one_element() {
        let mut codec = Qsgd::new(4, 4, ORIGIN);
        assert_eq!(through(&mut codec, SLOT, &[]), [] as [f32; 0]);
        assert_eq!(through(&mut codec, SLOT, &[0.0, -0.0]), [0.0, 0.0]);
        assert_eq!(through(&mut codec, SLOT, &[-7.5]), [-7.5]);
        assert!(through(&mut codec, SLOT, &[f32::MAX, f32::MAX])[0].is_nan());
    }
}
