//! What neighbours tell each other beside their models.

use crate::{Packet, StepError};
use record::Rank;

/// How far all ranks are, as far as the sender knows, and what follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// What follows.
    pub then: Then,
    /// Which averaging of the active rank, from 1.
    pub number: u64,
    /// Samples that each rank has used, in the order of the ranks.
    pub samples: Vec<u64>,
}

/// What follows a note.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// A model.
    Model,
    /// Nothing yet.
    Later,
    /// Nothing any more.
    Goodbye,
}

impl Note {
    /// As it travels: one byte, then numbers of 64 bits, little-endian.
    pub fn encode(&self) -> Packet {
        let mut bytes = vec![self.then as u8];
        bytes.extend(self.number.to_le_bytes());
        self.samples.iter().for_each(|samples| bytes.extend(samples.to_le_bytes()));
        Packet(bytes.into())
    }

    /// Reads what a rank among so many received.
    pub fn decode(packet: &Packet, me: Rank, ranks: usize) -> Result<Self, StepError> {
        Self::read(&packet.0, ranks).ok_or_else(|| StepError::Transport {
            rank: me,
            reason: format!("{} bytes are no note of one among {ranks} neighbours", packet.0.len()),
        })
    }

    fn read(bytes: &[u8], ranks: usize) -> Option<Self> {
        let (then, numbers) = bytes.split_first()?;
        let then = [Then::Model, Then::Later, Then::Goodbye].into_iter().find(|one| *one as u8 == *then)?;
        let (numbers, rest) = numbers.as_chunks::<8>();
        let (number, samples) = numbers.split_first()?;
        let samples: Vec<u64> = samples.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect();
        let fits = rest.is_empty() && samples.len() == ranks;
        fits.then_some(Self { then, number: u64::from_le_bytes(*number), samples })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_come_back_and_other_bytes_do_not() {
        for then in [Then::Model, Then::Later, Then::Goodbye] {
            let note = Note { then, number: 7, samples: vec![1, u64::MAX, 3] };
            let packet = note.encode();
            assert_eq!(Note::decode(&packet, Rank(0), 3), Ok(note));
            assert!(Note::decode(&packet, Rank(0), 2).is_err());
            let cut = |length| Note::decode(&Packet(packet.0.slice(..length)), Rank(0), 3);
            assert!((0..packet.0.len()).all(|length| cut(length).is_err()));
        }
        let strange = Packet(vec![3; 33].into());
        assert!(Note::decode(&strange, Rank(0), 3).is_err());
    }
}
