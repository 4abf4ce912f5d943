//! Loops of the codecs that keep 16 bits of each element, little endian.

/// How an element becomes 16 bits, and what these mean.
pub(in crate::compress) trait Element {
    /// The 16 bits of a float that has these bits.
    fn narrow(bits: u32) -> u16;
    /// The bits of the float that they mean.
    fn widen(narrow: u16) -> u32;
}

kernels! {
    /// Writes two bytes for each element.
    fn encode<E: Element>(x: &[f32], bytes: &mut [u8]) {
        let (pairs, _) = bytes.as_chunks_mut::<2>();
        for (pair, value) in pairs.iter_mut().zip(x) {
            *pair = E::narrow(value.to_bits()).to_le_bytes();
        }
    }

    /// Reads two bytes for each element.
    fn decode<E: Element>(bytes: &[u8], into: &mut [f32]) {
        let (pairs, _) = bytes.as_chunks::<2>();
        for (value, pair) in into.iter_mut().zip(pairs) {
            *value = f32::from_bits(E::widen(u16::from_le_bytes(*pair)));
        }
    }

    /// Reads two bytes for each element, and adds what they mean.
    fn decode_add<E: Element>(bytes: &[u8], into: &mut [f32]) {
        let (pairs, _) = bytes.as_chunks::<2>();
        for (value, pair) in into.iter_mut().zip(pairs) {
            *value += f32::from_bits(E::widen(u16::from_le_bytes(*pair)));
        }
    }
}
