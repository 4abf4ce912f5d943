//! The line from one rank to another: small records, written by the one and read by the other, in order.
//!
//! It lies in the sender's memory, which the receiver has mapped; how far it was read stands in the receiver's memory, which the sender
//! has mapped. So each writes its own memory only. All is made of numbers of 64 bits that two processes share: whatever a peer
//! writes, the reader reads a number, and checks each before use.
//!
//! ```text
//!   tail | record | record | ... | SKIP, where the next one does not fit before the end
//!   a record: bytes of its payload | messages before it that go through the socket | time | header, 6 numbers | payload
//! ```
//!
//! Positions count bytes from the beginning of time; a line is read and written modulo its room.

use super::memory::{OwnMemory, PeerMemory};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of a line with its tail.
pub(super) const LINE: usize = 64 << 10;
/// Bytes of its records.
const ROOM: u64 = (LINE - 64) as u64;
/// Numbers of a header.
const HEADER: usize = 6;
/// Numbers of a record before its payload.
const FIELDS: u64 = 3 + HEADER as u64;
/// Largest payload of a record, in bytes.
pub(crate) const LARGEST: usize = 4096;
/// In place of a size: the next record is at the beginning.
const SKIP: u64 = u64::MAX;
/// How far a line was read that its reader does not read at all.
const CLOSED: u64 = u64::MAX;

/// The bytes of a record with such a payload.
fn length(payload: usize) -> u64 {
    8 * (FIELDS + payload.div_ceil(8) as u64)
}

/// A message on a line, written in one piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    /// The number of messages that were sent before it by another way.
    pub(crate) after: u64,
    /// When it was written, in nanoseconds of the machine's monotonic clock.
    pub(crate) written: u64,
    pub(crate) header: [u8; 8 * HEADER],
    pub(crate) payload: Vec<u8>,
}

/// Content of a line that no rank of this version writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LineFault {
    #[error("its line ends at {tail}, and was read up to {head}")]
    Tail { tail: u64, head: u64 },
    #[error("a record of {payload} bytes at {head} of its line, which ends at {tail}")]
    Record { payload: u64, head: u64, tail: u64 },
}

/// Where a line lies: the number of its tail, in the sender's memory, and that of how far it was read, in the receiver's.
#[derive(Clone, Copy, Debug)]
pub(super) struct LineLocation {
    pub(super) tail: usize,
    pub(super) head: usize,
}

impl LineLocation {
    /// The number at a position.
    fn at(self, position: u64) -> usize {
        self.tail + 8 + (position % ROOM / 8) as usize
    }
}

/// The end of a line at which records are written.
pub(crate) struct LineWriter {
    own: Arc<OwnMemory>,
    place: LineLocation,
    tail: u64,
}

impl LineWriter {
    pub(super) fn new(own: Arc<OwnMemory>, place: LineLocation) -> Self {
        Self { own, place, tail: 0 }
    }

    /// Writes a record that `peer` reads; false if there is no room for it.
    pub(super) fn write(&mut self, peer: &PeerMemory, record: &Record) -> bool {
        let length = length(record.payload.len());
        let left = ROOM - self.tail % ROOM;
        let skipped = if left < length { left } else { 0 };
        let read = peer.number(self.place.head).map_or(CLOSED, |head| head.load(Ordering::Acquire));
        let free = self.tail.checked_sub(read).and_then(|unread| ROOM.checked_sub(unread));
        if record.payload.len() > LARGEST || free.is_none_or(|free| free < skipped + length) {
            return false;
        }
        if skipped > 0 {
            self.set(self.tail, SKIP);
            self.tail += skipped;
        }
        let fields = [record.payload.len() as u64, record.after, record.written].into_iter();
        let bytes = record.header.chunks(8).chain(record.payload.chunks(8)).map(number);
        for (position, value) in (self.tail..).step_by(8).zip(fields.chain(bytes)) {
            self.set(position, value);
        }
        self.tail += length;
        self.own.set_mark(self.place.tail, self.tail);
        true
    }

    fn set(&self, position: u64, value: u64) {
        if let Some(number) = self.own.number(self.place.at(position)) {
            number.store(value, Ordering::Relaxed);
        }
    }
}

