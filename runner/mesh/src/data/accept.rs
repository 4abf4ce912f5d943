//! The accept loop: the ROUTER that all peers connect to.

use super::frame::Frame;
use super::incoming::{Incoming, Step};
use super::presence::Presence;
use super::requests::AcceptRequest;
use super::shared::{Alarm, Shared};
use crate::Member;
use crate::handshake::End;
use crate::socket::{Gone, addressed};
use crate::unproven::{Admission, Unproven};
use bytes::Bytes;
use record::Rank;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, mpsc};
use strategies::buffers::Buffers;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::watch;
use zeromq::{RouterSocket, SocketRecv, SocketSend, ZmqMessage};

/// Receives from all peers.
pub(super) struct Acceptor {
    pub(super) router: RouterSocket,
    pub(super) gone: Gone,
    pub(super) unproven: Unproven,
    pub(super) shared: Arc<Shared>,
    /// The peers that have not connected yet.
    pub(super) missing: watch::Sender<BTreeSet<Rank>>,
    pub(super) connections: Connections,
}

/// The connections whose peers have proved who they are.
#[derive(Default)]
pub(super) struct Connections {
    by_identity: BTreeMap<Bytes, Connection>,
    by_rank: BTreeMap<Rank, Bytes>,
    buffers: Buffers,
    lingering: Vec<mpsc::SyncSender<()>>,
}

struct Connection {
    peer: Rank,
    state: ConnectionState,
}

enum ConnectionState {
    Receiving(Incoming),
    /// The peer said goodbye.
    Leaving,
    /// The peer sent an invalid frame; everything after it is ignored.
    Faulty,
}

impl Acceptor {
    pub(super) async fn serve(mut self, mut requests: UnboundedReceiver<AcceptRequest>) {
        let _alarm = Alarm(self.shared.clone());
        loop {
            tokio::select! {
                message = self.router.recv() => match message {
                    Ok(message) => self.take(message).await,
                    Err(error) => return tracing::error!(%error, "the data socket failed"),
                },
                request = requests.recv() => match request {
                    None => return,
                    Some(AcceptRequest::Return { to, bytes }) => {
                        self.reply(to, Frame::Credit { bytes }).await;
                    }
                    Some(AcceptRequest::Faulty(peer)) => self.condemn(peer),
                    Some(AcceptRequest::Linger(done)) => self.connections.lingering.push(done),
                },
                identity = self.gone.recv() => match identity {
                    None => return,
                    Some(identity) => self.hang_up(&identity),
                },
            }
            self.connections.stop_lingering();
        }
    }

    async fn take(&mut self, message: ZmqMessage) {
        let mut frames: VecDeque<Bytes> = message.into_vecdeque();
        let (Some(identity), Some(header)) = (frames.pop_front(), frames.pop_front()) else { return };
        let Some(connection) = self.connections.by_identity.get_mut(&identity) else {
            return self.admit(identity, &header).await;
        };
        let ConnectionState::Receiving(incoming) = &mut connection.state else { return };
        let shared = &self.shared;
        let peer = connection.peer;
        let payload = frames.pop_front().unwrap_or_default();
        let now = || shared.clock.now();
        match incoming.take(&header, payload, now, |size| shared.inbox.admits(peer, size)) {
            Ok(Step::Moves) => shared.inbox.moves(peer),
            Ok(Step::Message(envelope, departed)) => shared.deliver(envelope, departed),
            Ok(Step::Want) => {
                if let Some((to, bytes)) = shared.inbox.want(peer) {
                    self.reply(to, Frame::Credit { bytes }).await;
                }
            }
            Ok(Step::Goodbye) => {
                connection.state = ConnectionState::Leaving;
                shared.depart(peer, Presence::Left);
                self.reply(peer, Frame::Farewell).await;
            }
            Err(fault) => {
                tracing::error!(rank = %shared.me, %peer, %fault, "a peer sent an invalid frame and counts as lost");
                connection.state = ConnectionState::Faulty;
                shared.depart(peer, Presence::Lost);
            }
        }
    }

    /// Takes a frame of a connection whose peer has not proved who it is.
    async fn admit(&mut self, identity: Bytes, frame: &[u8]) {
        match self.unproven.take(&identity, frame) {
            Admission::Ignored => {}
            Admission::Reply(reply) => self.send(&identity, reply).await,
            Admission::Proven { peer: End::Member(Member::Rank(peer)), welcome, .. } => {
                let expected = self.missing.borrow().contains(&peer);
                if !expected {
                    return tracing::warn!(%peer, "a second connection of a rank was ignored");
                }
                let incoming =
                    Incoming::new(peer, self.connections.buffers.clone(), self.shared.sharing.clone());
                let connection = Connection { peer, state: ConnectionState::Receiving(incoming) };
                self.connections.by_identity.insert(identity.clone(), connection);
                self.connections.by_rank.insert(peer, identity.clone());
                self.send(&identity, welcome).await;
                self.missing.send_if_modified(|missing| missing.remove(&peer));
            }
            Admission::Proven { peer, .. } => {
                tracing::warn!(%peer, "a member that has no data plane was ignored");
            }
        }
    }

    fn condemn(&mut self, peer: Rank) {
        let connections = &mut self.connections;
        let identity = connections.by_rank.get(&peer);
        if let Some(connection) = identity.and_then(|identity| connections.by_identity.get_mut(identity)) {
            connection.state = ConnectionState::Faulty;
        }
        self.shared.depart(peer, Presence::Lost);
    }

    fn hang_up(&mut self, identity: &Bytes) {
        self.unproven.forget(identity);
        if let Some(connection) = self.connections.by_identity.remove(identity) {
            self.connections.by_rank.remove(&connection.peer);
            self.shared.depart(connection.peer, Presence::Lost);
        }
    }

    async fn reply(&mut self, to: Rank, frame: Frame) {
        if let Some(identity) = self.connections.by_rank.get(&to).cloned() {
            self.send(&identity, Bytes::copy_from_slice(&frame.encode(0))).await;
        }
    }

    async fn send(&mut self, identity: &Bytes, frame: Bytes) {
        // Fails only if the peer has disconnected, which the monitor reports.
        let _ = self.router.send(addressed(identity, frame)).await;
    }
}

impl Connections {
    fn stop_lingering(&mut self) {
        let leaving = |connection: &Connection| matches!(connection.state, ConnectionState::Leaving);
        if !self.lingering.is_empty() && !self.by_identity.values().any(leaving) {
            self.lingering.drain(..).for_each(|done| done.send(()).unwrap_or_default());
        }
    }
}
