//! Error feedback: what a codec rounds away is remembered where it was rounded, and added to what is encoded there
//! next. Guarantee: the codec's, for one packet; over many, the sum of what was sent lags behind the sum of what
//! should have been by what is remembered now, and by nothing else. Not linear, as the codec. Bytes: the codec's.
//!
//! With e the memory, x the vector: y = x + e is encoded, and e becomes y - decoded, exactly: no codec here is so
//! far off that this subtraction would round. Inside an all-reduce each place remembers what it rounded itself, its
//! own vector or a sum on its way, because a memory of the local gradient could not repair a rounded sum.
//!
//! The memory lies by the position in the flat vector, so that it survives when layers travel in other groups. Where
//! the difference is no number, because an infinity or NaN came, nothing is remembered.
//!
//! Source: Seide et al., "1-bit stochastic gradient descent and its application to data-parallel distributed
//! training of speech DNNs", Interspeech 2014, section 2.1; Karimireddy et al., "Error feedback fixes SignSGD and
//! other gradient compression schemes", ICML 2019, Algorithm 2.

use super::{Compressor, Guarantee, Slot};
use crate::{Kind, Packet, StepError};
use record::Rank;
use std::collections::BTreeMap;

/// Adds to each vector what was lost of the one before.
#[derive(Debug, Default)]
pub struct ErrorFeedback<C> {
    codec: C,
    /// For each purpose and receiver, what was rounded away, position by position.
    memories: BTreeMap<(Kind, Rank), Vec<f32>>,
    decoded: Vec<f32>,
}

impl<C: Compressor> ErrorFeedback<C> {
    /// A codec with an empty memory.
    pub fn new(codec: C) -> Self {
        Self { codec, memories: BTreeMap::new(), decoded: Vec::new() }
    }

    /// What is remembered for the next vectors of a purpose to a receiver, by position; positions beyond its end
    /// have lost nothing so far.
    pub fn memory(&self, kind: Kind, peer: Rank) -> &[f32] {
        self.memories.get(&(kind, peer)).map_or(&[], Vec::as_slice)
    }
}

impl<C: Compressor> Compressor for ErrorFeedback<C> {
    fn encode(&mut self, slot: Slot, x: &[f32]) -> Packet {
        let end = slot.at + x.len();
        let memory = self.memories.entry((slot.kind, slot.peer)).or_default();
        if memory.len() < end {
            memory.resize(end, 0.0);
        }
        let memory = &mut memory[slot.at..end];
        memory.iter_mut().zip(x).for_each(|(lost, value)| *lost += value);
        let packet = self.codec.encode(slot, memory);
        if self.decoded.len() < x.len() {
            self.decoded.resize(x.len(), 0.0);
        }
        let decoded = &mut self.decoded[..x.len()];
        match self.codec.decode(&packet, decoded) {
            Ok(()) => memory.iter_mut().zip(decoded).for_each(|(due, sent)| {
                let lost = *due - *sent;
                *due = if lost.is_finite() { lost } else { 0.0 };
            }),
            // A codec reads what it wrote; if one did not, nothing could be said about what it lost.
            Err(_) => memory.fill(0.0),
        }
        packet
    }

    fn decode(&self, packet: &Packet, into: &mut [f32]) -> Result<(), StepError> {
        self.codec.decode(packet, into)
    }

    fn decode_add(&self, packet: &Packet, into: &mut [f32]) -> Result<(), StepError> {
        self.codec.decode_add(packet, into)
    }

    fn elements(&self, packet: &Packet) -> usize {
        self.codec.elements(packet)
    }

    fn guarantee(&self) -> Guarantee {
        self.codec.guarantee()
    }

    fn linear(&self) -> bool {
        self.codec.linear()
    }
}
