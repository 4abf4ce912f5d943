//! Loops of the codec that counts in shares of the largest element.

use crate::arithmetic::kernels;

/// 1.5 * 2^23: a float this large has no bits below one, so that adding it rounds to the nearest whole number,
/// ties to even, and leaves that number in the lowest bits. Right for numbers up to 2^22 in magnitude.
const ROUNDER: f32 = 12_582_912.0;

kernels! {
    /// The bits of the largest magnitude: of an infinity or a NaN if there is any.
    fn largest, plain_largest(x: &[f32]) -> u32 {
        x.iter().fold(0, |largest, value| largest.max(value.to_bits() & 0x7fff_ffff))
    }

    /// Writes one byte for each element: the nearest multiple of `scale`, ties to the even one. No element may
    /// be beyond 127 of it.
    fn quantize, plain_quantize(x: &[f32], scale: f32, bytes: &mut [u8]) {
        for (byte, value) in bytes.iter_mut().zip(x) {
            *byte = (value / scale + ROUNDER).to_bits() as u8;
        }
    }

    /// Reads one byte for each element.
    fn dequantize, plain_dequantize(bytes: &[u8], scale: f32, into: &mut [f32]) {
        for (value, byte) in into.iter_mut().zip(bytes) {
            *value = f32::from(byte.cast_signed()) * scale;
        }
    }

    /// Reads one byte for each element, and adds what it means.
    fn dequantize_add, plain_dequantize_add(bytes: &[u8], scale: f32, into: &mut [f32]) {
        for (value, byte) in into.iter_mut().zip(bytes) {
            *value += f32::from(byte.cast_signed()) * scale;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compress::samples;
    use proptest::prelude::*;

    proptest! {
        /// Both copies of all loops, at any address, against one element at a time in the words of the definition.
        #[test]
        fn loops_equal_one_element_at_a_time(
            x in samples::vectors(),
            offset in 0..9_usize,
            scale in 1.0e-30_f32..1.0e30,
        ) {
            let magnitudes = x.iter().map(|value| value.abs().to_bits());
            let most = magnitudes.max().unwrap_or(0);
            prop_assert_eq!((largest(&x), plain_largest(&x)), (most, most));

            let near: Vec<f32> = x.iter().map(|value| (value % 127.5) * scale).collect();
            let near: Vec<f32> = near.into_iter().map(|value| if value.is_finite() { value } else { 0.0 }).collect();
            let steps: Vec<i8> = near.iter().map(|value| (value / scale).round_ties_even() as i8).collect();
            let decoded: Vec<f32> = steps.iter().map(|step| f32::from(*step) * scale).collect();
            let sums: Vec<f32> = x.iter().zip(&decoded).map(|(a, b)| std::hint::black_box(a + b)).collect();
            for copy in [0, 1] {
                let mut bytes = vec![0; offset + x.len()];
                [quantize, plain_quantize][copy](&near, scale, &mut bytes[offset..]);
                let coded: Vec<i8> = bytes[offset..].iter().map(|byte| byte.cast_signed()).collect();
                prop_assert_eq!(&coded, &steps);
                let mut into = vec![9.0; offset + x.len()];
                [dequantize, plain_dequantize][copy](&bytes[offset..], scale, &mut into[offset..]);
                samples::assert_same_bits(&into[offset..], &decoded);
                into[offset..].copy_from_slice(&x);
                [dequantize_add, plain_dequantize_add][copy](&bytes[offset..], scale, &mut into[offset..]);
                samples::assert_same_numbers(&into[offset..], &sums);
            }
        }
    }
}
