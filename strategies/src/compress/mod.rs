//! Vectors as packets: one compressor per file, each with its guarantee.

mod identity;

pub use identity::Identity;

use crate::{Kind, Packet, StepError};
use record::Rank;

/// Where a vector is encoded. What a compressor remembers between steps is keyed by this, so that it
/// survives when layers are grouped anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot {
    /// What the message is for.
    pub kind: Kind,
    /// Position of the first element in the flat vector of the call.
    pub at: usize,
    /// Who receives it.
    pub peer: Rank,
}

/// How far a decoded vector can be from what was encoded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Guarantee {
    /// Not at all: the same bits.
    Exact,
    /// By at most this share of each element's magnitude.
    RelativeError(f64),
    /// By anything, but right on average.
    Unbiased,
    /// The squared error is at most `1 - delta` of the squared length.
    Contraction {
        /// The share that survives.
        delta: f64,
    },
}

/// Turns vectors into packets and back.
pub trait Compressor: Send {
    /// Encodes a vector.
    fn encode(&mut self, slot: Slot, x: &[f32]) -> Packet;
    /// Decodes a packet over `into`, whose length must be that of the encoded vector.
    fn decode(&self, packet: &Packet, into: &mut [f32]) -> Result<(), StepError>;
    /// Adds the decoded packet to `into`: the same bits as decoding and adding element by element.
    fn decode_add(&self, packet: &Packet, into: &mut [f32]) -> Result<(), StepError> {
        let mut decoded = vec![0.0; into.len()];
        self.decode(packet, &mut decoded)?;
        crate::vector::add(into, &decoded);
        Ok(())
    }
    /// How far a decoded vector can be from what was encoded.
    fn guarantee(&self) -> Guarantee;
    /// Whether sums of packets make sense element by element.
    fn linear(&self) -> bool;
}
