//! Bytes between ranks: tags, packets, and the contract of every transport.

use crate::StepError;
use bytes::Bytes;
use record::{Nanos, Rank};
use std::fmt;

/// The purpose of a message. All messages of a kind go to one lane of the receiving rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Kind {
    /// Part of a collective on the compute lane.
    Reduce = 0,
    /// Part of a collective on the communication lane, while the compute lane computes.
    Overlap = 1,
    /// Weights from one rank to the others; later, what a plan needs and the plan.
    Broadcast = 2,
    /// A gradient or a model for a server.
    Push = 3,
    /// A server's message to a worker, such as its reply to a push.
    Pull = 4,
    /// A request from a peer.
    Ask = 5,
    /// A peer's reply to a request, or a server's on the communication lane.
    Answer = 6,
    /// Activations or their gradients.
    Exchange = 7,
    /// A worker's claim to the sample count.
    Count = 8,
    /// The sample count's reply.
    Counted = 9,
    /// An evaluation point that is reached, or a model that is evaluated there.
    Mark = 10,
}

impl Kind {
    /// Every kind, in the order of its number on the wire.
    pub const ALL: [Self; 11] = [
        Self::Reduce,
        Self::Overlap,
        Self::Broadcast,
        Self::Push,
        Self::Pull,
        Self::Ask,
        Self::Answer,
        Self::Exchange,
        Self::Count,
        Self::Counted,
        Self::Mark,
    ];

    /// Whether its messages belong to the method. Those of the measurement pass no emulated card.
    pub fn is_emulated(self) -> bool {
        match self {
            Self::Reduce
            | Self::Overlap
            | Self::Broadcast
            | Self::Push
            | Self::Pull
            | Self::Ask
            | Self::Answer
            | Self::Exchange => true,
            Self::Count | Self::Counted | Self::Mark => false,
        }
    }

    /// The kind with that number on the wire.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

/// Which message this is. Between two ranks, messages of one kind arrive in the order in which they were
/// sent, so a tag is a check and not a search key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tag {
    /// The purpose of the message.
    pub kind: Kind,
    /// Step of the sender, or number of its message where the two ends count no steps in common.
    pub step: u64,
    /// Tells the collectives of one step apart.
    pub call: u32,
    /// Tells the messages of one collective apart.
    pub part: u32,
}

impl Tag {
    /// The first message of the first call of a step.
    pub fn new(kind: Kind, step: u64) -> Self {
        Self { kind, step, call: 0, part: 0 }
    }

    /// Another message of the same call.
    #[must_use]
    pub fn part(self, part: usize) -> Self {
        Self { part: part as u32, ..self }
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:?} of step {}, call {}, part {}", self.kind, self.step, self.call, self.part)
    }
}

/// An encoded vector. Cheap to clone, so that one packet can go to many and be relayed bit for bit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packet(pub Bytes);

impl Packet {
    /// A packet of constant bytes, such as a signal of one byte.
    pub const fn from_static(bytes: &'static [u8]) -> Self {
        Self(Bytes::from_static(bytes))
    }
}

/// A message that arrived.
#[derive(Clone, Debug)]
pub struct Envelope {
    /// Rank that sent the message.
    pub from: Rank,
    /// The tag of the message.
    pub tag: Tag,
    /// The content of the message.
    pub packet: Packet,
    /// When its announcement arrived, on the receiver's clock: it parts waiting from transfer.
    pub began: Nanos,
}

/// The ranks that send messages of a kind to this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Senders<'a> {
    /// Each other rank of the run.
    Everyone,
    /// These; this rank itself does not count.
    Of(&'a [Rank]),
}

impl Senders<'_> {
    /// Whether a rank is one of them.
    pub fn contains(self, rank: Rank) -> bool {
        match self {
            Self::Everyone => true,
            Self::Of(ranks) => ranks.contains(&rank),
        }
    }
}

/// The connection of a lane with the other ranks.
///
/// The contract, held by one suite of tests for all transports:
///
/// - Between two ranks, messages of one kind arrive complete, once, and in the order in which they were sent.
/// - The data on its way to one peer and not taken out there is bounded by credits; beyond them `send` waits, with a
///   deadline. One message always goes: where nothing else is on its way to that peer, `send` does not wait, whatever
///   the size. So a ring in which each place sends one message first never blocks; one in which each sends several
///   may, and asks [`Transport::has_room`] first.
/// - Every wait has a deadline; its error names rank, peer, message, and time.
/// - The handles of one rank share an inbox that is sorted by kind. One lane receives all messages of a kind.
/// - After the run is stopped, every wait returns [`StepError::Stopped`].
pub trait Transport: Send {
    /// Hands a packet over for `to`.
    fn send(&mut self, to: Rank, tag: Tag, packet: Packet) -> Result<(), StepError>;

    /// Whether `send` would not wait now with a message of `bytes` bytes: there is room for it, or `send` would fail at
    /// once. Where lanes of one rank share the room, another lane may take it before this one sends.
    fn has_room(&self, to: Rank, bytes: usize) -> bool;

    /// The oldest message of `tag.kind` from `from`, which must carry exactly this tag.
    fn recv(&mut self, from: Rank, tag: Tag) -> Result<Envelope, StepError>;

    /// The oldest message of `kind` from anyone, in the order of complete arrival. Only `senders` send messages of this kind: it fails
    /// when one of them is lost, and when all have left.
    fn recv_any(&mut self, kind: Kind, senders: Senders<'_>) -> Result<Envelope, StepError>;
}
