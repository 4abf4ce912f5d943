//! Truncation to 16 bits: sign, exponent and the upper 7 bits of the fraction; the rest is dropped, which rounds
//! towards zero. Guarantee: below 2^-7 of each normal element. Not linear: a sum of such numbers needs more bits.
//! Bytes: 2 per element.
//!
//! Infinities stay. A NaN keeps its sign and gets the quiet bit: one whose set bits are all low would become an
//! infinity. Coding a decoded vector again changes nothing.
//!
//! Source: Li et al., "Pipe-SGD: A Decentralized Pipelined SGD Framework for Distributed Deep Net Training",
//! NeurIPS 2018, section 3.2, "truncation".

use super::Guarantee;
use super::kernels::narrow::Element;
use super::narrow::{Format, Narrow};

/// Keeps the upper half of each float.
pub type Truncate16 = Narrow<UpperHalf>;

/// The upper half of a float, as it is.
#[derive(Clone, Copy, Debug)]
pub struct UpperHalf;

impl Element for UpperHalf {
    #[inline]
    fn narrow(bits: u32) -> u16 {
        quiet(bits) | (bits >> 16) as u16
    }

    #[inline]
    fn widen(narrow: u16) -> u32 {
        u32::from(narrow) << 16
    }
}

impl Format for UpperHalf {
    // 2^-7: 7 bits of the fraction are left.
    const GUARANTEE: Guarantee = Guarantee::RelativeError(0.007_812_5);
}

/// The quiet bit of a NaN's upper half; nothing for any other number.
#[inline]
pub(super) fn quiet(bits: u32) -> u16 {
    u16::from(bits & 0x7fff_ffff > 0x7f80_0000) << 6
}

#[cfg(test)]
mod tests {
    use super::super::samples;
    use super::*;

    #[test]
    fn what_is_beyond_7_bits_of_fraction_is_dropped() {
        samples::check_narrow(&mut Truncate16::default(), |x| {
            let unit = samples::unit(x, 7, -126);
            ((f64::from(x) / unit).trunc() * unit) as f32
        });
    }

    #[test]
    fn it_rounds_towards_zero_by_less_than_a_128th() {
        let x: Vec<f32> = samples::all_upper_halves().filter(|x| x.is_normal()).collect();
        let y = samples::through(&mut Truncate16::default(), samples::SLOT, &x);
        for (x, y) in x.iter().zip(y) {
            assert!(y.abs() <= x.abs() && (x - y).abs() < x.abs() / 128.0, "{x} became {y}");
        }
    }

    #[test]
    fn eight_significant_bits_pass_unchanged() {
        let x: Vec<f32> = (-255..=255_i16).flat_map(|n| [f32::from(n), f32::from(n) / 1024.0]).collect();
        assert_eq!(samples::through(&mut Truncate16::default(), samples::SLOT, &x), x);
    }
}
