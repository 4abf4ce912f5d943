//! Credits: how many bytes may be in flight to one peer, and whether that peer is connected.
//!
//! A message needs as many credits as it has bytes, and a few more so that empty messages are bounded too. Credits
//! return when the receiver has taken the message out of its inbox. A message that is larger than the window is sent
//! when nothing else is in flight; so all ranks of a ring may send one message first, whatever its size. What a recipe lets vanish
//! takes no credits: a receiver waits for it in vain, a sender does not wait.

use super::direct::Outgoing;
use super::presence::Presence;
use super::requests::LinkRequest;
use crate::shared_memory::Sharing;
use record::{LinkRecord, Nanos, Rank};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use strategies::{Kind, Packet, StepError, Tag, Wanted};
use tokio::sync::mpsc::UnboundedSender;

/// Credits of a peer, unless a test sets others: 64 MiB.
pub(super) const WINDOW: u64 = 64 << 20;

/// Credits of a message beside its bytes.
const EXTRA: u64 = 256;

/// The credits that a message of this size needs.
pub(super) fn cost(size: u64) -> u64 {
    size + EXTRA
}

/// Limits of the traffic between a rank and one peer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Most bytes on their way at once, with [`EXTRA`] for each message; a single message may exceed it.
    pub(super) window: u64,
    /// Longest wait in which nothing moves.
    pub(super) patience: Duration,
}

/// The credits for one peer, and the queue to its link.
pub(super) struct Window {
    me: Rank,
    peer: Rank,
    limits: Limits,
    /// The memory that is shared with the peer, if they do share some.
    sharing: Option<Arc<Sharing>>,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// Beside the socket, where memory is shared.
    direct: Option<Outgoing>,
    /// To the link; none after the goodbye.
    queue: Option<UnboundedSender<LinkRequest>>,
    /// Credits of sent messages, in bytes, that the peer has not returned.
    used: u64,
    /// How often credits returned. The credits in use do not show it: another lane may have taken as many at once.
    returns: u64,
    /// Whether the peer was asked for credits since some returned.
    asked: bool,
    presence: Presence,
    /// Whether messages sent vanish.
    dropped: bool,
    /// The error that every wait returns from now on.
    ended: Option<StepError>,
    /// Whether the peer has confirmed the goodbye.
    farewell: bool,
    sent: LinkRecord,
}

/// How a connection to a peer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// The peer has received everything, or has said goodbye itself.
    Settled,
    /// The peer was lost, or did not confirm in time.
    Open,
}

impl Window {
    /// The credits for a peer with whom nothing is shared.
    pub(super) fn new(me: Rank, peer: Rank, limits: Limits, queue: UnboundedSender<LinkRequest>) -> Self {
        let state = State {
            direct: None,
            queue: Some(queue),
            used: 0,
            returns: 0,
            asked: false,
            presence: Presence::Here,
            dropped: false,
            ended: None,
            farewell: false,
            sent: LinkRecord { from: me, to: peer, bytes: 0, messages: 0 },
        };
        Self { me, peer, limits, sharing: None, state: Mutex::new(state), changed: Condvar::new() }
    }

    /// The same with memory that is shared.
    pub(super) fn with(mut self, sharing: Arc<Sharing>) -> Self {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        state.direct = Some(Outgoing::new(self.peer, sharing.clone()));
        self.sharing = Some(sharing);
        self
    }

