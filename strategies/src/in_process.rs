//! An in-process transport: ranks as threads, without sockets, for tests and for programs that want no processes.
//!
//! It keeps the contract of [`Transport`] and copies nothing: a packet arrives as the memory that it was sent in.
//! The data on its way to one peer and not taken out yet is bounded by a window; beyond it `send` waits. A rank
//! that is dropped without [`InProcessRank::close`] looks to the others like one that crashed.

use crate::transport::{Envelope, Kind, Packet, Senders, Tag, Transport};
use crate::{StepError, Wanted};
use record::{Clock, Nanos, Rank};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Bytes that may be on their way to one peer unless a test says otherwise: 64 MiB. A larger message goes alone.
pub const WINDOW: u64 = 64 << 20;

/// The cost of a message beside its bytes, so that empty ones are bounded too.
const EXTRA: u64 = 256;

/// One of several ranks that share a process.
pub struct InProcessRank {
    room: Arc<Room>,
    me: Rank,
}

/// Where the ranks of a process meet.
struct Room {
    /// Bytes that may be on their way to one peer.
    window: u64,
    /// For how long nothing may come.
    patience: Duration,
    clock: Arc<dyn Clock>,
    state: Mutex<Vec<RankState>>,
    /// By rank: something changed that its lanes may wait for.
    changed: Vec<Condvar>,
}

/// The state of a rank in the room.
struct RankState {
    presence: Presence,
    /// The error that every wait of the rank returns from now on.
    ended: Option<StepError>,
    arrivals: u64,
    /// Arrived messages, by sender.
    from: Vec<Arrived>,
}

/// Arrived messages of one sender.
#[derive(Default)]
struct Arrived {
    /// By kind; with the number of its arrival.
    kinds: [VecDeque<(u64, Envelope)>; Kind::ALL.len()],
    /// Credits of messages that were not received yet.
    used: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Presence {
    Here,
    /// It left in order.
    Left,
    /// It went without a word.
    Lost,
}

/// The state of a wait for a rank: nothing yet, or the end of the wait.
type Seen<T> = Option<Result<T, StepError>>;

impl InProcessRank {
    /// All ranks of a run. `patience` is the deadline of every wait, `clock` stamps arrivals.
    pub fn all(ranks: u32, patience: Duration, clock: Arc<dyn Clock>) -> Vec<Self> {
        Self::all_with_window(ranks, patience, clock, WINDOW)
    }

    /// The same, with `window` bytes that may be on their way to one peer.
    pub fn all_with_window(ranks: u32, patience: Duration, clock: Arc<dyn Clock>, window: u64) -> Vec<Self> {
        let rank_state = || RankState {
            presence: Presence::Here,
            ended: None,
            arrivals: 0,
            from: (0..ranks).map(|_| Arrived::default()).collect(),
        };
        let room = Arc::new(Room {
            window,
            patience,
            clock,
            state: Mutex::new((0..ranks).map(|_| rank_state()).collect()),
            changed: (0..ranks).map(|_| Condvar::new()).collect(),
        });
        (0..ranks).map(|rank| Self { room: room.clone(), me: Rank(rank) }).collect()
    }

    /// A handle to the rank's transport, one for each lane.
    pub fn transport(&self) -> Box<dyn Transport> {
        Box::new(Handle { room: self.room.clone(), me: self.me })
    }

    /// Wakes every wait of the rank with [`StepError::Stopped`].
    pub fn stop(&self) {
        self.room.end(self.me);
    }

    /// Leaves in order: nothing can be sent any more. All earlier messages have arrived already.
    pub fn close(self) {
        self.room.depart(self.me, Presence::Left);
    }
}

impl Drop for InProcessRank {
    fn drop(&mut self) {
        self.room.depart(self.me, Presence::Lost);
        self.room.end(self.me);
    }
}

impl Room {
    /// The first word about how a rank went counts.
    fn depart(&self, rank: Rank, presence: Presence) {
        let rank_state = &mut self.lock()[rank.index()];
        if rank_state.presence == Presence::Here {
            rank_state.presence = presence;
        }
        self.changed.iter().for_each(Condvar::notify_all);
    }

