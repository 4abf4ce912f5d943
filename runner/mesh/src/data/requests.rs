//! Requests of lanes to the thread of the data plane.

use record::{Nanos, Rank};
use std::sync::mpsc;
use strategies::{Packet, Tag};

/// Asked of a link, which sends to one peer.
pub(super) enum LinkRequest {
    /// Send a message; `departed` is when it left an emulated card.
    Message { tag: Tag, packet: Packet, departed: Option<Nanos> },
    /// Ask the peer to return credits.
    Credits,
    /// Say goodbye after everything that was sent.
    Goodbye,
}

/// Asked of the accept loop, which receives from all peers.
pub(super) enum AcceptRequest {
    /// Return credits to a peer.
    Return { to: Rank, bytes: u64 },
    /// A peer wrote an invalid record and counts as lost.
    Faulty(Rank),
    /// Signal when each peer that said goodbye has closed its link, and so has received the reply to it.
    Linger(mpsc::SyncSender<()>),
}
