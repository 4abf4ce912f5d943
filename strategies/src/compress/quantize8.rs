//! Quantization to 8 bits: each element as a multiple, from -127 to 127, of a 127th of the largest magnitude of the
//! vector. Guarantee: half of that scale, 1 / 254 of the largest. Not linear: packets have scales of their own.
//! Bytes: 4, the scale, and 1 per element.
//!
//! q = round(x / scale), ties to even, with scale = max |x| / 127; decoded: q * scale. Every vector that travels has
//! a scale of its own: of a chunk and a hop in a ring, of all that is sent together to a server.
//!
//! A scale that is no normal number (all elements are zero, or below 127 * 2^-126) gives zeros. Any NaN or infinity
//! makes the whole decoded vector NaN, the same one wherever it is decoded.
//!
//! Source: Li et al., "Pipe-SGD: A Decentralized Pipelined SGD Framework for Distributed Deep Net Training",
//! NeurIPS 2018, section 3.2, "scalar quantization".

use super::buffers::Buffers;
use super::kernels::quantize as kernels;
use super::{Compressor, Guarantee, Slot};
use crate::{Packet, StepError};

/// Where an infinity begins, above it NaN, among the bits of magnitudes.
const INFINITE: u32 = 0x7f80_0000;

/// The steps on each side of zero.
const STEPS: f32 = 127.0;

/// Bytes of the scale.
const SCALE: usize = 4;

/// Sends each element as a multiple of a 127th of the largest.
#[derive(Debug, Default)]
pub struct Quantize8 {
    buffers: Buffers,
}

impl Compressor for Quantize8 {
    fn encode(&mut self, _: Slot, x: &[f32]) -> Packet {
        let scale = scale(x);
        self.buffers.packet(SCALE + x.len(), |bytes| {
            let (head, steps) = bytes.split_at_mut(SCALE);
            head.copy_from_slice(&scale.to_le_bytes());
            if scale.is_normal() {
                kernels::quantize::run(x, scale, steps);
            } else {
                steps.fill(0);
            }
        })
    }

    fn decode(&self, packet: &Packet, into: &mut [f32]) -> Result<(), StepError> {
        let (scale, steps) = parts(packet, into.len())?;
        kernels::dequantize::run(steps, scale, into);
        Ok(())
    }

    fn decode_add(&self, packet: &Packet, into: &mut [f32]) -> Result<(), StepError> {
        let (scale, steps) = parts(packet, into.len())?;
        kernels::dequantize_add::run(steps, scale, into);
        Ok(())
    }

    fn elements(&self, packet: &Packet) -> usize {
        packet.0.len().saturating_sub(SCALE)
    }

    fn guarantee(&self) -> Guarantee {
        // 1 / 254, and a little for the roundings of the scale and of the product.
        Guarantee::ShareOfLargest(1.000_001 / 254.0)
    }

    fn linear(&self) -> bool {
        false
    }
}

/// What a step is worth: a normal number, zero, or NaN.
fn scale(x: &[f32]) -> f32 {
    let largest = kernels::largest::run(x);
    if largest >= INFINITE {
        return f32::NAN;
    }
    let scale = f32::from_bits(largest) / STEPS;
    if scale.is_normal() { scale } else { 0.0 }
}

/// A packet's scale and steps.
fn parts(packet: &Packet, elements: usize) -> Result<(f32, &[u8]), StepError> {
    match packet.0.split_first_chunk::<SCALE>() {
        Some((scale, steps)) if steps.len() == elements => Ok((f32::from_le_bytes(*scale), steps)),
        _ => Err(StepError::Packet { bytes: packet.0.len(), elements }),
    }
}
