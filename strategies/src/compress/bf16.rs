//! bfloat16: the upper 16 bits of each float, rounded to the nearest, ties to even. Guarantee: at most 2^-8 of each
//! normal element. Not linear: a sum of such numbers needs more bits. Bytes: 2 per element.
//!
//! A value that rounds beyond the largest number becomes an infinity; infinities stay; a NaN keeps its sign and gets
//! the quiet bit. Coding a decoded vector again changes nothing.

use super::Guarantee;
use super::kernels::narrow::Element;
use super::narrow::{Format, Narrow};
use super::truncate16::quiet;

/// Rounds each float to bfloat16.
pub type Bf16 = Narrow<RoundedHalf>;

/// The upper half of a float, rounded.
#[derive(Clone, Copy, Debug)]
pub struct RoundedHalf;

impl Element for RoundedHalf {
    #[inline]
    fn narrow(bits: u32) -> u16 {
        let nan = quiet(bits);
        // Half a unit, less one where the number below is even: a tie goes there. A NaN could overflow.
        let half = if nan == 0 { 0x7fff + (bits >> 16 & 1) } else { 0 };
        nan | (bits.wrapping_add(half) >> 16) as u16
    }

    #[inline]
    fn widen(narrow: u16) -> u32 {
        u32::from(narrow) << 16
    }
}

impl Format for RoundedHalf {
    // 2^-8: half a unit of 7 bits.
    const GUARANTEE: Guarantee = Guarantee::RelativeError(0.003_906_25);
}

#[cfg(test)]
mod tests {
    use super::super::samples;
    use super::*;

    #[test]
    fn it_rounds_to_the_nearest_of_7_bits_of_fraction() {
        samples::check_narrow(&mut Bf16::default(), |x| {
            let unit = samples::unit(x, 7, -126);
            ((f64::from(x) / unit).round_ties_even() * unit) as f32
        });
    }
}
