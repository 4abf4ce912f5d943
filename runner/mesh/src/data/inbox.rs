//! The messages that have arrived at a rank, sorted by kind and sender, and the lanes that wait for them.
//!
//! The thread of the plane adds messages and never waits; lanes take them out. A message's credits return to the sender
//! when it is taken out, so the size of the inbox is bounded.

mod arrived;

use super::direct::{Line, Reading, machine_time};
use super::presence::Presence;
use super::waiting::{BellWatch, WatchEnd, watch};
use super::window::Limits;
use crate::shared_memory::{Bells, Sharing};
use arrived::Arrived;
use record::{Nanos, Rank};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use strategies::{Envelope, Kind, Senders, StepError, Tag, Wanted};

/// Credits are returned in parts of the window divided by this number, unless the sender waits for them.
const RETURNED: u64 = 4;

/// The messages that have arrived at a rank.
pub(super) struct Inbox {
    me: Rank,
    /// Limits of the traffic from each peer.
    limits: Limits,
    arrived: Mutex<Arrived>,
    /// One for each kind, because each kind has one lane; in shared memory, if there is any.
    bells: Bells,
    sharing: Option<Arc<Sharing>>,
}

/// Credits to return, and to whom.
pub(super) type Return = Option<(Rank, u64)>;

impl Inbox {
    /// The inbox of `me` among `ranks` ranks.
    pub(super) fn new(me: Rank, ranks: usize, limits: Limits) -> Self {
        Self { me, limits, arrived: Mutex::new(Arrived::new(ranks)), bells: Bells::default(), sharing: None }
    }

    /// The same of a rank that reads the lines of its peers.
    pub(super) fn reading(mut self, reading: &Reading) -> Self {
        let arrived = self.arrived.get_mut().unwrap_or_else(PoisonError::into_inner);
        for (from, peer) in (0..).map(Rank).zip(&mut arrived.peers).filter(|(from, _)| *from != self.me) {
            peer.line = Some(Line::new(from, reading.clone()));
        }
        self.sharing = Some(reading.sharing.clone());
        self
    }

    /// The same of a rank whose peers ring its bells themselves, so that a lane watches its bell before it sleeps.
    pub(super) fn watching(mut self) -> Self {
        let arrived = self.arrived.get_mut().unwrap_or_else(PoisonError::into_inner);
        arrived.kinds.iter_mut().for_each(|sorted| sorted.waiting.watch = BellWatch::in_shared_memory());
        self
    }

    fn bells(&self) -> &Bells {
        self.sharing.as_ref().and_then(|sharing| sharing.bells()).unwrap_or(&self.bells)
    }

    /// Whether a peer has the credits for a message of `size` bytes.
    pub(super) fn admits(&self, from: Rank, size: u64) -> bool {
        let mut arrived = self.lock();
        arrived.take_from_line(from, self.limits.window);
        arrived.peers[from.index()].admits(size, self.limits.window)
    }

    /// Adds a complete message that came through the socket, or from this rank.
    pub(super) fn deliver(&self, envelope: Envelope) {
        let mut kinds = vec![envelope.tag.kind];
        let from = envelope.from;
        let mut arrived = self.lock();
        kinds.extend(arrived.take_from_line(from, self.limits.window));
        arrived.add(machine_time(), envelope);
        if let Some(line) = &mut arrived.peers[from.index()].line {
            line.pass();
        }
        // Their sender rang for them when they could not be taken yet.
        kinds.extend(arrived.take_from_line(from, self.limits.window));
        drop(arrived);
        for kind in kinds {
            self.bells().of(kind).ring(from);
        }
    }

    /// Notes that a chunk of a message arrived. Of one that will vanish it prolongs no wait.
    pub(super) fn moves(&self, from: Rank) {
        let now = Instant::now();
        let mut arrived = self.lock();
        let peer = &mut arrived.peers[from.index()];
        peer.moved = Some(now).filter(|_| !peer.dropped).or(peer.moved);
    }

    /// Lets vanish what a peer has sent and has not arrived, and whatever it sends from now on.
    pub(super) fn drop_link(&self, from: Rank) {
        let mut arrived = self.lock();
        arrived.take_from_line(from, self.limits.window);
        arrived.peers[from.index()].dropped = true;
    }

