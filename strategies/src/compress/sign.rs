//! Scaled sign: one bit for each element, and the mean magnitude of all. Guarantee: the squared error is
//! (1 - delta) of the squared length, with delta = |x|_1^2 / (n |x|_2^2): 1 / n where one element is all there is, 1
//! where all are equally large. Biased. Not linear. Bytes: 8, the number of elements and the mean, and 1 bit per
//! element.
//!
//! Decoded: m where x >= 0 and -m where x < 0, m = mean |x|, of the elements encoded together: of all of a gradient where it
//! travels whole, of a chunk in rank order, of a server's part. A NaN or an infinity makes the whole decoded vector
//! NaN. Where a sum is coded on its way back, it is its sign with its own scale, and no majority vote: votes have no
//! magnitude, and the rate would mean something else.
//!
//! Source: Karimireddy et al., "Error feedback fixes SignSGD and other gradient compression schemes", ICML 2019,
//! Algorithm 1 and lemma 8; one bit per element, Seide et al., Interspeech 2014. With a memory on both ways, as
//! in Zheng, Huang and Kwok, "Communication-efficient distributed blockwise momentum SGD with error-feedback", NeurIPS
//! 2019.

use super::counted::{self, HEAD};
use super::kernels::signs;
use super::{Compressor, Guarantee, Slot};
use crate::buffers::Buffers;
use crate::{Packet, StepError};

/// Bytes of the mean magnitude.
const SCALE: usize = 4;

/// Sends the sign of each element, and the mean magnitude of all.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sign;

impl Compressor for Sign {
    fn encode(&mut self, _: Slot, x: &[f32]) -> Packet {
        Buffers::of_process().packet(size(x.len()), |bytes| {
            let (head, rest) = bytes.split_at_mut(HEAD);
            head.copy_from_slice(&counted::head(x.len()));
            let (scale, bits) = rest.split_at_mut(SCALE);
            scale.copy_from_slice(&mean_magnitude(x).to_le_bytes());
            signs::pack(x, bits);
        })
    }

    fn decode(&self, packet: &Packet, into: &mut [f32]) -> Result<(), StepError> {
        let (scale, bits) = parts(packet, into.len())?;
        signs::unpack(bits, scale, into);
        Ok(())
    }

    fn decode_add(&self, packet: &Packet, into: &mut [f32]) -> Result<(), StepError> {
        let (scale, bits) = parts(packet, into.len())?;
        signs::unpack_add(bits, scale, into);
        Ok(())
    }

    fn elements(&self, packet: &Packet) -> usize {
        counted::elements(packet)
    }

    fn guarantee(&self) -> Guarantee {
        Guarantee::Contraction { delta: 0.0 }
    }

    fn linear(&self) -> bool {
        false
    }
}

fn size(elements: usize) -> usize {
    HEAD + SCALE + elements.div_ceil(8)
}

/// NaN where an element is none, or infinite.
fn mean_magnitude(x: &[f32]) -> f32 {
    if x.is_empty() {
        return 0.0;
    }
    let mean = (signs::magnitudes(x) / x.len() as f64) as f32;
    if mean.is_finite() { mean } else { f32::NAN }
}

/// A packet's scale and bits.
fn parts(packet: &Packet, elements: usize) -> Result<(f32, &[u8]), StepError> {
    let body = counted::body(packet, size(elements), elements)?;
    let (scale, bits) = body.split_first_chunk().ok_or_else(|| counted::malformed(packet, elements))?;
    Ok((f32::from_le_bytes(*scale), bits))
}

#[cfg(test)]
mod tests {
    use super::super::samples::{self, SLOT, through};
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_is_its_definition(x in samples::vectors()) {
            let all: f64 = x.iter().map(|value| f64::from(value.abs())).sum();
            let mean = (all / x.len().max(1) as f64) as f32;
            let finite = x.iter().all(|value| value.is_finite());
            let y = through(&mut Sign, SLOT, &x);
            prop_assert_eq!(Sign.encode(SLOT, &x).0.len(), 8 + x.len().div_ceil(8));
            for (x, y) in x.iter().zip(y) {
                if finite {
                    let expected = if *x < 0.0 { -mean } else { mean };
                    prop_assert!((y - expected).abs() <= mean * 1e-6, "{} became {}", x, y);
                    prop_assert_eq!(y.is_sign_negative(), *x < 0.0);
                } else {
                    prop_assert!(y.is_nan());
                }
            }
        }

        /// Not only at most, but exactly: the share that survives is known for each vector.
        #[test]
        fn it_contracts_by_what_its_head_says(x in prop::collection::vec(-300.0_f32..300.0, 1..100)) {
            samples::check_contraction(&mut Sign, &x);
            let y = through(&mut Sign, SLOT, &x);
            let super::super::Distance { squared, squared_error } = super::super::distance(&x, &y);
            let one: f64 = x.iter().map(|value| f64::from(value.abs())).sum();
            let expected = squared - one * one / x.len() as f64;
            prop_assert!((squared_error - expected).abs() <= 1e-6 * squared, "{squared_error} instead of {expected}");
        }

        #[test]
        fn other_bytes_are_an_error(bytes in prop::collection::vec(any::<u8>(), 0..12), n in 0..12_usize) {
            samples::check_refusal(&Sign, &bytes, n);
        }
    }

    #[test]
    fn zeros_nothing_and_one_element() {
        assert_eq!(through(&mut Sign, SLOT, &[]), [] as [f32; 0]);
        assert_eq!(through(&mut Sign, SLOT, &[0.0, -0.0, 0.0]), [0.0; 3]);
        assert_eq!(through(&mut Sign, SLOT, &[-7.5]), [-7.5]);
        assert_eq!(through(&mut Sign, SLOT, &[f32::from_bits(1)]), [f32::from_bits(1)]);
        assert_eq!(through(&mut Sign, SLOT, &[f32::MAX, f32::MIN]), [f32::MAX, f32::MIN]);
        assert_eq!(through(&mut Sign, SLOT, &[3.0, -1.0, -0.0]), [4.0 / 3.0, -4.0 / 3.0, 4.0 / 3.0]);
    }
}
