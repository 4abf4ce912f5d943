//! Common part of the codecs that keep 16 bits of each element. Bytes: 2 per element.

use super::kernels::narrow::{self as kernels, Element};
use super::{Compressor, Guarantee, Slot};
use crate::buffers::Buffers;
use crate::{Packet, StepError};
use std::marker::PhantomData;

/// Format of the 16 bits of an element.
pub(super) trait Format: Element + Send {
    /// How far a decoded element can be from what was encoded.
    const GUARANTEE: Guarantee;
}

/// A codec that keeps 16 bits of each element, in this format.
#[derive(Debug)]
pub struct Narrow<F> {
    format: PhantomData<F>,
}

impl<F> Default for Narrow<F> {
    fn default() -> Self {
        Self { format: PhantomData }
    }
}

impl<F: Format> Compressor for Narrow<F> {
    fn encode(&mut self, _: Slot, x: &[f32]) -> Packet {
        Buffers::of_process().packet(x.len() * 2, |bytes| kernels::encode::<F>(x, bytes))
    }

    fn decode(&self, packet: &Packet, into: &mut [f32]) -> Result<(), StepError> {
        check(packet, into.len())?;
        kernels::decode::<F>(&packet.0, into);
        Ok(())
    }

    fn decode_add(&self, packet: &Packet, into: &mut [f32]) -> Result<(), StepError> {
        check(packet, into.len())?;
        kernels::decode_add::<F>(&packet.0, into);
        Ok(())
    }

    fn elements(&self, packet: &Packet) -> usize {
        packet.0.len() / 2
    }

    fn guarantee(&self) -> Guarantee {
        F::GUARANTEE
    }

    fn linear(&self) -> bool {
        false
    }
}

fn check(packet: &Packet, elements: usize) -> Result<(), StepError> {
    if packet.0.len() == elements * 2 {
        Ok(())
    } else {
        Err(StepError::Packet { bytes: packet.0.len(), elements })
    }
}