    /// Whether what a peer sends vanishes.
    pub(super) fn is_dropped(&self, from: Rank) -> bool {
        self.lock().peers[from.index()].dropped
    }

    /// The sender waits for credits: those that are returned to it at once.
    pub(super) fn want(&self, from: Rank) -> Return {
        let mut arrived = self.lock();
        arrived.take_from_line(from, self.limits.window);
        let peer = &mut arrived.peers[from.index()];
        peer.eager = peer.held > 0;
        let taken = std::mem::take(&mut peer.taken);
        (taken > 0).then_some((from, taken))
    }

    /// Records that a peer is gone.
    pub(super) fn depart(&self, peer: Rank, presence: Presence) {
        let mut arrived = self.lock();
        arrived.take_from_line(peer, self.limits.window);
        arrived.peers[peer.index()].presence.depart(presence);
        drop(arrived);
        self.bells().ring_all();
    }

    /// Makes every wait return this error; the first call counts.
    pub(super) fn end(&self, reason: &StepError) {
        self.lock().ended.get_or_insert_with(|| reason.clone());
        self.bells().ring_all();
    }

    /// The oldest message of the tag's kind from `from`, which must carry this tag.
    pub(super) fn take(&self, from: Rank, tag: Tag) -> Result<(Envelope, Return), StepError> {
        let wanted = Wanted::Message(tag);
        let kind = tag.kind as usize;
        self.wait(tag.kind, Some(from), wanted, |arrived| {
            let queue = &mut arrived.kinds[kind].queues[from.index()];
            match queue.front() {
                Some((_, envelope)) if envelope.tag != tag => Some(Err(StepError::Unexpected {
                    rank: self.me,
                    peer: from,
                    wanted: tag,
                    got: envelope.tag,
                })),
                Some(_) => queue.pop_front().map(|(_, envelope)| Ok(envelope)),
                None => arrived.peers[from.index()].presence.gone().then(|| Err(self.gone(from, wanted))),
            }
        })
    }

    /// The oldest message of a kind, which only `senders` send.
    pub(super) fn take_any(&self, kind: Kind, senders: Senders<'_>) -> Result<(Envelope, Return), StepError> {
        let wanted = Wanted::Any(kind);
        self.wait(kind, None, wanted, |arrived| {
            let queues = &mut arrived.kinds[kind as usize].queues;
            let heads = queues.iter_mut().filter(|queue| !queue.is_empty());
            let oldest = heads.min_by_key(|queue| queue.front().map(|(arrival, _)| *arrival));
            if let Some((_, envelope)) = oldest.and_then(VecDeque::pop_front) {
                return Some(Ok(envelope));
            }
            let gone = arrived.no_peer_left(self.me, senders)?;
            Some(Err(self.gone(gone, wanted)))
        })
    }

    /// Calls `look` after each arrival until it returns a result, or until nothing has moved for `patience`.
    fn wait(
        &self,
        kind: Kind,
        from: Option<Rank>,
        wanted: Wanted,
        mut look: impl FnMut(&mut Arrived) -> Option<Result<Envelope, StepError>>,
    ) -> Result<(Envelope, Return), StepError> {
        let begin = Instant::now();
        let bell = self.bells().of(kind);
        let mut watch_until = None;
        loop {
            let seen = bell.rung();
            let mut arrived = self.lock();
            arrived.take_from_lines(from, self.limits.window);
            if let Some(reason) = &arrived.ended {
                return Err(reason.clone());
            }
            if let Some(seen) = look(&mut arrived) {
                if watch_until.is_some_and(|until| Instant::now() < until) {
                    arrived.kinds[kind as usize].waiting.watch.end_wait();
                }
                return seen.map(|envelope| {
                    let back = arrived.consume(self.me, &envelope, self.limits.window / RETURNED);
                    (envelope, back)
                });
            }
            let quiet = arrived.moved(from).map_or(begin, |moved| moved.max(begin));
            let left = self.limits.patience.saturating_sub(quiet.elapsed());
            if left.is_zero() {
                let waited = Nanos(begin.elapsed().as_nanos() as u64);
                return Err(StepError::Silent { rank: self.me, peer: from, wanted, waited });
            }
            let waiting = &mut arrived.kinds[kind as usize].waiting;
            let until = *watch_until.get_or_insert_with(|| begin + waiting.watch.begin_wait());
            if Instant::now() < until {
                let yield_core = waiting.watch.yield_core;
                drop(arrived);
                if watch(bell, seen, until, yield_core) == WatchEnd::LongYield {
                    self.lock().kinds[kind as usize].waiting.watch.note_long_yield();
                }
                continue;
            }
            waiting.enter(from, bell);
            drop(arrived);
            bell.sleep(seen, left);
            self.lock().kinds[kind as usize].waiting.leave(bell);
        }
    }

