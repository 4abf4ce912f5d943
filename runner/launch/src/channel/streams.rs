//! Byte streams over a channel: each is a Unix socket at either end.

use super::PIECE;
use super::frame::{Frame, Outlet, Urgency};
use super::message::{Destination, StreamMessage};
use bytes::{Bytes, BytesMut};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// Which end opens a stream: their numbers never meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opener {
    Driver,
    Agent,
}

/// The open streams of a channel, at one of its ends. Clones share them.
pub(crate) struct Streams<M>(Arc<Inner<M>>);

struct Inner<M> {
    outlet: Outlet<M>,
    table: Mutex<Table>,
}

struct Table {
    next: u32,
    open: BTreeMap<u32, UnboundedSender<Bytes>>,
}

impl<M> Clone for Streams<M> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<M: From<StreamMessage> + Send + Sync + 'static> Streams<M> {
    /// A table without streams. `opener` says which numbers this end gives to its own: odd or even ones.
    pub(crate) fn new(outlet: Outlet<M>, opener: Opener) -> Self {
        let next = match opener {
            Opener::Driver => 1,
            Opener::Agent => 2,
        };
        Self(Arc::new(Inner { outlet, table: Mutex::new(Table { next, open: BTreeMap::new() }) }))
    }

    /// Opens a stream between `socket` and a destination at the other end. Returns when it has ended.
    pub(crate) async fn open(&self, socket: UnixStream, attempt: u64, to: Destination) {
        let (stream, mut incoming) = self.number();
        // In the queue of its bytes: one that overtook it would be dropped at the other end.
        let open = self.0.outlet.send(urgency(to), M::from(StreamMessage::Open { stream, attempt, to }));
        let is_open = tokio::select! { biased;
            is_open = open => is_open,
            // The channel was lost while the opening waited for room.
            _ = incoming.recv() => false,
        };
        if is_open {
            self.carry(stream, socket, incoming, urgency(to)).await;
        } else {
            self.ended(stream);
        }
    }

    /// Registers a stream that the other end opened, so that its bytes are kept from now on.
    pub(crate) fn accept(&self, stream: u32) -> UnboundedReceiver<Bytes> {
        let (sender, incoming) = unbounded_channel();
        self.lock().open.insert(stream, sender);
        incoming
    }

    /// Carries the bytes of an accepted stream to and from `socket` until either end closes it.
    pub(crate) async fn carry(
        &self,
        stream: u32,
        socket: UnixStream,
        mut incoming: UnboundedReceiver<Bytes>,
        urgency: Urgency,
    ) {
        let (mut from, mut to) = socket.into_split();
        let outlet = self.0.outlet.clone();
        let reading = async {
            let mut buffer = BytesMut::new();
            loop {
                buffer.reserve(PIECE);
                match from.read_buf(&mut buffer).await {
                    Ok(0) | Err(_) => return,
                    Ok(_) => {}
                }
                let payload = buffer.split().freeze();
                let frame = Frame { message: M::from(StreamMessage::Data { stream }), payload };
                if !outlet.send(urgency, frame).await {
                    return;
                }
            }
        };
        let writing = async {
            while let Some(bytes) = incoming.recv().await {
                if to.write_all(&bytes).await.is_err() {
                    // Its process has closed the socket; what it wrote before is still to be read.
                    std::future::pending::<()>().await;
                }
            }
        };
        tokio::select! {
            () = reading => {}
            () = writing => {}
        }
        self.end(stream, urgency).await;
    }

    /// Ends a stream at this end.
    pub(crate) async fn end(&self, stream: u32, urgency: Urgency) {
        if self.lock().open.remove(&stream).is_some() {
            self.0.outlet.send(urgency, M::from(StreamMessage::End { stream })).await;
        }
    }

    /// Takes bytes for a stream; those of one that has ended at this end are dropped.
    pub(crate) fn take(&self, stream: u32, bytes: Bytes) {
        if let Some(sender) = self.lock().open.get(&stream) {
            // Fails if the stream ends at this moment.
            let _ = sender.send(bytes);
        }
    }

    /// The other end has ended a stream: the bytes before it are still written.
    pub(crate) fn ended(&self, stream: u32) {
        self.lock().open.remove(&stream);
    }

    /// Ends all streams: the channel is lost.
    pub(crate) fn lose(&self) {
        self.lock().open.clear();
    }

    fn number(&self) -> (u32, UnboundedReceiver<Bytes>) {
        let (sender, incoming) = unbounded_channel();
        let mut table = self.lock();
        let stream = table.next;
        // Two by two, and a channel never has billions.
        table.next = table.next.wrapping_add(2);
        table.open.insert(stream, sender);
        (stream, incoming)
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Control messages overtake tensors and files.
pub(crate) fn urgency(to: Destination) -> Urgency {
    match to {
        Destination::Control => Urgency::Urgent,
        Destination::Rank(_) => Urgency::Bulk,
    }
}

#[cfg(test)]
mod tests {
    use super::super::frame::{outlet, read_frame};
    use super::super::message::FromAgent;
    use super::*;
    use record::Rank;

    /// A rank sends its greeting at once; if it arrived before the stream is known, the connection would break.
    #[tokio::test]
    async fn no_byte_overtakes_the_opening_of_its_stream() {
        let (mut rank, socket) = UnixStream::pair().unwrap();
        rank.write_all(b"greeting").await.unwrap();
        let (near, mut far) = tokio::io::duplex(1 << 16);
        let (outlet, _writer) = outlet::<FromAgent>(near);
        // Its writer runs when this task first waits, and finds the opening in one of its queues.
        assert!(outlet.send(Urgency::Bulk, FromAgent::Piece { request: 7 }).await);
        let streams = Streams::new(outlet, Opener::Agent);
        let opening = streams.open(socket, 1, Destination::Rank(Rank(3)));
        let reading = async {
            let mut arrived = Vec::new();
            for _ in 0..3 {
                let frame = read_frame::<FromAgent>(&mut far).await.unwrap().unwrap();
                arrived.push((frame.message, frame.payload));
            }
            arrived
        };
        let arrived = tokio::select! { biased;
            () = opening => panic!("the stream has ended"),
            arrived = reading => arrived,
        };
        let [piece, open, data] = &arrived[..] else { panic!("{arrived:?}") };
        assert!(matches!(piece.0, FromAgent::Piece { request: 7 }), "{piece:?}");
        assert!(
            matches!(open.0, FromAgent::Stream(StreamMessage::Open { stream: 2, attempt: 1, .. })),
            "{open:?}"
        );
        assert!(matches!(data.0, FromAgent::Stream(StreamMessage::Data { stream: 2 })), "{data:?}");
        assert_eq!(data.1, "greeting");
    }
}
