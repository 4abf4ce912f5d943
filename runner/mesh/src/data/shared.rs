//! The state that the lanes of a rank share with the thread of its data plane.

use super::direct::Reading;
use super::frame::LARGEST;
use super::inbox::{Inbox, Return};
use super::presence::Presence;
use super::requests::{AcceptRequest, LinkRequest};
use super::window::{Limits, Window};
use crate::shared_memory::Sharing;
use record::{Clock, Nanos, Rank};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use strategies::emulation::{Arrivals, Carrier};
use strategies::{Envelope, Kind, Packet, Senders, StepError, Tag, Transport};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// The state that the lanes of a rank share with the thread of its data plane.
pub(super) struct Shared {
    pub(super) me: Rank,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) inbox: Inbox,
    /// By rank; the own one is never used.
    pub(super) windows: Vec<Window>,
    /// Notified of every message before a lane can take it.
    arrivals: Option<Arc<dyn Arrivals>>,
    /// To the accept loop.
    pub(super) requests: UnboundedSender<AcceptRequest>,
    /// The memory that the ranks share, if they do.
    pub(super) sharing: Option<Arc<Sharing>>,
}

/// Arguments for opening a data plane, beside its briefing.
pub(super) struct Terms {
    /// Stamps the arrival of announcements.
    pub(super) clock: Arc<dyn Clock>,
    pub(super) arrivals: Option<Arc<dyn Arrivals>>,
    /// Credits of each peer, in bytes.
    pub(super) window: u64,
    /// The memory that the ranks share, if they do.
    pub(super) sharing: Option<Arc<Sharing>>,
}

/// Requests to the links, by peer.
pub(super) type Queues = BTreeMap<Rank, UnboundedReceiver<LinkRequest>>;

impl Shared {
    /// The state with the receiving ends of its channels.
    pub(super) fn new(
        me: Rank,
        ranks: u32,
        patience: Duration,
        Terms { clock, arrivals, window, sharing }: Terms,
    ) -> (Arc<Self>, Queues, UnboundedReceiver<AcceptRequest>) {
        let limits = Limits { window, patience };
        if let Some(sharing) = sharing.as_ref().filter(|_| arrivals.is_some()) {
            // They are told when a message comes, and a lane looks at a line only when it wants one.
            sharing.read_no_lines();
        }
        let (requests, requested) = unbounded_channel();
        let mut queues = Queues::new();
        let mut window = |peer| {
            let (queue, queued) = unbounded_channel();
            queues.insert(peer, queued);
            let window = Window::new(me, peer, limits, queue);
            match &sharing {
                Some(sharing) if peer != me => window.with(sharing.clone()),
                Some(_) | None => window,
            }
        };
        let windows = (0..ranks).map(Rank).map(&mut window).collect();
        let inbox = Inbox::new(me, ranks as usize, limits);
        let inbox = match &sharing {
            Some(sharing) => {
                let sharing = sharing.clone();
                let clock = clock.clone();
                let requests = requests.clone();
                let inbox = inbox.reading(&Reading { sharing, clock, requests });
                if arrivals.is_none() { inbox.watching() } else { inbox }
            }
            None => inbox,
        };
        (Arc::new(Self { me, clock, inbox, windows, arrivals, requests, sharing }), queues, requested)
    }

    /// The window of credits to a peer.
    pub(super) fn window(&self, peer: Rank) -> &Window {
        &self.windows[peer.index()]
    }

    pub(super) fn peers(&self) -> impl Iterator<Item = Rank> + use<> {
        let me = self.me;
        (0..self.windows.len() as u32).map(Rank).filter(move |rank| *rank != me)
    }

    /// Records that a peer is gone: in its window first, so that a lane which learns it from the inbox finds the window
    /// closed.
    pub(super) fn depart(&self, peer: Rank, presence: Presence) {
        self.window(peer).depart(presence);
        self.inbox.depart(peer, presence);
    }

    /// Makes every wait return this error; the first call counts.
    pub(super) fn end(&self, reason: &StepError) {
        self.inbox.end(reason);
        for window in &self.windows {
            window.end(reason);
        }
    }

    /// Lets vanish whatever this rank and a peer send each other from now on, and what the peer has sent and has not arrived. A rank
    /// that is not among the peers has no link.
    pub(super) fn drop_link(&self, peer: Rank) {
        if peer != self.me && self.check(peer).is_ok() {
            self.window(peer).drop_link();
            self.inbox.drop_link(peer);
        }
    }