    #[cfg(test)]
    pub(super) fn watch_time(&self) -> std::time::Duration {
        self.lock().kinds[Kind::Ask as usize].waiting.watch.begin_wait()
    }

    fn gone(&self, peer: Rank, wanted: Wanted) -> StepError {
        StepError::Gone { rank: self.me, peer, wanted }
    }

    fn lock(&self) -> MutexGuard<'_, Arrived> {
        self.arrived.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::super::window::{WINDOW, cost};
    use super::*;
    use bytes::Bytes;
    use std::cell::RefCell;
    use std::sync::Arc;
    use std::thread;
    use std::time::Duration;
    use strategies::Packet;

    const LIMITS: Limits = Limits { window: WINDOW, patience: Duration::from_secs(20) };
    const ME: Rank = Rank(0);

    fn tag(step: u64) -> Tag {
        Tag::new(Kind::Ask, step)
    }

    fn envelope(from: u32, step: u64, size: u64) -> Envelope {
        let packet = Packet(Bytes::from(vec![0; size as usize]));
        Envelope { from: Rank(from), tag: tag(step), packet, began: Nanos(0) }
    }

    #[test]
    fn credits_come_back_together_or_at_once_to_a_lane_that_waits_for_them() {
        let inbox = Inbox::new(ME, 3, LIMITS);
        let size = WINDOW / RETURNED / 2;
        for step in 1..=5 {
            inbox.deliver(envelope(1, step, size));
        }
        let returned = |step| inbox.take(Rank(1), tag(step)).unwrap().1;
        assert_eq!(returned(1), None);
        assert_eq!(returned(2), Some((Rank(1), 2 * cost(size))));
        assert_eq!(returned(3), None);
        assert_eq!(inbox.want(Rank(1)), Some((Rank(1), cost(size))));
        assert_eq!(returned(4), Some((Rank(1), cost(size))));
        assert_eq!(returned(5), Some((Rank(1), cost(size))));
        // Nothing is open any more, so the sender cannot be waiting.
        inbox.deliver(envelope(1, 6, size));
        assert_eq!(returned(6), None);
        assert_eq!(inbox.want(Rank(2)), None);
    }

    #[test]
    fn a_peer_may_send_what_it_has_credits_for() {
        let inbox = Inbox::new(ME, 2, LIMITS);
        assert!(inbox.admits(Rank(1), 10 * WINDOW), "alone, any size may travel");
        inbox.deliver(envelope(1, 1, 1 << 20));
        assert!(inbox.admits(Rank(1), WINDOW - (1 << 20) - 2 * cost(0)));
        assert!(!inbox.admits(Rank(1), WINDOW - (1 << 20) - 2 * cost(0) + 1));
        inbox.take(Rank(1), tag(1)).unwrap();
        assert!(!inbox.admits(Rank(1), WINDOW), "the credits are not returned yet");
        inbox.want(Rank(1));
        assert!(inbox.admits(Rank(1), WINDOW));
    }

    #[test]
    fn anyone_means_the_oldest() {
        let inbox = Inbox::new(ME, 4, LIMITS);
        let arrivals = [3, 1, 2, 1, 3];
        for (from, step) in arrivals.into_iter().zip(1..) {
            inbox.deliver(envelope(from, step, 1));
        }
        for (from, step) in arrivals.into_iter().zip(1..) {
            let (envelope, _) = inbox.take_any(Kind::Ask, Senders::Everyone).unwrap();
            assert_eq!((envelope.from, envelope.tag), (Rank(from), tag(step)));
        }
    }

