//! The driver's side of the control plane.

use super::conversation::Side;
use super::encode;
use super::seats::{Outgoing, Seats};
use crate::handshake::{End, Plane};
use crate::reception::{Reception, Visit};
use crate::socket::{Gone, addressed, bind};
use crate::thread::PlaneThread;
use crate::{Member, MeshError, Secret, ToDriver, ToMember, directory};
use bytes::Bytes;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use zeromq::{RouterSocket, SocketRecv, SocketSend, ZmqMessage};

/// The driver's way to all members.
pub struct ControlServer {
    orders: UnboundedSender<Order>,
    heard: UnboundedReceiver<(Member, ToDriver)>,
    seats: Arc<Seats>,
    // Ends when `orders` is dropped.
    _thread: PlaneThread,
}

enum Order {
    Say(Member, Vec<u8>),
    /// Answer when nothing is open any more.
    Settle(oneshot::Sender<()>),
}

impl ControlServer {
    /// Listens in the directory `sockets` for `members`, and for nobody else. The directory must be the user's
    /// own and closed to everybody else.
    pub async fn bind(sockets: &Path, secret: &Secret, members: &[Member]) -> Result<Self, MeshError> {
        directory::check_private(sockets)?;
        let path = directory::control_socket(sockets)?;
        let seats = Arc::new(Seats::new(members));
        let (orders, ordered) = unbounded_channel();
        let (hearing, heard) = unbounded_channel();
        let (bound, binding) = oneshot::channel();
        let (secret, mine) = (secret.clone(), seats.clone());
        let thread = PlaneThread::spawn("control", move || async move {
            match bind(path.as_path()).await {
                Err(error) => drop(bound.send(Err(error))),
                Ok((router, gone, _file)) => {
                    let reception = Reception::new(secret, Plane::Control, End::Driver);
                    let host = Host { router, gone, reception, seats: mine, hearing, settling: Vec::new() };
                    if bound.send(Ok(())).is_ok() {
                        host.serve(ordered).await;
                    }
                }
            }
        })?;
        binding.await.unwrap_or_else(|_| Err(MeshError::Lost("the control plane".into())))?;
        Ok(Self { orders, heard, seats, _thread: thread })
    }

    /// What was said next: in order per member, each message exactly once. `None` when nothing can come any
    /// more. Dropping the future loses nothing.
    pub async fn recv(&mut self) -> Option<(Member, ToDriver)> {
        self.heard.recv().await
    }

    /// Says something to a member; one that is not connected yet hears it when it is.
    pub fn send(&self, to: Member, message: ToMember) -> Result<(), MeshError> {
        self.seats.check(to)?;
        let body = encode(&message)?;
        self.orders.send(Order::Say(to, body)).map_err(|_| MeshError::NotConnected(to))
    }

    /// Waits until the members have acknowledged what they were told, or are gone; then ends all connections.
    pub async fn close(self, deadline: Duration) {
        let (settled, settling) = oneshot::channel();
        if self.orders.send(Order::Settle(settled)).is_ok()
            && tokio::time::timeout(deadline, settling).await.is_err()
        {
            tracing::warn!("members did not acknowledge the driver's last words in time");
        }
    }
}

/// What the thread works on.
struct Host {
    router: RouterSocket,
    gone: Gone,
    reception: Reception,
    seats: Arc<Seats>,
    hearing: UnboundedSender<(Member, ToDriver)>,
    settling: Vec<oneshot::Sender<()>>,
}

impl Host {
    async fn serve(mut self, mut ordered: UnboundedReceiver<Order>) {
        loop {
            tokio::select! {
                message = self.router.recv() => {
                    let Ok(message) = message else { return };
                    self.take(message).await;
                    self.take_what_is_there().await;
                }
                order = ordered.recv() => match order {
                    None => return,
                    Some(Order::Settle(settled)) => self.settling.push(settled),
                    Some(Order::Say(to, body)) => {
                        let frames = self.seats.say(to, body);
                        self.send(frames).await;
                    }
                },
                identity = self.gone.recv() => {
                    let Some(identity) = identity else { return };
                    self.take_what_is_there().await;
                    self.reception.forget(&identity);
                    self.seats.leave(&identity);
                }
            }
            if self.seats.settled() {
                self.settling.drain(..).for_each(|settled| settled.send(()).unwrap_or_default());
            }
        }
    }

    /// Reads until nothing is there, and only then acknowledges: writing to a process that was killed makes the
    /// socket library throw away what can still be read of it.
    async fn take_what_is_there(&mut self) {
        loop {
            let message = tokio::select! {
                biased;
                message = self.router.recv() => message,
                () = std::future::ready(()) => break,
            };
            let Ok(message) = message else { break };
            self.take(message).await;
        }
        let acknowledgements = self.seats.acknowledge();
        self.send(acknowledgements).await;
    }

    async fn take(&mut self, message: ZmqMessage) {
        let mut frames = message.into_vecdeque();
        let (Some(identity), Some(frame)) = (frames.pop_front(), frames.pop_front()) else { return };
        if let Some((member, body)) = self.seats.take(&identity, &frame) {
            match rmp_serde::from_slice(&body) {
                Ok(said) => drop(self.hearing.send((member, said))),
                Err(error) => tracing::error!(%member, %error, "a control message cannot be decoded"),
            }
        } else if !self.seats.knows(&identity) {
            self.receive(identity, &frame).await;
        }
    }

    /// Somebody who has not proved anything yet.
    async fn receive(&mut self, identity: Bytes, frame: &Bytes) {
        match self.reception.take(&identity, frame) {
            Visit::Nothing => {}
            Visit::Answer(answer) => self.send(vec![(identity, answer)]).await,
            Visit::Proven { peer, welcome, key } => {
                let End::Member(member) = peer else { return };
                let Some(waiting) = self.seats.enter(member, &identity, key, Side::Driver) else { return };
                self.send(vec![(identity, welcome)]).await;
                self.send(waiting).await;
            }
        }
    }

    async fn send(&mut self, frames: Vec<Outgoing>) {
        for (identity, frame) in frames {
            // Fails only for a peer that is gone, which its own notice tells.
            let _ = self.router.send(addressed(&identity, frame)).await;
        }
    }
}
