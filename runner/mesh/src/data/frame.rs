//! The frames of the data plane: a header of fixed size, and perhaps a payload.
//!
//! All numbers are little endian:
//!
//! | bytes  | what                                                                  |
//! |--------|-----------------------------------------------------------------------|
//! | 0..4   | `BKDF`                                                                |
//! | 4..6   | version                                                               |
//! | 6      | word: the frame's kind                                               |
//! | 7      | kind of the message                                                   |
//! | 8..16  | step                                                                  |
//! | 16..20 | call                                                                  |
//! | 20..24 | part                                                                  |
//! | 24..32 | size of the message, or of the credits                                |
//! | 32..40 | where in the message the payload belongs; of a message that passes an |
//! |        | emulated card: when its first byte left the sender's, plus 1          |
//! | 40..48 | number of the frame on its link, from 1; 0 on the way back            |
//!
//! Fields that a word does not need are zero. The decoder allocates nothing.

use crate::shared_memory::{Description, Reference};
use record::{Nanos, Rank};
use strategies::{Kind, Tag};

const MAGIC: [u8; 4] = *b"BKDF";
const VERSION: u16 = crate::PROTOCOL as u16;

/// The size of a header.
pub(super) const HEADER: usize = 48;

/// The size of a [`Reference`] and of a [`Description`], the payloads of their frames.
pub(super) const REFERENCE: usize = 24;
pub(super) const DESCRIPTION: usize = 16;

/// The largest message: 4 GiB.
pub(super) const LARGEST: u64 = 4 << 30;

/// Kind of a frame, with the fields of its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// A message that is small enough to be sent with its announcement.
    Whole { tag: Tag, size: u64, departed: Option<Nanos> },
    /// A message of this size follows in chunks.
    Announce { tag: Tag, size: u64, departed: Option<Nanos> },
    /// The next piece of the announced message.
    Chunk { offset: u64 },
    /// The sender waits for credits: the receiver returns all that it holds back.
    Want,
    /// The sender will send nothing more.
    Goodbye,
    /// Returned credits, in bytes.
    Credit { bytes: u64 },
    /// Confirms that everything up to the goodbye has arrived.
    Farewell,
    /// Where the sender's shared memory is; the first frame of a link where ranks share memory.
    Memory,
    /// A message that lies in shared memory; the payload says where.
    Lent { tag: Tag, size: u64, departed: Option<Nanos> },
}

/// Why a header is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum FrameFault {
    #[error("{0} bytes are no header")]
    Length(usize),
    #[error("not a frame of this version")]
    Version,
    #[error("unknown word {0}")]
    Word(u8),
    #[error("unknown kind {0}")]
    Kind(u8),
    #[error("a message of {0} bytes exceeds the limit of {LARGEST}")]
    Size(u64),
    #[error("a payload of {payload} bytes for {frame:?}")]
    Payload { frame: Frame, payload: usize },
}

impl Frame {
    fn word(self) -> u8 {
        match self {
            Self::Whole { .. } => 1,
            Self::Announce { .. } => 2,
            Self::Chunk { .. } => 3,
            Self::Want => 4,
            Self::Goodbye => 5,
            Self::Credit { .. } => 6,
            Self::Farewell => 7,
            Self::Memory => 8,
            Self::Lent { .. } => 9,
        }
    }

    /// The header of the frame with that number.
    pub(super) fn encode(self, number: u64) -> [u8; HEADER] {
        let (tag, size, offset) = match self {
            Self::Whole { tag, size, departed }
            | Self::Announce { tag, size, departed }
            | Self::Lent { tag, size, departed } => {
                (tag, size, departed.map_or(0, |departed| departed.0.saturating_add(1)))
            }
            Self::Chunk { offset } => (Tag::new(Kind::Reduce, 0), 0, offset),
            Self::Credit { bytes } => (Tag::new(Kind::Reduce, 0), bytes, 0),
            Self::Want | Self::Goodbye | Self::Farewell | Self::Memory => (Tag::new(Kind::Reduce, 0), 0, 0),
        };
        let mut header = [0; HEADER];
        header[..4].copy_from_slice(&MAGIC);
        header[4..6].copy_from_slice(&VERSION.to_le_bytes());
        header[6] = self.word();
        header[7] = tag.kind as u8;
        header[8..16].copy_from_slice(&tag.step.to_le_bytes());
        header[16..20].copy_from_slice(&tag.call.to_le_bytes());
        header[20..24].copy_from_slice(&tag.part.to_le_bytes());
        header[24..32].copy_from_slice(&size.to_le_bytes());
        header[32..40].copy_from_slice(&offset.to_le_bytes());
        header[40..].copy_from_slice(&number.to_le_bytes());
        header
    }

    /// Decodes a header to a frame and its number. `payload` is the size of the payload in bytes.
    pub(super) fn decode(header: &[u8], payload: usize) -> Result<(Self, u64), FrameFault> {
        let header: &[u8; HEADER] = header.try_into().map_err(|_| FrameFault::Length(header.len()))?;
        if header[..4] != MAGIC || header[4..6] != VERSION.to_le_bytes() {
            return Err(FrameFault::Version);
        }
        let kind = Kind::from_number(header[7]).ok_or(FrameFault::Kind(header[7]))?;
        let tag = Tag { kind, step: u64_at(header, 8), call: u32_at(header, 16), part: u32_at(header, 20) };
        let size = u64_at(header, 24);
        let offset = u64_at(header, 32);
        let frame = match header[6] {
            1 => Self::Whole { tag, size, departed: offset.checked_sub(1).map(Nanos) },
            2 => Self::Announce { tag, size, departed: offset.checked_sub(1).map(Nanos) },
            3 => Self::Chunk { offset },
            4 => Self::Want,
            5 => Self::Goodbye,
            6 => Self::Credit { bytes: size },
            7 => Self::Farewell,
            8 => Self::Memory,
            9 => Self::Lent { tag, size, departed: offset.checked_sub(1).map(Nanos) },
            word => return Err(FrameFault::Word(word)),
        };
        let announces = matches!(frame, Self::Whole { .. } | Self::Announce { .. } | Self::Lent { .. });
        if announces && size > LARGEST {
            return Err(FrameFault::Size(size));
        }
        let fits = match frame {
            Self::Whole { size, .. } => payload as u64 == size,
            Self::Chunk { .. } => payload > 0,
            Self::Memory => payload == DESCRIPTION,
            Self::Lent { .. } => payload == REFERENCE,
            _ => payload == 0,
        };
        if fits { Ok((frame, u64_at(header, 40))) } else { Err(FrameFault::Payload { frame, payload }) }
    }
}

