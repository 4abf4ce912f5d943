//! Loops of the codec that counts in shares of the largest element.

/// 1.5 * 2^23: a float this large has no bits below one, so that adding it rounds to the nearest whole number,
/// ties to even, and leaves that number in the lowest bits. Right for numbers up to 2^22 in magnitude.
const ROUNDER: f32 = 12_582_912.0;

kernels! {
    /// The bits of the largest magnitude: of an infinity or a NaN if there is any.
    fn largest(x: &[f32]) -> u32 {
        x.iter().fold(0, |largest, value| largest.max(value.to_bits() & 0x7fff_ffff))
    }

    /// Writes one byte for each element: the nearest multiple of `scale`, ties to the even one. No element may
    /// be beyond 127 of it.
    fn quantize(x: &[f32], scale: f32, bytes: &mut [u8]) {
        for (byte, value) in bytes.iter_mut().zip(x) {
            *byte = (value / scale + ROUNDER).to_bits() as u8;
        }
    }

    /// Reads one byte for each element.
    fn dequantize(bytes: &[u8], scale: f32, into: &mut [f32]) {
        for (value, byte) in into.iter_mut().zip(bytes) {
            *value = f32::from(byte.cast_signed()) * scale;
        }
    }

    /// Reads one byte for each element, and adds what it means.
    fn dequantize_add(bytes: &[u8], scale: f32, into: &mut [f32]) {
        for (value, byte) in into.iter_mut().zip(bytes) {
            *value += f32::from(byte.cast_signed()) * scale;
        }
    }
}
