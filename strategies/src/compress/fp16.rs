//! Half precision (IEEE 754 binary16): 5 bits of exponent and 10 of fraction, rounded to the nearest, ties to even.
//! Guarantee: at most 2^-11 of each element from 2^-14 to 65504. Not linear: a sum of such numbers needs more bits.
//! Bytes: 2 per element.
//!
//! Smaller elements come within 2^-25, and nothing is left of those up to that; from 65520 on they become
//! infinities. A NaN keeps its sign, its upper bits, and gets the quiet bit: what the processor's own conversion
//! does. Coding a decoded vector again changes nothing.

use super::Guarantee;
use super::kernels::narrow::Element;
use super::narrow::{Format, Narrow};

/// Rounds each float to half precision.
pub type Fp16 = Narrow<Half>;

/// Half precision of IEEE 754: 5 bits of exponent, 10 of mantissa.
#[derive(Clone, Copy, Debug)]
pub struct Half;

/// 2^-14, the smallest normal half.
const SMALLEST_NORMAL: u32 = 113 << 23;
/// 65520, half-way between the largest half and what would come next: rounds to an infinity.
const TOO_LARGE: u32 = 0x477f_f000;
/// Exponents count from 127 in a float and from 15 in a half.
const BIAS: u32 = (127 - 15) << 23;

impl Element for Half {
    #[inline]
    fn narrow(bits: u32) -> u16 {
        let sign = (bits >> 16) as u16 & 0x8000;
        let magnitude = bits & 0x7fff_ffff;
        // Half a unit, less one where the number below is even: a tie goes there.
        let rounded = magnitude.wrapping_sub(BIAS).wrapping_add(0xfff + (magnitude >> 13 & 1));
        let normal = (rounded >> 13) as u16;
        // A half's units at the bottom are those of a float at 0.5: the addition rounds as it should.
        let tiny = ((f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0.5_f32.to_bits())) as u16;
        let nan = 0x7e00 | (magnitude >> 13) as u16 & 0x3ff;
        let finite = if magnitude < SMALLEST_NORMAL { tiny } else { normal };
        let number = if magnitude < TOO_LARGE { finite } else { 0x7c00 };
        sign | if magnitude > 0x7f80_0000 { nan } else { number }
    }

    #[inline]
    fn widen(narrow: u16) -> u32 {
        let sign = u32::from(narrow & 0x8000) << 16;
        let magnitude = u32::from(narrow & 0x7fff) << 13;
        // As a float, a subnormal half with a bit put before its fraction is 2^-14 too large.
        let tiny = (f32::from_bits(magnitude + SMALLEST_NORMAL) - f32::from_bits(SMALLEST_NORMAL)).to_bits();
        let finite = if magnitude < 1 << 23 { tiny } else { magnitude + BIAS };
        let number = if magnitude < 31 << 23 { finite } else { magnitude | 0x7f80_0000 };
        sign | number
    }
}

impl Format for Half {
    // 2^-11: half a unit of 10 bits.
    const GUARANTEE: Guarantee = Guarantee::RelativeError(0.000_488_281_25);
}

#[cfg(test)]
mod tests {
    use super::super::samples;
    use super::*;

    #[test]
    fn it_rounds_to_the_nearest_of_10_bits_of_fraction() {
        samples::check_narrow(&mut Fp16::default(), |x| {
            let unit = samples::unit(x, 10, -14);
            let rounded = (f64::from(x) / unit).round_ties_even() * unit;
            if rounded.abs() < 65536.0 { rounded as f32 } else { f32::INFINITY.copysign(x) }
        });
    }

    /// The conversions that the processor has.
    #[cfg(target_arch = "x86_64")]
    #[test]
    fn the_processor_says_the_same() {
        use std::arch::x86_64::{_MM_FROUND_TO_NEAREST_INT, _mm_cvtph_ps, _mm_cvtps_ph};
        #[target_feature(enable = "f16c")]
        fn narrow(bits: [u32; 4]) -> [u16; 8] {
            bytemuck::cast(_mm_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(bytemuck::cast(bits)))
        }
        #[target_feature(enable = "f16c")]
        fn widen(narrow: [u16; 8]) -> [u32; 4] {
            bytemuck::cast(_mm_cvtph_ps(bytemuck::cast(narrow)))
        }
        if !std::arch::is_x86_feature_detected!("f16c") {
            return;
        }
        for x in samples::all_upper_halves() {
            let bits = x.to_bits();
            #[expect(unsafe_code, reason = "what the processor can do is known only here")]
            // SAFETY: it has just said that it can do F16C.
            let (half, back) = unsafe {
                let half = narrow([bits; 4]);
                (half[0], widen(half)[0])
            };
            assert_eq!(Half::narrow(bits), half, "{bits:08x}");
            assert_eq!(Half::widen(half), back, "{half:04x}");
        }
    }
}
