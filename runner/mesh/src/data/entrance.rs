//! The way in: the ROUTER that all peers connect to.

use super::frame::Frame;
use super::incoming::{Incoming, Step};
use super::shared::{Alarm, Shared};
use super::window::Presence;
use crate::Member;
use crate::handshake::End;
use crate::reception::{Reception, Visit};
use crate::socket::{Gone, addressed};
use bytes::Bytes;
use record::Rank;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, mpsc};
use strategies::buffers::Buffers;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::watch;
use zeromq::{RouterSocket, SocketRecv, SocketSend, ZmqMessage};

/// What the lanes want of the entrance.
pub(super) enum Order {
    /// Return credits.
    Return { to: Rank, bytes: u64 },
    /// Answer when everybody who said good-bye has hung up, and so has heard the answer to it.
    Linger(mpsc::SyncSender<()>),
}

/// The way in.
pub(super) struct Entrance {
    pub(super) router: RouterSocket,
    pub(super) gone: Gone,
    pub(super) reception: Reception,
    pub(super) shared: Arc<Shared>,
    /// The peers that have not come yet.
    pub(super) missing: watch::Sender<BTreeSet<Rank>>,
    pub(super) guests: Guests,
}

/// Who is connected.
#[derive(Default)]
pub(super) struct Guests {
    by_identity: BTreeMap<Bytes, Guest>,
    by_rank: BTreeMap<Rank, Bytes>,
    buffers: Buffers,
    lingering: Vec<mpsc::SyncSender<()>>,
}

struct Guest {
    peer: Rank,
    state: Manners,
}

enum Manners {
    /// Sends.
    Talks(Incoming),
    /// Said good-bye.
    Leaving,
    /// Sent what makes no sense; nothing more of it is listened to.
    Mute,
}

impl Entrance {
    pub(super) async fn serve(mut self, mut orders: UnboundedReceiver<Order>) {
        let _alarm = Alarm(self.shared.clone());
        loop {
            tokio::select! {
                message = self.router.recv() => match message {
                    Ok(message) => self.take(message).await,
                    Err(error) => return tracing::error!(%error, "the data socket failed"),
                },
                order = orders.recv() => match order {
                    None => return,
                    Some(Order::Return { to, bytes }) => self.answer(to, Frame::Credit { bytes }).await,
                    Some(Order::Linger(done)) => self.guests.lingering.push(done),
                },
                identity = self.gone.recv() => match identity {
                    None => return,
                    Some(identity) => self.hang_up(&identity),
                },
            }
            self.guests.stop_lingering();
        }
    }

    async fn take(&mut self, message: ZmqMessage) {
        let mut frames: VecDeque<Bytes> = message.into_vecdeque();
        let (Some(identity), Some(header)) = (frames.pop_front(), frames.pop_front()) else { return };
        let Some(guest) = self.guests.by_identity.get_mut(&identity) else {
            return self.receive(identity, &header).await;
        };
        let Manners::Talks(incoming) = &mut guest.state else { return };
        let (shared, peer) = (&self.shared, guest.peer);
        let payload = frames.pop_front().unwrap_or_default();
        let now = || shared.clock.now();
        match incoming.take(&header, payload, now, |size| shared.inbox.admits(peer, size)) {
            Ok(Step::Moves) => shared.inbox.moves(peer),
            Ok(Step::Message(envelope, departed)) => shared.deliver(envelope, departed),
            Ok(Step::Want) => {
                if let Some((to, bytes)) = shared.inbox.want(peer) {
                    self.answer(to, Frame::Credit { bytes }).await;
                }
            }
            Ok(Step::Goodbye) => {
                guest.state = Manners::Leaving;
                shared.depart(peer, Presence::Left);
                self.answer(peer, Frame::Farewell).await;
            }
            Err(fault) => {
                tracing::error!(rank = %shared.me, %peer, %fault, "a peer makes no sense; it counts as gone");
                guest.state = Manners::Mute;
                shared.depart(peer, Presence::Lost);
            }
        }
    }

    /// Somebody who has not proved anything yet.
    async fn receive(&mut self, identity: Bytes, frame: &[u8]) {
        match self.reception.take(&identity, frame) {
            Visit::Nothing => {}
            Visit::Answer(answer) => self.send(&identity, answer).await,
            Visit::Proven { peer: End::Member(Member::Rank(peer)), welcome, .. } => {
                let expected = self.missing.borrow().contains(&peer);
                if !expected {
                    return tracing::warn!(%peer, "a second connection of a rank was ignored");
                }
                let state = Manners::Talks(Incoming::new(peer, self.guests.buffers.clone()));
                self.guests.by_identity.insert(identity.clone(), Guest { peer, state });
                self.guests.by_rank.insert(peer, identity.clone());
                self.send(&identity, welcome).await;
                self.missing.send_if_modified(|missing| missing.remove(&peer));
            }
            Visit::Proven { peer, .. } => tracing::warn!(%peer, "a member without business here was ignored"),
        }
    }

    fn hang_up(&mut self, identity: &Bytes) {
        self.reception.forget(identity);
        if let Some(guest) = self.guests.by_identity.remove(identity) {
            self.guests.by_rank.remove(&guest.peer);
            self.shared.depart(guest.peer, Presence::Lost);
        }
    }

    async fn answer(&mut self, to: Rank, frame: Frame) {
        if let Some(identity) = self.guests.by_rank.get(&to).cloned() {
            self.send(&identity, Bytes::copy_from_slice(&frame.encode(0))).await;
        }
    }

    async fn send(&mut self, identity: &Bytes, frame: Bytes) {
        // Fails only for a peer that is gone, which its own notice tells.
        let _ = self.router.send(addressed(identity, frame)).await;
    }
}

impl Guests {
    fn stop_lingering(&mut self) {
        let leaving = |guest: &Guest| matches!(guest.state, Manners::Leaving);
        if !self.lingering.is_empty() && !self.by_identity.values().any(leaving) {
            self.lingering.drain(..).for_each(|done| done.send(()).unwrap_or_default());
        }
    }
}
