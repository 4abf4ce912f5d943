//! Loops of the codec that sends signs: eight of them in a byte, the first in the lowest bit.

use crate::arithmetic::kernels;

/// Sums that are kept side by side: one would have to wait for each addition.
const LANES: usize = 8;

kernels! {
    /// The sum of all magnitudes; every eighth element goes into the same sum, and these together in the end.
    fn magnitudes, plain_magnitudes(x: &[f32]) -> f64 {
        let mut sums = [0.0_f64; LANES];
        let (whole, rest) = x.as_chunks::<LANES>();
        for eight in whole {
            for (sum, value) in sums.iter_mut().zip(eight) {
                *sum += f64::from(value.abs());
            }
        }
        for (sum, value) in sums.iter_mut().zip(rest) {
            *sum += f64::from(value.abs());
        }
        sums.iter().sum()
    }

    /// Writes a bit for each element: whether it is below zero. Bits beyond the last element are zeros.
    fn pack, plain_pack(x: &[f32], bytes: &mut [u8]) {
        for (byte, eight) in bytes.iter_mut().zip(x.chunks(8)) {
            *byte = 0;
            for (bit, value) in eight.iter().enumerate() {
                *byte |= u8::from(*value < 0.0) << bit;
            }
        }
    }

    /// Reads a bit for each element: `scale`, or the same below zero.
    fn unpack, plain_unpack(bytes: &[u8], scale: f32, into: &mut [f32]) {
        for (byte, eight) in bytes.iter().zip(into.chunks_mut(8)) {
            for (bit, value) in eight.iter_mut().enumerate() {
                *value = f32::from_bits(scale.to_bits() ^ u32::from(*byte >> bit & 1) << 31);
            }
        }
    }

    /// Reads a bit for each element, and adds what it means.
    fn unpack_add, plain_unpack_add(bytes: &[u8], scale: f32, into: &mut [f32]) {
        for (byte, eight) in bytes.iter().zip(into.chunks_mut(8)) {
            for (bit, value) in eight.iter_mut().enumerate() {
                *value += f32::from_bits(scale.to_bits() ^ u32::from(*byte >> bit & 1) << 31);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compress::samples;
    use proptest::prelude::*;

    proptest! {
        /// Both copies of all loops against one element at a time.
        #[test]
        fn loops_equal_one_element_at_a_time(x in samples::vectors(), scale in any::<f32>()) {
            let mut packed = vec![0; x.len().div_ceil(8)];
            for (i, value) in x.iter().enumerate() {
                packed[i / 8] |= u8::from(*value < 0.0) << (i % 8);
            }
            let signs: Vec<f32> = x.iter().map(|value| if *value < 0.0 { -scale } else { scale }).collect();
            let sums: Vec<f32> = x.iter().zip(&signs).map(|(a, b)| std::hint::black_box(a + b)).collect();
            let chosen = magnitudes(&x);
            let plain = plain_magnitudes(&x);
            prop_assert!(chosen.to_bits() == plain.to_bits() || chosen.is_nan() && plain.is_nan());
            for copy in [0, 1] {
                let mut bytes = vec![0xa5; packed.len()];
                [pack, plain_pack][copy](&x, &mut bytes);
                prop_assert_eq!(&bytes, &packed);
                let mut into = vec![9.0; x.len()];
                [unpack, plain_unpack][copy](&bytes, scale, &mut into);
                samples::assert_same_bits(&into, &signs);
                into.copy_from_slice(&x);
                [unpack_add, plain_unpack_add][copy](&bytes, scale, &mut into);
                samples::assert_same_numbers(&into, &sums);
            }
        }
    }

    #[test]
    fn every_magnitude_counts_once() {
        for n in 0..40_u8 {
            let x: Vec<f32> = (0..n).map(|i| if i % 2 == 0 { f32::from(i) } else { -f32::from(i) }).collect();
            let all = (0..n).map(f64::from).sum::<f64>();
            assert!((magnitudes(&x) - all).abs() < f64::EPSILON);
        }
    }
}