    fn end(&self, rank: Rank) {
        self.lock()[rank.index()].ended.get_or_insert(StepError::Stopped);
        self.changed[rank.index()].notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Vec<RankState>> {
        // The ranks are whole between any two statements, so a panic elsewhere does not spoil them.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A lane's way to the other ranks.
struct Handle {
    room: Arc<Room>,
    me: Rank,
}

impl Handle {
    /// Looks until `look` sees something, or what `moved` tells has not changed for too long.
    fn wait<T>(
        &self,
        peer: Option<Rank>,
        wanted: Wanted,
        moved: impl Fn(&[RankState]) -> u64,
        mut look: impl FnMut(&mut [RankState]) -> Seen<T>,
    ) -> Result<T, StepError> {
        let begin = Instant::now();
        let mut state = self.room.lock();
        let mut quiet = (begin, moved(&state));
        loop {
            if let Some(reason) = &state[self.me.index()].ended {
                return Err(reason.clone());
            }
            if let Some(seen) = look(&mut state) {
                return seen;
            }
            if moved(&state) != quiet.1 {
                quiet = (Instant::now(), moved(&state));
            }
            let left = self.room.patience.saturating_sub(quiet.0.elapsed());
            if left.is_zero() {
                let waited = Nanos(begin.elapsed().as_nanos() as u64);
                return Err(StepError::Silent { rank: self.me, peer, wanted, waited });
            }
            let woken = self.room.changed[self.me.index()].wait_timeout(state, left);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// A message was taken out: its sender may have waited for that.
    fn give_back(&self, envelope: Envelope) -> Envelope {
        self.room.changed[envelope.from.index()].notify_all();
        envelope
    }

    fn gone(&self, peer: Rank, wanted: Wanted) -> StepError {
        StepError::Gone { rank: self.me, peer, wanted }
    }

    fn check(&self, peer: Rank) -> Result<(), StepError> {
        let ranks = self.room.changed.len();
        if peer.index() < ranks {
            return Ok(());
        }
        let reason = format!("there is no rank {peer} among {ranks}");
        Err(StepError::Transport { rank: self.me, reason })
    }

    /// The peer because of whom waiting for anyone is in vain: one that was lost, or the last to leave.
    fn last_lost(&self, ranks: &[RankState], senders: Senders<'_>) -> Option<Rank> {
        let sends = |rank: Rank| rank != self.me && senders.contains(rank);
        let others = || (0..).map(Rank).zip(ranks).filter(|(rank, _)| sends(*rank));
        let lost = others().find(|(_, rank_state)| rank_state.presence == Presence::Lost);
        let all_left = others().all(|(_, rank_state)| rank_state.presence != Presence::Here);
        lost.or_else(|| if all_left { others().last() } else { None }).map(|(rank, _)| rank)
    }
}

impl Transport for Handle {
    fn send(&mut self, to: Rank, tag: Tag, packet: Packet) -> Result<(), StepError> {
        self.check(to)?;
        let me = self.me;
        let wanted = Wanted::Credit(tag);
        let cost = cost(packet.0.len());
        let began = self.room.clock.now();
        let mut packet = Some(packet);
        let used = |ranks: &[RankState]| ranks[to.index()].from[me.index()].used;
        self.wait(Some(to), wanted, used, |ranks| {
            if ranks[me.index()].presence != Presence::Here {
                let reason = format!("rank {to} cannot be sent to after leaving");
                return Some(Err(StepError::Transport { rank: me, reason }));
            }
            let rank_state = &mut ranks[to.index()];
            if rank_state.presence != Presence::Here {
                return Some(Err(self.gone(to, wanted)));
            }
            let arrived = &mut rank_state.from[me.index()];
            if to != me && !arrived.has_room(cost, self.room.window) {
                return None;
            }
            let packet = packet.take()?;
            arrived.used += cost;
            rank_state.arrivals += 1;
            let envelope = Envelope { from: me, tag, packet, began };
            arrived.kinds[tag.kind as usize].push_back((rank_state.arrivals, envelope));
            Some(Ok(()))
        })?;
        self.room.changed[to.index()].notify_all();
        Ok(())
    }

    fn has_room(&self, to: Rank, bytes: usize) -> bool {
        let state = self.room.lock();
        let me = self.me;
        let ends =
            |rank_state: &RankState| rank_state.presence != Presence::Here || rank_state.ended.is_some();
        let Some(rank_state) = state.get(to.index()) else { return true };
        to == me
            || rank_state.presence != Presence::Here
            || ends(&state[me.index()])
            || rank_state.from[me.index()].has_room(cost(bytes), self.room.window)
    }

    fn recv(&mut self, from: Rank, tag: Tag) -> Result<Envelope, StepError> {
        self.check(from)?;
        let me = self.me;
        let wanted = Wanted::Message(tag);
        let taken = self.wait(
            Some(from),
            wanted,
            |_| 0,
            |ranks| {
                let presence = ranks[from.index()].presence;
                let arrived = &mut ranks[me.index()].from[from.index()];
                match arrived.kinds[tag.kind as usize].front() {
                    Some((_, envelope)) if envelope.tag != tag => Some(Err(StepError::Unexpected {
                        rank: me,
                        peer: from,
                        wanted: tag,
                        got: envelope.tag,
                    })),
                    Some(_) => arrived.take(tag.kind).map(Ok),
                    None => (presence != Presence::Here).then(|| Err(self.gone(from, wanted))),
                }
            },
        );
        taken.map(|envelope| self.give_back(envelope))
    }

    fn recv_any(&mut self, kind: Kind, senders: Senders<'_>) -> Result<Envelope, StepError> {
        let me = self.me;
        let wanted = Wanted::Any(kind);
        let taken = self.wait(
            None,
            wanted,
            |_| 0,
            |ranks| {
                let heads = ranks[me.index()].from.iter_mut().filter_map(|arrived| {
                    let oldest = arrived.kinds[kind as usize].front()?.0;
                    Some((oldest, arrived))
                });
                if let Some((_, arrived)) = heads.min_by_key(|(oldest, _)| *oldest) {
                    return arrived.take(kind).map(Ok);
                }
                self.last_lost(ranks, senders).map(|gone| Err(self.gone(gone, wanted)))
            },
        );
        taken.map(|envelope| self.give_back(envelope))
    }
}

/// The credits that a message of `bytes` bytes needs.
fn cost(bytes: usize) -> u64 {
    bytes as u64 + EXTRA
}

impl Arrived {
    /// Whether there is room for a message that needs `credits` credits; a single message always has room.
    fn has_room(&self, cost: u64, window: u64) -> bool {
        self.used == 0 || self.used + cost <= window
    }

    /// The oldest message of a kind, whose credits are free again.
    fn take(&mut self, kind: Kind) -> Option<Envelope> {
        let (_, envelope) = self.kinds[kind as usize].pop_front()?;
        self.used -= cost(envelope.packet.0.len());
        Some(envelope)
    }
}