    thread_local! {
        /// An inbox to which a message of rank 1 comes while a lane of this thread yields.
        static YIELDED_FROM: RefCell<Option<Arc<Inbox>>> = const { RefCell::new(None) };
    }

    fn deliver_while_yielding() {
        if let Some(inbox) = YIELDED_FROM.take() {
            inbox.deliver(envelope(1, 1, 1));
        }
    }

    /// Waits that begin with sleep: those to come, and those after the next long yield.
    fn sleeping(inbox: &Inbox) -> [u32; 2] {
        let watch = &inbox.lock().kinds[Kind::Ask as usize].waiting.watch;
        [watch.sleeping_waits, watch.after_next]
    }

    fn yielding(inbox: &Inbox, yield_core: fn()) {
        inbox.lock().kinds[Kind::Ask as usize].waiting.watch.yield_core = yield_core;
    }

    #[test]
    fn a_lane_watches_its_bell_and_sleeps_at_once_after_a_long_yield() {
        let limits = Limits { patience: Duration::from_millis(20), ..LIMITS };
        let inbox = Arc::new(Inbox::new(ME, 2, limits).watching());
        let in_vain = || assert!(matches!(inbox.take(Rank(1), tag(1)), Err(StepError::Silent { .. })));
        yielding(&inbox, || thread::sleep(Duration::from_millis(1)));
        in_vain();
        assert_eq!(sleeping(&inbox), [64, 128]);
        yielding(&inbox, || panic!("this wait begins with sleep"));
        (0..3).for_each(|_| in_vain());
        assert_eq!(sleeping(&inbox), [61, 128], "one less for each wait");

        let ends_without_sleep = || {
            let mut watch = BellWatch::in_shared_memory();
            (watch.after_next, watch.yield_core) = (128, deliver_while_yielding);
            inbox.lock().kinds[Kind::Ask as usize].waiting.watch = watch;
            YIELDED_FROM.set(Some(inbox.clone()));
            assert!(inbox.take(Rank(1), tag(1)).is_ok());
            sleeping(&inbox) == [0, 127]
        };
        // The system may interrupt a yield.
        assert!((0..100).any(|_| ends_without_sleep()), "the message comes while the lane watches");

        let of_sockets = Inbox::new(ME, 2, limits);
        yielding(&of_sockets, || panic!("it sleeps at once"));
        assert!(of_sockets.take(Rank(1), tag(1)).is_err());
    }

    #[test]
    fn several_lanes_at_one_kind_do_not_hang() {
        let inbox = Arc::new(Inbox::new(ME, 3, LIMITS));
        let lane = |from| {
            let inbox = inbox.clone();
            thread::spawn(move || inbox.take(Rank(from), tag(1)).map(|(envelope, _)| envelope.from))
        };
        let lanes = [lane(1), lane(2)];
        inbox.deliver(envelope(2, 1, 1));
        inbox.deliver(envelope(1, 1, 1));
        let froms = lanes.map(|lane| lane.join().unwrap());
        assert_eq!(froms, [Ok(Rank(1)), Ok(Rank(2))]);
    }

    #[test]
    fn waiting_for_anyone_ends_with_the_first_that_is_lost_or_the_last_that_leaves() {
        let inbox = Inbox::new(ME, 3, Limits { patience: Duration::from_millis(20), ..LIMITS });
        inbox.depart(Rank(1), Presence::Left);
        assert!(matches!(
            inbox.take_any(Kind::Ask, Senders::Everyone),
            Err(StepError::Silent { peer: None, .. })
        ));
        inbox.depart(Rank(2), Presence::Left);
        inbox.depart(Rank(2), Presence::Lost);
        inbox.deliver(envelope(1, 1, 1));
        assert!(inbox.take_any(Kind::Ask, Senders::Everyone).is_ok(), "what came before counts");
        let wanted = Wanted::Any(Kind::Ask);
        assert_eq!(
            inbox.take_any(Kind::Ask, Senders::Everyone).map(drop),
            Err(StepError::Gone { rank: ME, peer: Rank(2), wanted })
        );
        inbox.end(&StepError::Stopped);
        inbox.end(&StepError::Learner("later".into()));
        assert_eq!(inbox.take_any(Kind::Ask, Senders::Everyone).map(drop), Err(StepError::Stopped));
    }
}