/// Eight bytes or fewer, the first of which counts least.
fn number(bytes: &[u8]) -> u64 {
    let mut whole = [0; 8];
    whole[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(whole)
}

/// The end of a line at which records are read.
pub(crate) struct LineReader {
    own: Arc<OwnMemory>,
    place: LineLocation,
    head: u64,
}

impl LineReader {
    pub(super) fn new(own: Arc<OwnMemory>, place: LineLocation) -> Self {
        Self { own, place, head: 0 }
    }

    /// The next record that `peer` wrote, unless more than `passed` messages by another way come before it.
    pub(super) fn read(&mut self, peer: &PeerMemory, passed: u64) -> Result<Option<Record>, LineFault> {
        let tail = peer.mark(self.place.tail);
        loop {
            let head = self.head;
            let unread = tail.checked_sub(head).filter(|unread| *unread <= ROOM && unread % 8 == 0);
            let unread = unread.ok_or(LineFault::Tail { tail, head })?;
            if unread == 0 {
                return Ok(None);
            }
            let get = |position| {
                peer.number(self.place.at(position))
                    .map_or(0, |number: &AtomicU64| number.load(Ordering::Relaxed))
            };
            let size = get(head);
            let left = ROOM - head % ROOM;
            if size == SKIP {
                self.go_to(head + left);
                continue;
            }
            let fault = LineFault::Record { payload: size, head, tail };
            let payload = usize::try_from(size).ok().filter(|size| *size <= LARGEST).ok_or(fault)?;
            let length = length(payload);
            if length > unread.min(left) {
                return Err(fault);
            }
            let after = get(head + 8);
            if after > passed {
                return Ok(None);
            }
            let bytes = |from: u64, count: usize| {
                let numbers = (from..).step_by(8).take(count.div_ceil(8));
                let mut bytes = Vec::with_capacity(count.next_multiple_of(8));
                numbers.for_each(|position| bytes.extend_from_slice(&get(position).to_le_bytes()));
                bytes.truncate(count);
                bytes
            };
            let mut header = [0; 8 * HEADER];
            for (eight, position) in header.chunks_exact_mut(8).zip((head + 24..).step_by(8)) {
                eight.copy_from_slice(&get(position).to_le_bytes());
            }
            let record =
                Record { after, written: get(head + 16), header, payload: bytes(head + 8 * FIELDS, payload) };
            self.go_to(head + length);
            return Ok(Some(record));
        }
    }

    fn go_to(&mut self, head: u64) {
        self.head = head;
        self.own.set_mark(self.place.head, head);
    }
}

/// Says that this rank does not read the line whose place this is: its sender finds no room in it.
pub(super) fn close(own: &OwnMemory, place: LineLocation) {
    own.set_mark(place.head, CLOSED);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MARKS: usize = 4096 + LINE;
    const PLACE: LineLocation = LineLocation { tail: 512, head: 1 };

    struct Ends {
        sender: Arc<OwnMemory>,
        writer: LineWriter,
        reader: LineReader,
        of_sender: Arc<PeerMemory>,
        of_receiver: Arc<PeerMemory>,
    }

    fn ends() -> Ends {
        let size = MARKS + 4096;
        let [sender, receiver] = [(); 2].map(|()| OwnMemory::make(size, MARKS).unwrap());
        let open = |memory: &OwnMemory| PeerMemory::open(memory.description(), size as u64).unwrap();
        let of_sender = open(&sender);
        let of_receiver = open(&receiver);
        let writer = LineWriter::new(sender.clone(), PLACE);
        Ends { sender, writer, reader: LineReader::new(receiver, PLACE), of_sender, of_receiver }
    }

    fn record(number: u8, size: usize) -> Record {
        Record { after: 0, written: 5, header: [number; 48], payload: vec![number; size] }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_in_order(steps in prop::collection::vec((any::<bool>(), any::<u8>(), 0..=LARGEST), 0..200)) {
            let mut ends = ends();
            let mut written = std::collections::VecDeque::new();
            for (write, number, size) in steps {
                if write {
                    if ends.writer.write(&ends.of_receiver, &record(number, size)) {
                        written.push_back(record(number, size));
                    } else {
                        prop_assert!(written.len() > 10, "there is room for {} records", written.len());
                    }
                } else {
                    prop_assert_eq!(ends.reader.read(&ends.of_sender, 0).unwrap(), written.pop_front());
                }
            }
            while let Some(expected) = written.pop_front() {
                prop_assert_eq!(ends.reader.read(&ends.of_sender, 0).unwrap(), Some(expected));
            }
            prop_assert_eq!(ends.reader.read(&ends.of_sender, 0).unwrap(), None);
        }

        #[test]
        fn no_numbers_make_the_reader_leave_the_line(
            tail in prop_oneof![0..2 * ROOM, any::<u64>()],
            numbers in prop::collection::vec(prop_oneof![0..600_u64, any::<u64>()], 1..40),
        ) {
            let mut ends = ends();
            for (at, number) in numbers.iter().enumerate() {
                ends.sender.set_mark(PLACE.at(8 * at as u64), *number);
            }
            ends.sender.set_mark(PLACE.tail, tail);
            while let Ok(Some(record)) = ends.reader.read(&ends.of_sender, u64::MAX) {
                prop_assert!(record.payload.len() <= LARGEST);
                prop_assert!(ends.reader.head <= tail);
            }
        }
    }

    #[test]
    fn a_record_waits_for_what_was_sent_before_it_by_another_way() {
        let mut ends = ends();
        let second = Record { after: 1, ..record(2, 3) };
        assert!(ends.writer.write(&ends.of_receiver, &second));
        assert_eq!(ends.reader.read(&ends.of_sender, 0), Ok(None));
        assert_eq!(ends.reader.read(&ends.of_sender, 1), Ok(Some(second)));
    }

    #[test]
    fn what_is_too_large_or_has_no_reader_is_not_written() {
        let mut ends = ends();
        assert!(!ends.writer.write(&ends.of_receiver, &record(1, LARGEST + 1)));
        assert!(ends.writer.write(&ends.of_receiver, &record(1, LARGEST)));
        close(&ends.reader.own, PLACE);
        assert!(!ends.writer.write(&ends.of_receiver, &record(1, 1)));
    }
}
