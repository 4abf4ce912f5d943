//! What has arrived at a rank, sorted by kind and sender, and the lanes that wait for it.
//!
//! The thread of the plane puts messages in and never waits; lanes take them out. Taking a message out is what
//! gives its credits back to the sender, so that what lies here is bounded.

use super::window::{Presence, WINDOW, cost};
use record::{Nanos, Rank};
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use strategies::{Envelope, Kind, StepError, Tag, Wanted};

/// Credits are returned when this much has come together, unless the sender waits for them.
const RETURN: u64 = WINDOW / 4;

/// What has arrived at a rank.
pub(super) struct Inbox {
    me: Rank,
    /// For how long nothing may come.
    patience: Duration,
    state: Mutex<State>,
    /// One for each kind, because each kind has one lane.
    arrived: [Condvar; Kind::ALL.len()],
}

struct State {
    kinds: [Sorted; Kind::ALL.len()],
    peers: Vec<Peer>,
    /// What every wait answers from now on.
    ended: Option<StepError>,
    arrivals: u64,
}

struct Sorted {
    /// By sender; with the number of its arrival.
    queues: Vec<VecDeque<(u64, Envelope)>>,
    waiting: Waiting,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Waiting {
    Nobody,
    For(Rank),
    ForAnyone,
}

struct Peer {
    presence: Presence,
    /// Credits of messages that were not taken out yet.
    held: u64,
    /// Credits of messages that were taken out, and not returned yet.
    taken: u64,
    /// Whether the sender waits for credits.
    eager: bool,
    /// Pieces of long messages that came: whoever waits behind one sees that it moves.
    pieces: u64,
}

/// Credits to return, and to whom.
pub(super) type Return = Option<(Rank, u64)>;

impl Inbox {
    /// The inbox of `me` among so many ranks.
    pub(super) fn new(me: Rank, ranks: usize, patience: Duration) -> Self {
        let sorted = || Sorted { queues: vec![VecDeque::new(); ranks], waiting: Waiting::Nobody };
        let peer = || Peer { presence: Presence::Here, held: 0, taken: 0, eager: false, pieces: 0 };
        let state = State {
            kinds: std::array::from_fn(|_| sorted()),
            peers: (0..ranks).map(|_| peer()).collect(),
            ended: None,
            arrivals: 0,
        };
        Self { me, patience, state: Mutex::new(state), arrived: Default::default() }
    }

    /// Whether a peer may send so much now; a peer that keeps to its credits always may.
    pub(super) fn admits(&self, from: Rank, size: u64) -> bool {
        let state = self.lock();
        let peer = &state.peers[from.index()];
        let open = peer.held + peer.taken;
        open == 0 || open + cost(size) <= WINDOW
    }

    /// Puts a complete message in.
    pub(super) fn deliver(&self, envelope: Envelope) {
        let (kind, from) = (envelope.tag.kind as usize, envelope.from);
        let mut state = self.lock();
        state.arrivals += 1;
        let arrival = state.arrivals;
        if from != self.me {
            state.peers[from.index()].held += cost(envelope.packet.0.len() as u64);
        }
        let sorted = &mut state.kinds[kind];
        sorted.queues[from.index()].push_back((arrival, envelope));
        let wanted = sorted.waiting == Waiting::ForAnyone || sorted.waiting == Waiting::For(from);
        drop(state);
        if wanted {
            self.arrived[kind].notify_all();
        }
    }

    /// Notes that a piece of a message came.
    pub(super) fn moves(&self, from: Rank) {
        self.lock().peers[from.index()].pieces += 1;
    }

    /// The sender waits for credits: what it is to be returned at once.
    pub(super) fn want(&self, from: Rank) -> Return {
        let mut state = self.lock();
        let peer = &mut state.peers[from.index()];
        peer.eager = peer.held > 0;
        let taken = std::mem::take(&mut peer.taken);
        (taken > 0).then_some((from, taken))
    }

    /// A peer is not there any more.
    pub(super) fn depart(&self, peer: Rank, presence: Presence) {
        self.lock().peers[peer.index()].presence.depart(presence);
        self.arrived.iter().for_each(Condvar::notify_all);
    }

    /// Makes every wait answer this, unless it answers something else already.
    pub(super) fn end(&self, reason: &StepError) {
        self.lock().ended.get_or_insert_with(|| reason.clone());
        self.arrived.iter().for_each(Condvar::notify_all);
    }

