//! The notes between neighbours, sent beside models.

use crate::message::{Fields, Message, malformed};
use crate::{Packet, StepError};
use record::Rank;

/// The progress of all ranks, as far as the sender knows, and what follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Message that follows the note.
    pub then: Then,
    /// Number of the averaging of the active rank, from 1.
    pub number: u64,
    /// Samples that each rank has used, by rank.
    pub samples: Vec<u64>,
}

/// Message that follows a note.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// The sender's weights, at once.
    Model,
    /// Another note, with a later averaging; no weights.
    Later,
    /// No further message: the sender has ended.
    Goodbye,
}

impl Message for Note {
    const NAME: &'static str = "a note of a neighbour";

    fn write(&self, out: &mut Vec<u8>) {
        out.push(self.then as u8);
        out.extend(self.number.to_le_bytes());
        self.samples.iter().for_each(|samples| out.extend(samples.to_le_bytes()));
    }

    fn read(fields: &mut Fields<'_>) -> Option<Self> {
        let then = fields.u8()?;
        let then = [Then::Model, Then::Later, Then::Goodbye].into_iter().find(|one| *one as u8 == then)?;
        let number = fields.u64()?;
        let mut samples = Vec::new();
        while !fields.is_empty() {
            samples.push(fields.u64()?);
        }
        Some(Self { then, number, samples })
    }
}

impl Note {
    /// The note in a packet that a rank among `ranks` received: it counts the samples of each of them.
    pub fn received(packet: &Packet, me: Rank, ranks: usize) -> Result<Self, StepError> {
        let note = Self::decode(packet, me)?;
        if note.samples.len() == ranks { Ok(note) } else { Err(malformed::<Self>(packet, me)) }
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
            assert_eq!(Note::received(&packet, Rank(0), 3), Ok(note));
            assert!(Note::received(&packet, Rank(0), 2).is_err());
            let cut = |length| Note::received(&Packet(packet.0.slice(..length)), Rank(0), 3);
            assert!((0..packet.0.len()).all(|length| cut(length).is_err()));
        }
        let strange = Packet(vec![3; 33].into());
        assert!(Note::received(&strange, Rank(0), 3).is_err());
    }
}
