//! The decoder of the data plane without a socket, for fuzzing.

use super::frame::HEADER;
use super::inbox::Inbox;
use super::incoming::{Incoming, Step};
use super::window::{Limits, WINDOW};
use bytes::Bytes;
use record::{Nanos, Rank};
use std::time::Duration;
use strategies::buffers::Buffers;

/// Flag of a frame: its number is made right, so that the code behind that check is reached.
const NUMBERED: u8 = 1;
/// Flag of a frame: the receiver empties its inbox first.
const CONSUMED: u8 = 2;

/// Takes frames as a rank takes those of a proven peer, until one is invalid. Returns the number of complete messages.
/// Each frame is a byte of flags, the size of the payload (u16, little endian),
/// the header and the payload.
pub fn data_frames(mut input: &[u8]) -> usize {
    let peer = Rank(1);
    let inbox = Inbox::new(Rank(0), 2, Limits { window: WINDOW, patience: Duration::ZERO });
    let mut incoming = Incoming::new(peer, Buffers::default(), None);
    let mut complete = 0;
    let mut open = Vec::new();
    for number in 1_u64.. {
        let Some(([flags, low, high], rest)) = input.split_first_chunk::<3>() else { break };
        let (header, rest) = rest.split_at(rest.len().min(HEADER));
        let (payload, rest) = rest.split_at(rest.len().min(usize::from(u16::from_le_bytes([*low, *high]))));
        input = rest;
        let mut header = header.to_vec();
        if flags & NUMBERED != 0
            && let Some(place) = header.last_chunk_mut()
        {
            *place = number.to_le_bytes();
        }
        if flags & CONSUMED != 0 {
            open.drain(..).for_each(|tag| drop(inbox.take(peer, tag)));
            inbox.want(peer);
        }
        let payload = Bytes::copy_from_slice(payload);
        match incoming.take(&header, payload, || Nanos(number), |size| inbox.admits(peer, size)) {
            Ok(Step::Message(envelope, _)) => {
                complete += 1;
                open.push(envelope.tag);
                inbox.deliver(envelope);
            }
            Ok(Step::Moves) => inbox.moves(peer),
            Ok(Step::Want) => drop(inbox.want(peer)),
            Ok(Step::Goodbye) | Err(_) => break,
        }
    }
    complete
}

#[cfg(test)]
mod tests {
    use super::super::frame::Frame;
    use super::*;
    use proptest::prelude::*;
    use strategies::{Kind, Tag};

    fn framed(flags: u8, frame: Frame, payload: &[u8]) -> Vec<u8> {
        let size = (payload.len() as u16).to_le_bytes();
        [&[flags][..], &size, &frame.encode(0), payload].concat()
    }

    #[test]
    fn true_frames_become_messages() {
        let tag = Tag::new(Kind::Ask, 3);
        let frames = [
            framed(NUMBERED, Frame::Whole { tag, size: 3, departed: None }, b"abc"),
            framed(NUMBERED, Frame::Announce { tag, size: 4, departed: None }, b""),
            framed(NUMBERED, Frame::Chunk { offset: 0 }, b"ab"),
            framed(NUMBERED | CONSUMED, Frame::Chunk { offset: 2 }, b"cd"),
            framed(NUMBERED | CONSUMED, Frame::Goodbye, b""),
            framed(NUMBERED, Frame::Whole { tag, size: 0, departed: None }, b""),
        ];
        assert_eq!(data_frames(&frames.concat()), 2);
        assert_eq!(
            data_frames(&framed(0, Frame::Whole { tag, size: 3, departed: None }, b"abc")),
            0,
            "a wrong number"
        );
    }

    proptest! {
        #[test]
        fn no_bytes_panic(input in prop::collection::vec(any::<u8>(), 0..500)) {
            data_frames(&input);
        }
    }
}