/// The payload of [`Frame::Lent`].
pub(super) fn encode_reference(reference: Reference) -> [u8; REFERENCE] {
    let Reference { owner, slot, number, offset } = reference;
    let mut bytes = [0; REFERENCE];
    bytes[..4].copy_from_slice(&owner.0.to_le_bytes());
    bytes[4..8].copy_from_slice(&slot.to_le_bytes());
    bytes[8..16].copy_from_slice(&number.to_le_bytes());
    bytes[16..].copy_from_slice(&offset.to_le_bytes());
    bytes
}

/// The inverse; bytes that are missing count as zero.
pub(super) fn decode_reference(bytes: &[u8]) -> Reference {
    let number = u64_at(bytes, 8);
    let offset = u64_at(bytes, 16);
    Reference { owner: Rank(u32_at(bytes, 0)), slot: u32_at(bytes, 4), number, offset }
}

/// The payload of [`Frame::Memory`].
pub(super) fn encode_description(description: Description) -> [u8; DESCRIPTION] {
    let Description { process, file, size } = description;
    let mut bytes = [0; DESCRIPTION];
    bytes[..4].copy_from_slice(&process.to_le_bytes());
    bytes[4..8].copy_from_slice(&file.to_le_bytes());
    bytes[8..].copy_from_slice(&size.to_le_bytes());
    bytes
}

/// The inverse; bytes that are missing count as zero.
pub(super) fn decode_description(bytes: &[u8]) -> Description {
    Description { process: u32_at(bytes, 0), file: u32_at(bytes, 4), size: u64_at(bytes, 8) }
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frames() -> impl Strategy<Value = Frame> {
        let tag = (0..8_u8, any::<u64>(), any::<u32>(), any::<u32>()).prop_map(|(kind, step, call, part)| {
            Tag { kind: Kind::from_number(kind).unwrap(), step, call, part }
        });
        prop_oneof![
            (tag.clone(), 0..1_u64 << 20).prop_map(|(tag, size)| Frame::Whole { tag, size, departed: None }),
            (tag, 0..=LARGEST).prop_map(|(tag, size)| Frame::Announce {
                tag,
                size,
                departed: Some(Nanos(size))
            }),
            any::<u64>().prop_map(|offset| Frame::Chunk { offset }),
            any::<u64>().prop_map(|bytes| Frame::Credit { bytes }),
            Just(Frame::Want),
            Just(Frame::Goodbye),
            Just(Frame::Farewell),
            Just(Frame::Memory),
            Just(Frame::Lent { tag: Tag::new(Kind::Pull, 9), size: 5, departed: Some(Nanos(1)) }),
        ]
    }

    proptest! {
        #[test]
        fn headers_survive(frame in frames(), number in any::<u64>()) {
            let payload = match frame {
                Frame::Whole { size, .. } => size as usize,
                Frame::Chunk { .. } => 1,
                Frame::Memory => DESCRIPTION,
                Frame::Lent { .. } => REFERENCE,
                _ => 0,
            };
            prop_assert_eq!(Frame::decode(&frame.encode(number), payload), Ok((frame, number)));
        }

        #[test]
        fn places_survive(owner in any::<u32>(), slot in any::<u32>(), number in any::<u64>(), offset in any::<u64>()) {
            let reference = Reference { owner: Rank(owner), slot, number, offset };
            prop_assert_eq!(decode_reference(&encode_reference(reference)), reference);
            let description = Description { process: owner, file: slot, size: number };
            prop_assert_eq!(decode_description(&encode_description(description)), description);
        }

        #[test]
        fn no_bytes_make_the_decoder_panic(bytes in prop::collection::vec(any::<u8>(), 0..60), payload in any::<usize>()) {
            let _ = Frame::decode(&bytes, payload);
        }

        #[test]
        fn no_header_makes_the_decoder_panic(tail in prop::array::uniform32(any::<u8>()), word in any::<u8>()) {
            let mut header = Frame::Want.encode(1);
            header[6] = word;
            header[8..40].copy_from_slice(&tail);
            let _ = Frame::decode(&header, 0);
        }
    }

    #[test]
    fn sizes_are_checked_before_anything_is_done_with_them() {
        let tag = Tag::new(Kind::Push, 3);
        let giant = Frame::Announce { tag, size: LARGEST + 1, departed: None }.encode(1);
        assert_eq!(Frame::decode(&giant, 0), Err(FrameFault::Size(LARGEST + 1)));
        let frame = Frame::Whole { tag, size: 8, departed: None };
        assert_eq!(Frame::decode(&frame.encode(1), 7), Err(FrameFault::Payload { frame, payload: 7 }));
        assert_eq!(Frame::decode(&[0; HEADER], 0), Err(FrameFault::Version));
        assert_eq!(Frame::decode(&[], 0), Err(FrameFault::Length(0)));
    }
}