    /// Adds a complete message to the inbox.
    pub(super) fn deliver(&self, envelope: Envelope, departed: Option<Nanos>) {
        if let Some(arrivals) = self.arrivals.as_ref().filter(|_| !self.inbox.is_dropped(envelope.from)) {
            arrivals.arrived(envelope.from, envelope.tag, envelope.packet.0.len(), departed);
        }
        self.inbox.deliver(envelope);
    }

    fn give_back(&self, back: Return) {
        if let Some((to, bytes)) = back {
            // Fails when the plane is closed, and credits are of no use then.
            let _ = self.requests.send(AcceptRequest::Return { to, bytes });
        }
    }

    fn check(&self, peer: Rank) -> Result<(), StepError> {
        if peer.index() < self.windows.len() {
            return Ok(());
        }
        let reason = format!("there is no rank {peer} among {}", self.windows.len());
        Err(StepError::Transport { rank: self.me, reason })
    }
}

/// Ends all waits of the lanes when the thread of the plane ends, whatever the reason.
pub(super) struct Alarm(pub(super) Arc<Shared>);

impl Drop for Alarm {
    fn drop(&mut self) {
        let reason = "the thread of the data plane has ended".to_owned();
        self.0.end(&StepError::Transport { rank: self.0.me, reason });
    }
}

/// A lane's transport to the other ranks.
pub(super) struct Handle(pub(super) Arc<Shared>);

impl Handle {
    fn hand_over(
        &self,
        to: Rank,
        tag: Tag,
        packet: Packet,
        departed: Option<Nanos>,
    ) -> Result<(), StepError> {
        let shared = &self.0;
        shared.check(to)?;
        if packet.0.len() as u64 > LARGEST {
            let reason = format!("{tag} has {} bytes; the limit is {LARGEST}", packet.0.len());
            return Err(StepError::Transport { rank: shared.me, reason });
        }
        if to == shared.me {
            shared.deliver(Envelope { from: to, tag, packet, began: shared.clock.now() }, None);
            return Ok(());
        }
        let packet = match &shared.sharing {
            Some(sharing) => sharing.place(packet),
            None => packet,
        };
        shared.window(to).send(tag, packet, departed)
    }
}

impl Carrier for Handle {
    fn send_departed(
        &mut self,
        to: Rank,
        tag: Tag,
        packet: Packet,
        departed: Nanos,
    ) -> Result<(), StepError> {
        self.hand_over(to, tag, packet, Some(departed))
    }
}

impl Transport for Handle {
    fn send(&mut self, to: Rank, tag: Tag, packet: Packet) -> Result<(), StepError> {
        self.hand_over(to, tag, packet, None)
    }

    fn has_room(&self, to: Rank, bytes: usize) -> bool {
        let window = self.0.windows.get(to.index()).filter(|_| to != self.0.me);
        window.is_none_or(|window| window.has_room(bytes as u64))
    }

    fn recv(&mut self, from: Rank, tag: Tag) -> Result<Envelope, StepError> {
        self.0.check(from)?;
        let (envelope, back) = self.0.inbox.take(from, tag)?;
        self.0.give_back(back);
        Ok(envelope)
    }

    fn recv_any(&mut self, kind: Kind, senders: Senders<'_>) -> Result<Envelope, StepError> {
        let (envelope, back) = self.0.inbox.take_any(kind, senders)?;
        self.0.give_back(back);
        Ok(envelope)
    }
}

#[cfg(test)]
mod tests {
    use super::super::window::WINDOW;
    use super::*;
    use crate::shared_memory::Size;

    struct Still;

    impl Clock for Still {
        fn now(&self) -> Nanos {
            Nanos(0)
        }
        fn spend(&self, _: record::Work) {}
    }

    impl Arrivals for Still {
        fn arrived(&self, _: Rank, _: Tag, _: usize, _: Option<Nanos>) {}
    }

    #[test]
    fn lanes_watch_their_bells_where_peers_ring_them() {
        let watches = |arrivals: Option<Arc<dyn Arrivals>>, shares: bool| {
            let size = Size { packets: 1 << 20, smallest: 100 };
            let sharing = shares.then(|| Sharing::new(Rank(0), 2, size).unwrap());
            let terms = Terms { clock: Arc::new(Still), arrivals, window: WINDOW, sharing };
            let (shared, ..) = Shared::new(Rank(0), 2, Duration::from_secs(1), terms);
            !shared.inbox.watch_time().is_zero()
        };
        assert!(watches(None, true));
        assert!(
            !watches(Some(Arc::new(Still)), true),
            "an emulated card sends all announcements through the socket"
        );
        assert!(!watches(None, false));
    }
}
