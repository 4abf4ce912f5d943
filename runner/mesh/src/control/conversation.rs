//! One side of a control connection, without the connection: numbers, acknowledgements, authentication codes.
//!
//! A frame is one byte for its kind, a number (u64, little endian), an authentication code of 32 bytes and, for a
//! message, its body. Messages are numbered from 1 in each direction; an acknowledgement carries the
//! number up to which everything has arrived. A connection over a Unix socket loses
//! nothing before it breaks, so nothing is sent twice: messages that are not acknowledged when it breaks are reported as
//! lost.

use crate::handshake::{Code, authenticate, same};
use bytes::{BufMut, Bytes, BytesMut};

const MESSAGE: u8 = 1;
const ACKNOWLEDGEMENT: u8 = 2;
const HEAD: usize = 1 + 8 + 32;

/// The sender of a frame; part of each code, so that no frame can be reflected to its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Driver = 1,
    Member = 2,
}

impl Side {
    fn other(self) -> Self {
        match self {
            Self::Driver => Self::Member,
            Self::Member => Self::Driver,
        }
    }
}

/// Meaning of a received frame.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// The body of the next message.
    Message(Bytes),
    Acknowledgement,
    /// Not from the other side of this connection, or received before.
    Ignored,
    /// Messages are missing before this one.
    Gap {
        /// The number that should have come.
        expected: u64,
        /// The number that came.
        got: u64,
    },
}

/// One side of a connection.
pub(super) struct Conversation {
    key: Code,
    side: Side,
    said: u64,
    acknowledged: u64,
    heard: u64,
    owed: bool,
}

impl Conversation {
    pub(super) fn new(key: Code, side: Side) -> Self {
        Self { key, side, said: 0, acknowledged: 0, heard: 0, owed: false }
    }

    /// The frame of the next message.
    pub(super) fn say(&mut self, body: &[u8]) -> Bytes {
        self.said += 1;
        self.frame(MESSAGE, self.said, body)
    }

    /// The acknowledgement that is due, if any.
    pub(super) fn acknowledge(&mut self) -> Option<Bytes> {
        std::mem::take(&mut self.owed).then(|| self.frame(ACKNOWLEDGEMENT, self.heard, &[]))
    }

    /// Number of sent messages that are acknowledged.
    pub(super) fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    /// Number of sent messages that are not.
    pub(super) fn open(&self) -> u64 {
        self.said - self.acknowledged
    }

    /// Takes a frame from the other side.
    pub(super) fn take(&mut self, frame: &Bytes) -> Taken {
        let Some((kind, number, code)) = split(frame) else { return Taken::Ignored };
        let body = frame.slice(HEAD..);
        if !same(code, &self.code(self.side.other(), kind, number, &body)) {
            return Taken::Ignored;
        }
        match kind {
            MESSAGE if number == self.heard + 1 => {
                self.heard = number;
                self.owed = true;
                Taken::Message(body)
            }
            MESSAGE if number > self.heard => Taken::Gap { expected: self.heard + 1, got: number },
            ACKNOWLEDGEMENT if (self.acknowledged..=self.said).contains(&number) => {
                self.acknowledged = number;
                Taken::Acknowledgement
            }
            _ => Taken::Ignored,
        }
    }

    fn frame(&self, kind: u8, number: u64, body: &[u8]) -> Bytes {
        let mut frame = BytesMut::with_capacity(HEAD + body.len());
        frame.put_u8(kind);
        frame.put_u64_le(number);
        frame.put_slice(&self.code(self.side, kind, number, body));
        frame.put_slice(body);
        frame.freeze()
    }

    fn code(&self, side: Side, kind: u8, number: u64, body: &[u8]) -> Code {
        authenticate(&self.key, &[&[side as u8, kind], &number.to_le_bytes(), body])
    }
}

fn split(frame: &[u8]) -> Option<(u8, u64, &[u8])> {
    let (kind, rest) = frame.split_first()?;
    let (number, rest) = rest.split_first_chunk()?;
    Some((*kind, u64::from_le_bytes(*number), rest.get(..32)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pair() -> (Conversation, Conversation) {
        (Conversation::new([7; 32], Side::Driver), Conversation::new([7; 32], Side::Member))
    }

    #[test]
    fn messages_are_numbered_and_acknowledged_together() {
        let (mut driver, mut member) = pair();
        let frames = [member.say(b"one"), member.say(b""), member.say(b"three")];
        assert_eq!((member.open(), driver.acknowledge()), (3, None));
        for (frame, body) in frames.iter().zip([&b"one"[..], b"", b"three"]) {
            assert_eq!(driver.take(frame), Taken::Message(Bytes::from_static(body)));
        }
        let acknowledgement = driver.acknowledge().unwrap();
        assert_eq!(driver.acknowledge(), None);
        assert_eq!(member.take(&acknowledgement), Taken::Acknowledgement);
        assert_eq!((member.open(), member.acknowledged()), (0, 3));
    }

    #[test]
    fn a_replay_is_dropped_and_a_gap_is_told() {
        let (mut driver, mut member) = pair();
        let frames = [member.say(b"one"), member.say(b"two"), member.say(b"three")];
        assert!(matches!(driver.take(&frames[0]), Taken::Message(_)));
        assert_eq!(driver.take(&frames[0]), Taken::Ignored);
        assert_eq!(driver.take(&frames[2]), Taken::Gap { expected: 2, got: 3 });
    }

    #[test]
    fn words_of_others_are_ignored() {
        let (mut driver, mut member) = pair();
        let own = driver.say(b"stop");
        assert_eq!(driver.take(&own), Taken::Ignored, "thrown back");
        let mut stranger = Conversation::new([8; 32], Side::Member);
        assert_eq!(driver.take(&stranger.say(b"hello")), Taken::Ignored, "another key");
        let frame = member.say(b"events");
        for at in 0..frame.len() {
            let mut bent = frame.to_vec();
            bent[at] ^= 1;
            assert_eq!(driver.take(&bent.into()), Taken::Ignored, "bent at {at}");
        }
        assert!(matches!(driver.take(&frame), Taken::Message(_)));
    }

    #[test]
    fn nothing_can_be_acknowledged_that_was_not_said() {
        let (mut driver, mut member) = pair();
        member.say(b"one");
        driver.heard = 2;
        driver.owed = true;
        let lie = driver.acknowledge().unwrap();
        assert_eq!(member.take(&lie), Taken::Ignored);
        assert_eq!(member.open(), 1);
    }

    proptest! {
        #[test]
        fn garbage_is_ignored(frame in prop::collection::vec(any::<u8>(), 0..100)) {
            let (mut driver, _) = pair();
            prop_assert_eq!(driver.take(&frame.into()), Taken::Ignored);
        }
    }
}
