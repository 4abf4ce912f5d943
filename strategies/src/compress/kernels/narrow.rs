//! Loops of the codecs that keep 16 bits of each element, little endian.

use crate::arithmetic::kernels;

/// How an element becomes 16 bits, and what these mean.
pub(in crate::compress) trait Element {
    /// The 16 bits of a float that has these bits.
    fn narrow(bits: u32) -> u16;
    /// The bits of the float that they mean.
    fn widen(narrow: u16) -> u32;
}

kernels! {
    /// Writes two bytes for each element.
    fn encode, plain_encode<E: Element>(x: &[f32], bytes: &mut [u8]) {
        let (pairs, _) = bytes.as_chunks_mut::<2>();
        for (pair, value) in pairs.iter_mut().zip(x) {
            *pair = E::narrow(value.to_bits()).to_le_bytes();
        }
    }

    /// Reads two bytes for each element.
    fn decode, plain_decode<E: Element>(bytes: &[u8], into: &mut [f32]) {
        let (pairs, _) = bytes.as_chunks::<2>();
        for (value, pair) in into.iter_mut().zip(pairs) {
            *value = f32::from_bits(E::widen(u16::from_le_bytes(*pair)));
        }
    }

    /// Reads two bytes for each element, and adds what they mean.
    fn decode_add, plain_decode_add<E: Element>(bytes: &[u8], into: &mut [f32]) {
        let (pairs, _) = bytes.as_chunks::<2>();
        for (value, pair) in into.iter_mut().zip(pairs) {
            *value += f32::from_bits(E::widen(u16::from_le_bytes(*pair)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compress::{bf16::RoundedHalf, fp16::Half, samples, truncate16::UpperHalf};
    use proptest::prelude::*;

    type Encode = fn(&[f32], &mut [u8]);
    type Decode = fn(&[u8], &mut [f32]);

    /// Both copies of all loops, at any address, against one element at a time.
    fn check<E: Element>(x: &[f32], offset: usize) {
        let expected: Vec<u8> = x.iter().flat_map(|value| E::narrow(value.to_bits()).to_le_bytes()).collect();
        let widened: Vec<f32> = expected
            .chunks(2)
            .map(|pair| f32::from_bits(E::widen(u16::from(pair[0]) | u16::from(pair[1]) << 8)))
            .collect();
        let sums: Vec<f32> = x.iter().zip(&widened).map(|(a, b)| std::hint::black_box(a + b)).collect();
        let chosen: (Encode, Decode, Decode) = (encode::<E>, decode::<E>, decode_add::<E>);
        let plain: (Encode, Decode, Decode) = (plain_encode::<E>, plain_decode::<E>, plain_decode_add::<E>);
        for loops in [chosen, plain] {
            let mut bytes = vec![0xa5; offset + expected.len()];
            loops.0(x, &mut bytes[offset..]);
            assert_eq!(&bytes[offset..], expected);
            let mut into = vec![9.0; offset + x.len()];
            loops.1(&bytes[offset..], &mut into[offset..]);
            samples::assert_same_bits(&into[offset..], &widened);
            into[offset..].copy_from_slice(x);
            loops.2(&bytes[offset..], &mut into[offset..]);
            samples::assert_same_numbers(&into[offset..], &sums);
        }
    }

    proptest! {
        #[test]
        fn loops_equal_one_element_at_a_time(x in samples::vectors(), offset in 0..9_usize) {
            check::<UpperHalf>(&x, offset);
            check::<RoundedHalf>(&x, offset);
            check::<Half>(&x, offset);
        }
    }
}
