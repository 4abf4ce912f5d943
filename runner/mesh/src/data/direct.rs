//! Messages without a socket: what ranks that share memory write on their lines ([`crate::shared_memory`]).
//!
//! A lane announces a packet that lies in shared memory, or writes a small one, on the line to the receiver and rings the bell of the
//! lane that receives it. That lane, whichever of the rank's looks first, takes all records from the line to the inbox; no
//! other thread is woken. What has no room on the line goes through the socket. Each record tells how many messages had gone there
//! before it and is taken after them; a message that arrives there is taken after the records that are on the line by then. So the
//! messages of a rank arrive in the order in which they were sent.

use super::frame::{Frame, HEADER, encode_reference};
use super::incoming::{Incoming, IncomingFault, Step};
use super::requests::AcceptRequest;
use crate::shared_memory::{LARGEST_RECORD, LineFault, LineReader, LineWriter, Record, Sharing};
use bytes::Bytes;
use record::{Clock, Nanos, Rank};
use rustix::time::{ClockId, clock_gettime};
use std::sync::Arc;
use strategies::buffers::Buffers;
use strategies::{Envelope, Packet, Tag};
use tokio::sync::mpsc::UnboundedSender;

/// The machine's monotonic time, the same for all ranks of it.
pub(super) fn machine_time() -> Nanos {
    let now = clock_gettime(ClockId::Monotonic);
    Nanos(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
}

/// Writes messages on the line to one peer.
pub(super) struct Outgoing {
    to: Rank,
    sharing: Arc<Sharing>,
    line: LineWriter,
    /// Number of the last record.
    number: u64,
    /// Messages that went through the socket.
    passed: u64,
}

impl Outgoing {
    pub(super) fn new(to: Rank, sharing: Arc<Sharing>) -> Self {
        let line = sharing.writer(to);
        Self { to, sharing, line, number: 0, passed: 0 }
    }

    /// Writes a message; false if it has to go through the socket, which is counted.
    pub(super) fn write(&mut self, tag: Tag, packet: &Packet, departed: Option<Nanos>) -> bool {
        let written = self.try_write(tag, &packet.0, departed);
        if !written {
            self.passed += 1;
        }
        written
    }

    fn try_write(&mut self, tag: Tag, bytes: &Bytes, departed: Option<Nanos>) -> bool {
        let size = bytes.len() as u64;
        let place = self.sharing.lend(self.to, bytes);
        let (frame, payload) = match place {
            Some(place) => (Frame::Lent { tag, size, departed }, encode_reference(place).to_vec()),
            None if bytes.len() <= LARGEST_RECORD => (Frame::Whole { tag, size, departed }, bytes.to_vec()),
            None => return false,
        };
        let header: [u8; HEADER] = frame.encode(self.number + 1);
        let record = Record { after: self.passed, written: machine_time().0, header, payload };
        if self.sharing.write(&mut self.line, self.to, &record) {
            self.number += 1;
            return true;
        }
        // The peer never hears of this loan, so it cannot return it.
        if let Some(place) = place {
            self.sharing.withdraw(self.to, place);
        }
        false
    }
}

/// Everything that a rank needs to read its lines.
#[derive(Clone)]
pub(super) struct Reading {
    pub(super) sharing: Arc<Sharing>,
    /// Stamps the arrival of messages.
    pub(super) clock: Arc<dyn Clock>,
    /// To the accept loop, which counts a peer that writes nonsense as lost.
    pub(super) requests: UnboundedSender<AcceptRequest>,
}

/// Reads the line from one peer.
pub(super) struct Line {
    from: Rank,
    reading: Reading,
    reader: LineReader,
    incoming: Incoming,
    /// Messages that came through the socket.
    passed: u64,
    faulty: bool,
}

/// Data on a line that a peer of this version never writes.
#[derive(Debug, thiserror::Error)]
enum Fault {
    #[error(transparent)]
    Line(#[from] LineFault),
    #[error(transparent)]
    Record(#[from] IncomingFault),
    #[error("a record that is no message")]
    NoMessage,
}

impl Line {
    pub(super) fn new(from: Rank, reading: Reading) -> Self {
        let reader = reading.sharing.reader(from);
        let incoming = Incoming::new(from, Buffers::default(), Some(reading.sharing.clone()));
        Self { from, reading, reader, incoming, passed: 0, faulty: false }
    }

    /// The next message, with the machine's time at which it was written. `admits` says whether the peer has credits for a size in
    /// bytes. Nothing more comes after a record that is invalid; the accept loop learns of it.
    pub(super) fn next(&mut self, admits: impl Fn(u64) -> bool) -> Option<(Nanos, Envelope)> {
        if self.faulty {
            return None;
        }
        self.read(admits).unwrap_or_else(|fault| {
            self.faulty = true;
            tracing::error!(peer = %self.from, %fault, "a peer wrote an invalid record and counts as lost");
            // Fails when the plane is closed, and everybody is gone then.
            let _ = self.reading.requests.send(AcceptRequest::Faulty(self.from));
            None
        })
    }

    fn read(&mut self, admits: impl Fn(u64) -> bool) -> Result<Option<(Nanos, Envelope)>, Fault> {
        let Reading { sharing, clock, .. } = &self.reading;
        let Some(record) = sharing.read(&mut self.reader, self.from, self.passed)? else { return Ok(None) };
        let now = machine_time();
        let written = Nanos(record.written).min(now);
        // The same moment on the clock of the run, which may count from another one.
        let began = || clock.now() - now.since(written);
        match self.incoming.take(&record.header, record.payload.into(), began, admits)? {
            Step::Message(envelope, _) => Ok(Some((written, envelope))),
            Step::Moves | Step::Want | Step::Goodbye => Err(Fault::NoMessage),
        }
    }

    /// A message has come through the socket.
    pub(super) fn pass(&mut self) {
        self.passed += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared_memory::Size;
    use std::time::Instant;
    use strategies::Kind;
    use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

    const TAG: Tag = Tag { kind: Kind::Ask, step: 4, call: 1, part: 2 };

    struct Ends {
        outgoing: Outgoing,
        line: Line,
        requested: UnboundedReceiver<AcceptRequest>,
    }

    struct Since(Instant);

    impl Clock for Since {
        fn now(&self) -> Nanos {
            Nanos(self.0.elapsed().as_nanos() as u64)
        }
        fn spend(&self, _: record::Work) {}
    }

    fn ends() -> Ends {
        let [me, peer] =
            [0, 1].map(|rank| Sharing::new(Rank(rank), 2, Size { packets: 1 << 20, smallest: 100 }).unwrap());
        me.join(Rank(1), peer.description());
        peer.join(Rank(0), me.description());
        let (requests, requested) = unbounded_channel();
        let reading = Reading { sharing: me, clock: Arc::new(Since(Instant::now())), requests };
        Ends { outgoing: Outgoing::new(Rank(0), peer), line: Line::new(Rank(1), reading), requested }
    }

    #[test]
    fn small_packets_and_places_arrive_and_come_after_what_went_through_the_socket() {
        let Ends { mut outgoing, mut line, .. } = ends();
        let small = Packet(vec![7; 99].into());
        let large = outgoing.sharing.place(Packet(vec![8; 5000].into()));
        let elsewhere = Packet(vec![9; 5000].into());
        assert!(outgoing.write(TAG, &small, None) && outgoing.write(TAG, &large, None));
        assert!(!outgoing.write(TAG, &elsewhere, None), "it lies where the peer cannot read it");
        assert!(outgoing.write(TAG, &small, None));
        let next = |line: &mut Line| line.next(|_| true).map(|(_, envelope)| envelope.packet);
        assert_eq!(
            [next(&mut line), next(&mut line), next(&mut line)],
            [Some(small.clone()), Some(large), None]
        );
        line.pass();
        assert_eq!([next(&mut line), next(&mut line)], [Some(small), None]);
    }

    #[test]
    fn a_line_without_room_leaves_no_loan_open() {
        let loans = |full: bool| {
            let Ends { mut outgoing, mut line, .. } = ends();
            let packet = outgoing.sharing.place(Packet(vec![8; 5000].into()));
            let small = Packet(vec![7; 99].into());
            if full {
                while outgoing.write(TAG, &small, None) {}
                assert!(!outgoing.write(TAG, &packet, None), "the line is full");
                line.passed = outgoing.passed;
                while line.next(|_| true).is_some() {}
            }
            (0..100_000).take_while(|_| outgoing.write(TAG, &packet, None)).count()
        };
        assert_eq!(loans(true), loans(false), "a loan is open that the peer does not know of");
    }

    #[test]
    fn nonsense_ends_the_line_and_is_reported_once() {
        let Ends { mut outgoing, mut line, mut requested } = ends();
        let record = Record { after: 0, written: 0, header: [9; 48], payload: vec![1] };
        assert!(outgoing.sharing.clone().write(&mut outgoing.line, Rank(0), &record));
        assert!(outgoing.write(TAG, &Packet(vec![7].into()), None));
        assert!(line.next(|_| true).is_none() && line.next(|_| true).is_none());
        assert!(matches!(requested.try_recv(), Ok(AcceptRequest::Faulty(Rank(1)))));
        assert!(requested.try_recv().is_err());
        let Ends { mut outgoing, mut line, mut requested } = ends();
        assert!(outgoing.write(TAG, &Packet(vec![7].into()), None));
        assert!(line.next(|_| false).is_none(), "the peer has no credits for it");
        assert!(matches!(requested.try_recv(), Ok(AcceptRequest::Faulty(Rank(1)))));
    }
}
