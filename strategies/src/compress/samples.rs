//! Floats that codecs stumble over, for their tests, and a codec's rounding in the words of its definition.

use super::{Compressor, Guarantee, Origin, Slot};
use crate::{Kind, Packet, StepError};
use proptest::prelude::*;
use record::Rank;

/// A slot for tests in which any will do.
pub(super) const SLOT: Slot = Slot { kind: Kind::Reduce, at: 0, step: 1, peer: Rank(1) };

/// Some rank of some run.
pub(super) const ORIGIN: Origin = Origin { seed: 7, rank: Rank(2) };

/// Any bits at all, ordinary numbers, and the ends of every range, in vectors of all lengths around the width of a
/// register.
pub(super) fn vectors() -> impl Strategy<Value = Vec<f32>> {
    let special = prop::sample::select(vec![
        0.0,
        -0.0,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        -f32::NAN,
        f32::from_bits(0x7f80_0001),
        f32::from_bits(0xff80_ffff),
        f32::MAX,
        f32::MIN,
        f32::MIN_POSITIVE,
        f32::from_bits(1),
        65519.996,
        65520.0,
        2.0_f32.powi(-25),
        126.5,
    ]);
    let number = prop_oneof![any::<u32>().prop_map(f32::from_bits), -300.0_f32..300.0, special];
    prop::collection::vec(number, 0..100)
}

/// The same vectors without NaNs and infinities.
pub(super) fn finite_vectors() -> impl Strategy<Value = Vec<f32>> {
    vectors().prop_map(|x| x.into_iter().filter(|value| value.is_finite()).collect())
}

/// The vector as a receiver decodes it; checks that `decode_add` and `elements` agree with `decode`.
pub(super) fn through(codec: &mut dyn Compressor, slot: Slot, x: &[f32]) -> Vec<f32> {
    let packet = codec.encode(slot, x);
    let mut decoded = vec![0.5; x.len()];
    codec.decode(&packet, &mut decoded).unwrap();
    let mut sum = vec![-0.0; x.len()];
    codec.decode_add(&packet, &mut sum).unwrap();
    assert_same_numbers(&sum, &decoded);
    assert_eq!(codec.elements(&packet), x.len());
    decoded
}

/// The squared error is at most what the codec promises.
pub(super) fn check_contraction(codec: &mut dyn Compressor, x: &[f32]) {
    let Guarantee::Contraction { delta } = codec.guarantee() else { panic!("no contraction") };
    let super::Distance { squared, squared_error: error } = super::distance(x, &through(codec, SLOT, x));
    assert!(error <= (1.0 - delta) * squared * 1.000_001, "{error} is lost of {squared}");
}

/// Whatever comes is a vector of `n` elements, or the error that says so.
pub(super) fn check_refusal(codec: &dyn Compressor, bytes: &[u8], n: usize) {
    let packet = Packet(bytes.to_vec().into());
    let mut one = vec![0.0; n];
    let mut other = vec![0.0; n];
    let answer = codec.decode(&packet, &mut one);
    assert_eq!(answer, codec.decode_add(&packet, &mut other));
    match answer {
        Ok(()) => assert_eq!(codec.elements(&packet), n),
        error => assert_eq!(error, Err(StepError::Packet { bytes: bytes.len(), elements: n })),
    }
}

/// The same bits, NaN and signs of zero included.
pub(super) fn assert_same_bits(a: &[f32], b: &[f32]) {
    let bits = |x: &[f32]| x.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(a), bits(b), "{a:?} and {b:?}");
}

/// The same bits, but for which NaN it is: an addition of two NaN may take either.
pub(super) fn assert_same_numbers(a: &[f32], b: &[f32]) {
    let bits = |x: &[f32]| {
        x.iter()
            .map(|value| if value.is_nan() { f32::NAN.to_bits() } else { value.to_bits() })
            .collect::<Vec<_>>()
    };
    assert_eq!(bits(a), bits(b), "{a:?} and {b:?}");
}

/// The distance between numbers like `x` with `bits` bits of fraction, in a format whose smallest normal
/// number is 2 to the power of `smallest`.
pub(super) fn unit(x: f32, fraction: i32, smallest: i32) -> f64 {
    let exponent = ((x.to_bits() >> 23 & 0xff) as i32).max(1) - 127;
    2.0_f64.powi(exponent.max(smallest) - fraction)
}

/// Every upper half of a float with lower halves at and around where roundings change.
pub(super) fn all_upper_halves() -> impl Iterator<Item = f32> {
    const LOWER: [u32; 13] =
        [0, 1, 0xfff, 0x1000, 0x1001, 0x1fff, 0x2000, 0x3000, 0x7fff, 0x8000, 0x8001, 0xf000, 0xffff];
    (0..1_u32 << 16).flat_map(|upper| LOWER.into_iter().map(move |lower| f32::from_bits(upper << 16 | lower)))
}

/// The laws that hold for all codecs of 16 bits, `expected` being the number that a finite one should become.
pub(super) fn check_narrow(codec: &mut dyn Compressor, expected: impl Fn(f32) -> f32) {
    let x: Vec<f32> = all_upper_halves().collect();
    let y = through(codec, SLOT, &x);
    for (x, y) in x.iter().zip(&y) {
        if x.is_nan() {
            assert!(y.is_nan(), "{:08x} became {y}", x.to_bits());
            assert_eq!(y.to_bits() & 0x8040_0000, x.to_bits() & 0x8000_0000 | 0x0040_0000);
        } else if x.is_infinite() {
            assert_eq!(x.to_bits(), y.to_bits());
        } else {
            assert_eq!(expected(*x).to_bits(), y.to_bits(), "{x:e} became {y:e}");
        }
    }
    assert_same_bits(&through(codec, SLOT, &y), &y);
}