    /// Hands a message to the link as soon as there are credits for it. `departed` is when it leaves an emulated card.
    pub(super) fn send(&self, tag: Tag, packet: Packet, departed: Option<Nanos>) -> Result<(), StepError> {
        let size = packet.0.len() as u64;
        let wanted = Wanted::Credit(tag);
        let mut state = self.lock();
        let begin = Instant::now();
        let mut quiet = (begin, state.returns);
        let mut asked = false;
        loop {
            let queue = state.open(self, wanted)?;
            if state.dropped {
                // It left this rank, and needs no credits of a peer that never hears of it.
                state.tally(size);
                return Ok(());
            }
            if state.has_room(size, self.limits.window) {
                state.count(size);
                if state.direct.as_mut().is_some_and(|direct| direct.write(tag, &packet, departed)) {
                    drop(state);
                    self.ring(tag.kind);
                    return Ok(());
                }
                // Fails only if the peer is gone, which the next call reports.
                let _ = queue.send(LinkRequest::Message { tag, packet, departed });
                return Ok(());
            }
            // Another lane's message may have taken the credits that returned: then the peer has to be asked again.
            if state.returns != quiet.1 {
                quiet = (Instant::now(), state.returns);
                asked = false;
            }
            if !std::mem::replace(&mut asked, true) {
                let _ = queue.send(LinkRequest::Credits);
            }
            let left = self.limits.patience.saturating_sub(quiet.0.elapsed());
            if left.is_zero() {
                let waited = Nanos(begin.elapsed().as_nanos() as u64);
                return Err(StepError::Silent { rank: self.me, peer: Some(self.peer), wanted, waited });
            }
            let woken = self.changed.wait_timeout(state, left);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Wakes the peer's lane that sleeps for such a message.
    fn ring(&self, kind: Kind) {
        if let Some(bell) = self.sharing.as_ref().and_then(|sharing| sharing.bell(self.peer, kind)) {
            bell.ring(self.me);
        }
    }

    /// Whether a message of `size` bytes can be sent now. If not, the peer is asked for the credits that it holds back.
    pub(super) fn has_room(&self, size: u64) -> bool {
        let mut state = self.lock();
        let never_waits = state.dropped || state.ended.is_some() || state.presence.gone();
        if never_waits || state.has_room(size, self.limits.window) {
            return true;
        }
        if !std::mem::replace(&mut state.asked, true)
            && let Some(queue) = &state.queue
        {
            let _ = queue.send(LinkRequest::Credits);
        }
        state.queue.is_none()
    }

    /// Takes credits back that the peer returned, and wakes the lanes that wait for them.
    pub(super) fn credit(&self, bytes: u64) {
        let mut state = self.lock();
        state.used = state.used.saturating_sub(bytes);
        state.returns += 1;
        state.asked = false;
        drop(state);
        self.changed.notify_all();
    }

    /// Records that the peer has received everything.
    pub(super) fn farewell(&self) {
        self.lock().farewell = true;
        self.changed.notify_all();
    }

    /// Lets vanish whatever is sent from now on.
    pub(super) fn drop_link(&self) {
        self.lock().dropped = true;
        self.changed.notify_all();
    }

    /// Records that the peer is gone.
    pub(super) fn depart(&self, presence: Presence) {
        self.lock().presence.depart(presence);
        self.changed.notify_all();
    }

    /// Makes every wait return this error; the first call counts.
    pub(super) fn end(&self, reason: &StepError) {
        self.lock().ended.get_or_insert_with(|| reason.clone());
        self.changed.notify_all();
    }

    /// Says goodbye after everything that was sent.
    pub(super) fn goodbye(&self) {
        if let Some(queue) = self.lock().queue.take() {
            let _ = queue.send(LinkRequest::Goodbye);
        }
    }

    /// Waits until the peer has received everything.
    pub(super) fn settle(&self, deadline: Instant) -> Ending {
        let open = |state: &mut State| !state.farewell && state.presence == Presence::Here;
        let patience = deadline.saturating_duration_since(Instant::now());
        let waited = self.changed.wait_timeout_while(self.lock(), patience, open);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if state.farewell || state.presence == Presence::Left { Ending::Settled } else { Ending::Open }
    }

    /// Bytes and messages sent so far.
    pub(super) fn sent(&self) -> LinkRecord {
        self.lock().sent.clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The queue to the link, if the peer can still be sent anything.
    fn open(&self, window: &Window, wanted: Wanted) -> Result<UnboundedSender<LinkRequest>, StepError> {
        let rank = window.me;
        let peer = window.peer;
        if let Some(reason) = &self.ended {
            return Err(reason.clone());
        }
        if self.presence.gone() {
            return Err(StepError::Gone { rank, peer, wanted });
        }
        self.queue.clone().ok_or_else(|| {
            let reason = format!("nothing can be sent to rank {peer} after the goodbye");
            StepError::Transport { rank, reason }
        })
    }

    fn has_room(&self, size: u64, window: u64) -> bool {
        self.used == 0 || self.used + cost(size) <= window
    }

    fn count(&mut self, size: u64) {
        self.used += cost(size);
        self.tally(size);
    }

    fn tally(&mut self, size: u64) {
        self.sent.bytes += size;
        self.sent.messages += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::mpsc::unbounded_channel;

    /// The credits of one small message were taken by the next before the lane that waits for room saw them: the peer has
    /// to be asked again, because it returns nothing unasked.
    #[test]
    fn room_that_another_lane_took_is_asked_for_again() {
        let (queue, mut sent) = unbounded_channel();
        let window =
            Window::new(Rank(0), Rank(1), Limits { window: 1000, patience: Duration::from_secs(30) }, queue);
        let small = || Packet(vec![0].into());
        window.send(Tag::new(Kind::Count, 1), small(), None).unwrap();
        let begun = Instant::now();
        let mut next = || loop {
            if let Ok(one) = sent.try_recv() {
                return matches!(one, LinkRequest::Message { .. });
            }
            assert!(begun.elapsed() < Duration::from_secs(20), "nothing was handed to the link");
            std::thread::yield_now();
        };
        assert!(next());
        std::thread::scope(|scope| {
            let large = Packet(vec![0; 2000].into());
            let waits = scope.spawn(|| window.send(Tag::new(Kind::Ask, 1), large, None));
            assert!(!next(), "the peer is asked for room");
            let mut state = window.lock();
            state.used -= cost(1);
            state.returns += 1;
            state.count(1);
            drop(state);
            window.changed.notify_all();
            assert!(!next(), "the peer is asked again");
            window.credit(cost(1));
            assert!(next(), "the large message leaves");
            waits.join().unwrap().unwrap();
        });
    }
}
