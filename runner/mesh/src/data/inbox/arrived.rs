//! Messages that have arrived at a rank, by kind and sender, and the credits that they hold. Nothing here waits.

use super::super::direct::Line;
use super::super::presence::Presence;
use super::super::waiting::Waiting;
use super::super::window::cost;
use super::Return;
use record::{Nanos, Rank};
use std::collections::VecDeque;
use std::time::Instant;
use strategies::{Envelope, Kind, Senders, StepError};

/// The messages that have arrived and were not taken out, and the credits that they hold.
pub(super) struct Arrived {
    pub(super) kinds: [Sorted; Kind::ALL.len()],
    pub(super) peers: Vec<Peer>,
    /// The error that every wait returns from now on.
    pub(super) ended: Option<StepError>,
    arrivals: u64,
}

pub(super) struct Sorted {
    /// By sender; each message with its arrival.
    pub(super) queues: Vec<VecDeque<(Arrival, Envelope)>>,
    pub(super) waiting: Waiting,
}

/// When a message arrived, by the machine's time, and which one it was.
type Arrival = (Nanos, u64);

pub(super) struct Peer {
    pub(super) presence: Presence,
    /// Whether what it sends vanishes.
    pub(super) dropped: bool,
    /// Credits of messages in the inbox.
    pub(super) held: u64,
    /// Credits of messages that were taken out, not returned yet.
    pub(super) taken: u64,
    /// Whether the sender waits for credits.
    pub(super) eager: bool,
    /// When the last chunk of a long message arrived: a wait for it is extended while it moves.
    pub(super) moved: Option<Instant>,
    /// Messages that pass no socket.
    pub(super) line: Option<Line>,
}

impl Peer {
    pub(super) fn admits(&self, size: u64, window: u64) -> bool {
        let open = self.held + self.taken;
        open == 0 || open + cost(size) <= window
    }
}

impl Arrived {
    /// Nothing of `ranks` ranks.
    pub(super) fn new(ranks: usize) -> Self {
        let sorted = || Sorted { queues: vec![VecDeque::new(); ranks], waiting: Waiting::default() };
        let peer = || Peer {
            presence: Presence::Here,
            dropped: false,
            held: 0,
            taken: 0,
            eager: false,
            moved: None,
            line: None,
        };
        Self {
            kinds: std::array::from_fn(|_| sorted()),
            peers: (0..ranks).map(|_| peer()).collect(),
            ended: None,
            arrivals: 0,
        }
    }

    /// Adds a message, unless it vanishes: then its credits return as if it had been taken out.
    pub(super) fn add(&mut self, arrived: Nanos, envelope: Envelope) {
        let from = envelope.from.index();
        let cost = cost(envelope.packet.0.len() as u64);
        if self.peers[from].dropped {
            self.peers[from].taken += cost;
            return;
        }
        self.arrivals += 1;
        // Those of the rank's own messages are never looked at.
        self.peers[from].held += cost;
        self.kinds[envelope.tag.kind as usize].queues[from].push_back(((arrived, self.arrivals), envelope));
    }

    /// Takes the messages on the line from a peer; returns their kinds.
    pub(super) fn take_from_line(&mut self, from: Rank, window: u64) -> Vec<Kind> {
        let mut kinds = Vec::new();
        let Some(mut line) = self.peers[from.index()].line.take() else { return kinds };
        while let Some((written, envelope)) = line.next(|size| self.peers[from.index()].admits(size, window))
        {
            kinds.push(envelope.tag.kind);
            self.add(written, envelope);
        }
        self.peers[from.index()].line = Some(line);
        kinds
    }

    /// Takes the messages on the line from a peer, or on all lines.
    pub(super) fn take_from_lines(&mut self, from: Option<Rank>, window: u64) {
        if let Some(from) = from {
            self.take_from_line(from, window);
            return;
        }
        let mut pass = || {
            let peers = (0..self.peers.len() as u32).map(Rank);
            peers.map(|peer| self.take_from_line(peer, window).len()).sum::<usize>()
        };
        // A message may be older than one that the first pass found, but come to a line after this pass: the second
        // pass finds it, so that the oldest is among them.
        if pass() > 0 {
            pass();
        }
    }

    /// Accounts for a message that was taken out. Returns credits when `many` have come together, or when the sender waits
    /// for them.
    pub(super) fn consume(&mut self, me: Rank, envelope: &Envelope, many: u64) -> Return {
        if envelope.from == me {
            return None;
        }
        let cost = cost(envelope.packet.0.len() as u64);
        let peer = &mut self.peers[envelope.from.index()];
        peer.held -= cost;
        peer.taken += cost;
        let now = peer.eager || peer.taken >= many;
        peer.eager &= peer.held > 0;
        now.then(|| (envelope.from, std::mem::take(&mut peer.taken)))
    }

    /// When a chunk last arrived from a peer, or from any.
    pub(super) fn moved(&self, from: Option<Rank>) -> Option<Instant> {
        match from {
            Some(from) => self.peers[from.index()].moved,
            None => self.peers.iter().filter_map(|peer| peer.moved).max(),
        }
    }

    /// The peer because of which no message can arrive any more: one that was lost, or the last one if all have left.
    pub(super) fn no_peer_left(&self, me: Rank, senders: Senders<'_>) -> Option<Rank> {
        let sends = |rank: Rank| rank != me && senders.contains(rank);
        let others = || (0..).map(Rank).zip(&self.peers).filter(|(rank, _)| sends(*rank));
        let lost = others().find(|(_, peer)| peer.presence == Presence::Lost);
        let all_left = || others().all(|(_, peer)| peer.presence.gone());
        lost.or_else(|| if all_left() { others().last() } else { None }).map(|(rank, _)| rank)
    }
}
