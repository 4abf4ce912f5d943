//! Assembles one peer's frames to messages.

use super::frame::{Frame, FrameFault, decode_description, decode_reference};
use crate::shared_memory::{BlockFault, Sharing};
use bytes::Bytes;
use record::{Nanos, Rank};
use std::collections::TryReserveError;
use std::sync::Arc;
use strategies::buffers::{Buffer, Buffers};
use strategies::{Envelope, Packet, Tag};

/// The state of one peer's stream of frames.
pub(super) struct Incoming {
    peer: Rank,
    /// Number of the last frame.
    number: u64,
    announced: Option<Announced>,
    buffers: Buffers,
    sharing: Option<Arc<Sharing>>,
}

struct Announced {
    tag: Tag,
    size: usize,
    began: Nanos,
    departed: Option<Nanos>,
    /// The bytes that have arrived; none before the first chunk.
    buffer: Option<Buffer>,
}

/// The effect of a frame.
pub(super) enum Step {
    /// The frame completes no message.
    Moves,
    /// A message is complete; with the time at which it left an emulated card, if there is one.
    Message(Envelope, Option<Nanos>),
    /// The peer waits for credits.
    Want,
    /// The peer will send nothing more.
    Goodbye,
}

/// Data that a peer of this version never sends.
#[derive(Debug, thiserror::Error)]
pub(super) enum IncomingFault {
    #[error(transparent)]
    Frame(#[from] FrameFault),
    #[error("frame {got} came where frame {expected} should have come")]
    Gap { expected: u64, got: u64 },
    #[error("{0:?} does not belong here")]
    Misplaced(Frame),
    #[error("{0} bytes were sent without credits for them")]
    Credit(u64),
    #[error(transparent)]
    Block(#[from] BlockFault),
    #[error("it refers to shared memory, which this run has not")]
    Unshared,
    #[error("no memory for a message: {0}")]
    Memory(#[from] TryReserveError),
}

impl Incoming {
    pub(super) fn new(peer: Rank, buffers: Buffers, sharing: Option<Arc<Sharing>>) -> Self {
        Self { peer, number: 0, announced: None, buffers, sharing }
    }

    /// Takes the next frame. `now` is its arrival; `admits` says whether the peer has credits for a size in bytes.
    pub(super) fn take(
        &mut self,
        header: &[u8],
        payload: Bytes,
        now: impl FnOnce() -> Nanos,
        admits: impl Fn(u64) -> bool,
    ) -> Result<Step, IncomingFault> {
        let (frame, number) = Frame::decode(header, payload.len())?;
        self.number += 1;
        if number != self.number {
            return Err(IncomingFault::Gap { expected: self.number, got: number });
        }
        match (frame, self.announced.take()) {
            (Frame::Whole { size, .. } | Frame::Announce { size, .. } | Frame::Lent { size, .. }, None)
                if !admits(size) =>
            {
                Err(IncomingFault::Credit(size))
            }
            (Frame::Lent { tag, size, departed }, None) => {
                let began = now();
                let sharing = self.sharing.as_ref().ok_or(IncomingFault::Unshared)?;
                let bytes = sharing.borrow(self.peer, decode_reference(&payload), size)?;
                Ok(Step::Message(self.envelope(tag, bytes, began), departed))
            }
            (Frame::Memory, None) if number == 1 => {
                let sharing = self.sharing.as_ref().ok_or(IncomingFault::Unshared)?;
                sharing.join(self.peer, decode_description(&payload));
                Ok(Step::Moves)
            }
            (Frame::Whole { tag, departed, .. }, None) => {
                Ok(Step::Message(self.envelope(tag, payload, now()), departed))
            }
            (Frame::Announce { tag, size, departed }, None) if size > 0 => {
                let size = size as usize;
                self.announced = Some(Announced { tag, size, began: now(), departed, buffer: None });
                Ok(Step::Moves)
            }
            (Frame::Chunk { offset }, Some(announced)) => self.chunk(announced, frame, offset, payload),
            (Frame::Want, None) => Ok(Step::Want),
            (Frame::Goodbye, None) => Ok(Step::Goodbye),
            _ => Err(IncomingFault::Misplaced(frame)),
        }
    }

    fn chunk(
        &mut self,
        mut announced: Announced,
        frame: Frame,
        offset: u64,
        payload: Bytes,
    ) -> Result<Step, IncomingFault> {
        let filled = announced.buffer.as_ref().map_or(0, Buffer::len);
        if offset != filled as u64 || payload.len() > announced.size - filled {
            return Err(IncomingFault::Misplaced(frame));
        }
        if payload.len() == announced.size {
            let envelope = self.envelope(announced.tag, payload, announced.began);
            return Ok(Step::Message(envelope, announced.departed));
        }
        let mut buffer = match announced.buffer.take() {
            Some(buffer) => buffer,
            None => self.buffers.begin(announced.size)?,
        };
        buffer.append(&payload)?;
        if buffer.len() == announced.size {
            let envelope = self.envelope(announced.tag, buffer.freeze(), announced.began);
            return Ok(Step::Message(envelope, announced.departed));
        }
        self.announced = Some(Announced { buffer: Some(buffer), ..announced });
        Ok(Step::Moves)
    }

    fn envelope(&self, tag: Tag, bytes: Bytes, began: Nanos) -> Envelope {
        Envelope { from: self.peer, tag, packet: Packet(bytes), began }
    }
}

#[cfg(test)]
mod tests {
    use super::super::frame::{encode_description, encode_reference};
    use super::*;
    use crate::shared_memory::{Reference, Size};
    use proptest::prelude::*;
    use strategies::Kind;

    fn incoming() -> Incoming {
        Incoming::new(Rank(1), Buffers::default(), None)
    }

    fn take(
        incoming: &mut Incoming,
        number: u64,
        frame: Frame,
        payload: &[u8],
    ) -> Result<Step, IncomingFault> {
        let payload = Bytes::copy_from_slice(payload);
        incoming.take(&frame.encode(number), payload, || Nanos(number), |size| size <= 1000)
    }

    const TAG: Tag = Tag { kind: Kind::Pull, step: 4, call: 1, part: 2 };

    #[test]
    fn chunks_make_a_message_that_began_with_its_announcement() {
        let mut incoming = incoming();
        let frames = [
            (Frame::Announce { tag: TAG, size: 5, departed: Some(Nanos(0)) }, &b""[..]),
            (Frame::Chunk { offset: 0 }, b"abc"),
            (Frame::Chunk { offset: 3 }, b"de"),
        ];
        let mut last = None;
        for ((frame, payload), number) in frames.into_iter().zip(1..) {
            last = Some(take(&mut incoming, number, frame, payload).unwrap());
        }
        let Some(Step::Message(envelope, departed)) = last else { panic!("no message") };
        assert_eq!(departed, Some(Nanos(0)));
        assert_eq!(&envelope.packet.0[..], b"abcde");
        assert_eq!((envelope.from, envelope.tag, envelope.began), (Rank(1), TAG, Nanos(1)));
    }

    #[test]
    fn frames_out_of_place_are_faults() {
        let announce = Frame::Announce { tag: TAG, size: 5, departed: None };
        let faulty = |frames: &[(u64, Frame, &[u8])]| {
            let mut incoming = incoming();
            let (last, before) = frames.split_last().unwrap();
            for (number, frame, payload) in before {
                take(&mut incoming, *number, *frame, payload).unwrap();
            }
            take(&mut incoming, last.0, last.1, last.2).err().expect("a fault").to_string()
        };
        assert!(faulty(&[(2, Frame::Want, b"")]).contains("frame 1 should"));
        assert!(faulty(&[(1, Frame::Want, b""), (1, Frame::Want, b"")]).contains("frame 2 should"));
        assert!(faulty(&[(1, Frame::Chunk { offset: 0 }, b"a")]).contains("belong"));
        assert!(faulty(&[(1, announce, b""), (2, announce, b"")]).contains("belong"));
        assert!(faulty(&[(1, announce, b""), (2, Frame::Goodbye, b"")]).contains("belong"));
        assert!(faulty(&[(1, announce, b""), (2, Frame::Chunk { offset: 1 }, b"a")]).contains("belong"));
        assert!(faulty(&[(1, announce, b""), (2, Frame::Chunk { offset: 0 }, b"abcdef")]).contains("belong"));
        assert!(
            faulty(&[(1, Frame::Announce { tag: TAG, size: 2000, departed: None }, b"")]).contains("credits")
        );
        assert!(faulty(&[(1, Frame::Credit { bytes: 1 }, b"")]).contains("belong"));
    }

    #[test]
    fn a_message_in_shared_memory_is_read_there_and_one_beyond_it_is_a_fault() {
        let size = Size { packets: 1 << 16, smallest: 1 };
        let [me, peer] = [0, 1].map(|rank| Sharing::new(Rank(rank), 2, size).unwrap());
        peer.join(Rank(0), me.description());
        let mut incoming = Incoming::new(Rank(1), Buffers::default(), Some(me));
        let described = encode_description(peer.description());
        assert!(matches!(take(&mut incoming, 1, Frame::Memory, &described), Ok(Step::Moves)));
        let placed = peer.place(Packet(Bytes::from_static(b"abc")));
        let place = peer.lend(Rank(0), &placed.0).unwrap();
        let lent = |size| Frame::Lent { tag: TAG, size, departed: Some(Nanos(7)) };
        let Ok(Step::Message(envelope, Some(Nanos(7)))) =
            take(&mut incoming, 2, lent(3), &encode_reference(place))
        else {
            panic!("no message")
        };
        assert_eq!((&envelope.packet.0[..], envelope.tag, envelope.began), (&b"abc"[..], TAG, Nanos(2)));
        let beyond = encode_reference(Reference { offset: 1 << 20, ..place });
        let fault = take(&mut incoming, 3, lent(3), &beyond).err().unwrap();
        assert!(matches!(fault, IncomingFault::Block(BlockFault::Bounds { .. })), "{fault}");
        let fault = take(&mut incoming, 4, lent(2000), &beyond).err().unwrap();
        assert!(matches!(fault, IncomingFault::Credit(2000)), "{fault}");
        let fault = take(&mut incoming, 5, Frame::Memory, &described).err().unwrap();
        assert!(matches!(fault, IncomingFault::Misplaced(Frame::Memory)), "{fault}");
        let mut unshared = self::incoming();
        let fault = take(&mut unshared, 1, lent(3), &beyond).err().unwrap();
        assert!(matches!(fault, IncomingFault::Unshared), "{fault}");
    }

    proptest! {
        #[test]
        fn no_sequence_of_frames_makes_it_panic(
            frames in prop::collection::vec((0..11_u8, 0..2000_u64, 0..12_usize), 0..20)
        ) {
            let mut incoming = incoming();
            for ((word, number, payload), count) in frames.into_iter().zip(1..) {
                let mut header = Frame::Announce { tag: TAG, size: number, departed: None }.encode(count);
                header[6] = word;
                let payload = Bytes::from(vec![0; payload]);
                if incoming.take(&header, payload, || Nanos(0), |_| true).is_err() {
                    break;
                }
            }
        }
    }
}
