//! Packets that begin with the number of their elements: where several lengths need the same number of bytes.

use crate::{Packet, StepError};

/// Bytes of the number.
pub(super) const HEAD: usize = 4;

/// The head of a packet of `elements` elements. No vector here is longer than 32 bits can count.
pub(super) fn head(elements: usize) -> [u8; HEAD] {
    u32::try_from(elements).unwrap_or(u32::MAX).to_le_bytes()
}

/// How many elements a packet says it has; none where it says nothing.
pub(super) fn elements(packet: &Packet) -> usize {
    packet.0.first_chunk().map_or(0, |head| u32::from_le_bytes(*head) as usize)
}

/// The body of a packet that must have `bytes` bytes and `elements` elements.
pub(super) fn body(packet: &Packet, size: usize, into: usize) -> Result<&[u8], StepError> {
    match packet.0.get(HEAD..) {
        Some(body) if packet.0.len() == size && elements(packet) == into => Ok(body),
        _ => Err(malformed(packet, into)),
    }
}

/// A packet that is no vector of that length.
pub(super) fn malformed(packet: &Packet, elements: usize) -> StepError {
    StepError::Packet { bytes: packet.0.len(), elements }
}

/// The floats in some bytes.
pub(super) fn floats(bytes: &[u8]) -> impl Iterator<Item = f32> + '_ {
    bytes.as_chunks::<4>().0.iter().map(|four| f32::from_le_bytes(*four))
}
