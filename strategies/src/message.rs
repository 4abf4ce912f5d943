//! Small messages between ranks: fields of fixed size, little-endian, one after the other.

use crate::{Packet, StepError};
use record::Rank;

/// A message without fields: one byte, which is no encoding of a vector. Its tag tells it from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    /// The sender is at a point of its step for which others wait.
    Here,
    /// No gradient follows: sent in place of one.
    Goodbye,
    /// A worker asks for a turn before it sends a vector.
    Ask,
    /// A server tells a worker that its turn begins.
    Grant,
    /// A worker has all that it was sent in its turn, which ends.
    Received,
    /// A worker of a round robin ends its turn.
    Done,
}

impl Signal {
    /// The signal as a packet.
    pub(crate) const fn packet(self) -> Packet {
        match self {
            Self::Here | Self::Goodbye => Packet::from_static(&[0]),
            Self::Ask | Self::Grant | Self::Received | Self::Done => Packet::from_static(&[1]),
        }
    }
}

/// A small message, whose fields are read in the order in which they were written.
pub trait Message: Sized {
    /// The noun that an error uses for it, with its article.
    const NAME: &'static str;

    /// Appends the fields of the message to `out`.
    fn write(&self, out: &mut Vec<u8>);

    /// Reads its fields; `None` if they are not such a message.
    fn read(fields: &mut Fields<'_>) -> Option<Self>;

    /// The message as a packet.
    fn encode(&self) -> Packet {
        let mut out = Vec::new();
        self.write(&mut out);
        Packet(out.into())
    }

    /// The message in a packet that `rank` received: all of its bytes.
    fn decode(packet: &Packet, rank: Rank) -> Result<Self, StepError> {
        let mut fields = Fields(&packet.0);
        let message = Self::read(&mut fields).filter(|_| fields.0.is_empty());
        message.ok_or_else(|| malformed::<Self>(packet, rank))
    }
}

/// The error for a packet that is not the message that was expected.
pub fn malformed<M: Message>(packet: &Packet, rank: Rank) -> StepError {
    StepError::Message { rank, bytes: packet.0.len(), expected: M::NAME }
}

/// The fields of a message that are not read yet.
#[derive(Debug)]
pub struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    /// Whether all fields are read.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// An unsigned number of 8 bits.
    pub fn u8(&mut self) -> Option<u8> {
        self.next::<1>().map(u8::from_le_bytes)
    }

    /// An unsigned number of 32 bits.
    pub fn u32(&mut self) -> Option<u32> {
        self.next().map(u32::from_le_bytes)
    }

    /// An unsigned number of 64 bits.
    pub fn u64(&mut self) -> Option<u64> {
        self.next().map(u64::from_le_bytes)
    }

    /// A float of 32 bits.
    pub fn f32(&mut self) -> Option<f32> {
        self.next().map(f32::from_le_bytes)
    }

    /// A flag: the byte 0 or 1.
    pub fn flag(&mut self) -> Option<bool> {
        match self.u8()? {
            0 => Some(false),
            1 => Some(true),
            2.. => None,
        }
    }

    fn next<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*field)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq)]
    struct Sample {
        number: u64,
        share: f32,
        last: bool,
    }

    impl Message for Sample {
        const NAME: &'static str = "a sample";

        fn write(&self, out: &mut Vec<u8>) {
            out.extend(self.number.to_le_bytes());
            out.extend(self.share.to_le_bytes());
            out.push(u8::from(self.last));
        }

        fn read(fields: &mut Fields<'_>) -> Option<Self> {
            Some(Self { number: fields.u64()?, share: fields.f32()?, last: fields.flag()? })
        }
    }

    #[test]
    fn a_message_comes_back_and_no_other_bytes_do() {
        let sample = Sample { number: u64::MAX - 1, share: 0.25, last: true };
        let packet = sample.encode();
        assert_eq!(packet.0.len(), 13);
        assert_eq!(Sample::decode(&packet, Rank(0)), Ok(sample));
        let longer = [&packet.0[..], &[0]].concat();
        let wrong_flag = [&packet.0[..12], &[2]].concat();
        let shorter = (0..13).map(|length| packet.0[..length].to_vec());
        for bytes in shorter.chain([longer, wrong_flag]) {
            let error = Sample::decode(&Packet(bytes.clone().into()), Rank(3)).unwrap_err();
            let expected = StepError::Message { rank: Rank(3), bytes: bytes.len(), expected: "a sample" };
            assert_eq!(error, expected);
        }
    }
}