    /// The oldest message of the tag's kind from `from`, which must carry this tag.
    pub(super) fn take(&self, from: Rank, tag: Tag) -> Result<(Envelope, Return), StepError> {
        let wanted = Wanted::Message(tag);
        let kind = tag.kind as usize;
        self.wait(tag.kind, Some(from), wanted, |state| {
            let queue = &mut state.kinds[kind].queues[from.index()];
            match queue.front() {
                Some((_, envelope)) if envelope.tag != tag => Some(Err(StepError::Unexpected {
                    rank: self.me,
                    peer: from,
                    wanted: tag,
                    got: envelope.tag,
                })),
                Some(_) => queue.pop_front().map(|(_, envelope)| Ok(envelope)),
                None => state.peers[from.index()].presence.gone().then(|| Err(self.gone(from, wanted))),
            }
        })
    }

    /// The oldest message of a kind from anyone.
    pub(super) fn take_any(&self, kind: Kind) -> Result<(Envelope, Return), StepError> {
        let wanted = Wanted::Any(kind);
        self.wait(kind, None, wanted, |state| {
            let queues = &mut state.kinds[kind as usize].queues;
            let heads = queues.iter_mut().filter(|queue| !queue.is_empty());
            let oldest = heads.min_by_key(|queue| queue.front().map(|(arrival, _)| *arrival));
            if let Some((_, envelope)) = oldest.and_then(VecDeque::pop_front) {
                return Some(Ok(envelope));
            }
            let gone = state.nobody_left(self.me)?;
            Some(Err(self.gone(gone, wanted)))
        })
    }

    /// Looks until `look` sees something, or nothing has moved for too long.
    fn wait(
        &self,
        kind: Kind,
        from: Option<Rank>,
        wanted: Wanted,
        mut look: impl FnMut(&mut State) -> Option<Result<Envelope, StepError>>,
    ) -> Result<(Envelope, Return), StepError> {
        let begin = Instant::now();
        let mut state = self.lock();
        let mut quiet = (begin, state.pieces(from));
        loop {
            if let Some(reason) = &state.ended {
                return Err(reason.clone());
            }
            if let Some(seen) = look(&mut state) {
                return seen.map(|envelope| {
                    let back = state.consume(self.me, &envelope);
                    (envelope, back)
                });
            }
            let pieces = state.pieces(from);
            if pieces != quiet.1 {
                quiet = (Instant::now(), pieces);
            }
            let left = self.patience.saturating_sub(quiet.0.elapsed());
            if left.is_zero() {
                let waited = Nanos(begin.elapsed().as_nanos() as u64);
                return Err(StepError::Silent { rank: self.me, peer: from, wanted, waited });
            }
            let waiting = &mut state.kinds[kind as usize].waiting;
            // Two lanes at one kind would be against the contract; they shall at least not hang.
            *waiting = match from {
                Some(from) if *waiting == Waiting::Nobody => Waiting::For(from),
                _ => Waiting::ForAnyone,
            };
            let woken = self.arrived[kind as usize].wait_timeout(state, left);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
            state.kinds[kind as usize].waiting = Waiting::Nobody;
        }
    }

    fn gone(&self, peer: Rank, wanted: Wanted) -> StepError {
        StepError::Gone { rank: self.me, peer, wanted }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Moves the credits of a message that was taken out: they are returned together when they are many, when
    /// the sender waits for them, but not one by one.
    fn consume(&mut self, me: Rank, envelope: &Envelope) -> Return {
        if envelope.from == me {
            return None;
        }
        let cost = cost(envelope.packet.0.len() as u64);
        let peer = &mut self.peers[envelope.from.index()];
        peer.held -= cost;
        peer.taken += cost;
        let now = peer.eager || peer.taken >= RETURN;
        peer.eager &= peer.held > 0;
        now.then(|| (envelope.from, std::mem::take(&mut peer.taken)))
    }

    /// How much has come from a peer, or from all.
    fn pieces(&self, from: Option<Rank>) -> u64 {
        match from {
            Some(from) => self.peers[from.index()].pieces,
            None => self.peers.iter().map(|peer| peer.pieces).sum(),
        }
    }

    /// The peer because of whom waiting for anyone is in vain: one that was lost, or the last to leave.
    fn nobody_left(&self, me: Rank) -> Option<Rank> {
        let others = || (0..).map(Rank).zip(&self.peers).filter(|(rank, _)| *rank != me);
        let lost = others().find(|(_, peer)| peer.presence == Presence::Lost);
        let all_left = || others().all(|(_, peer)| peer.presence.gone());
        lost.or_else(|| if all_left() { others().last() } else { None }).map(|(rank, _)| rank)
    }
}
