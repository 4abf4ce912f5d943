//! The driver's side of the control plane.

use super::conversation::Side;
use super::encode;
use super::sessions::{AddressedFrame, Sessions};
use crate::handshake::{End, Plane};
use crate::socket::{Gone, addressed, bind};
use crate::thread::PlaneThread;
use crate::unproven::{Admission, Unproven};
use crate::{Member, MeshError, Secret, ToDriver, ToMember, directory};
use bytes::Bytes;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use zeromq::{RouterSocket, SocketRecv, SocketSend, ZmqMessage};

/// The driver's connection to all members.
pub struct ControlServer {
    commands: UnboundedSender<Command>,
    messages: UnboundedReceiver<(Member, ToDriver)>,
    sessions: Arc<Sessions>,
    // Ends when `commands` is dropped.
    _thread: PlaneThread,
}

enum Command {
    Say(Member, Vec<u8>),
    /// Signal when all messages are acknowledged.
    Settle(oneshot::Sender<()>),
}

impl ControlServer {
    /// Listens in the directory `sockets` for `members` only. The directory must belong to the user and be closed to all
    /// others.
    pub async fn bind(sockets: &Path, secret: &Secret, members: &[Member]) -> Result<Self, MeshError> {
        directory::check_private(sockets)?;
        let path = directory::control_socket(sockets)?;
        let sessions = Arc::new(Sessions::new(members));
        let (commands, commanded) = unbounded_channel();
        let (incoming, messages) = unbounded_channel();
        let (bound, binding) = oneshot::channel();
        let secret = secret.clone();
        let mine = sessions.clone();
        let thread = PlaneThread::spawn("control", move || async move {
            match bind(path.as_path()).await {
                Err(error) => drop(bound.send(Err(error))),
                Ok((router, gone, _file)) => {
                    let unproven = Unproven::new(secret, Plane::Control, End::Driver);
                    let host =
                        Host { router, gone, unproven, sessions: mine, incoming, settling: Vec::new() };
                    if bound.send(Ok(())).is_ok() {
                        host.serve(commanded).await;
                    }
                }
            }
        })?;
        binding.await.unwrap_or_else(|_| Err(MeshError::Lost("the control plane".into())))?;
        Ok(Self { commands, messages, sessions, _thread: thread })
    }

    /// The next message, each exactly once and in the order of its member; `None` when none can come any more. Dropping
    /// the future loses nothing.
    pub async fn recv(&mut self) -> Option<(Member, ToDriver)> {
        self.messages.recv().await
    }

    /// Sends a message to a member; it waits for a member that is not connected yet.
    pub fn send(&self, to: Member, message: ToMember) -> Result<(), MeshError> {
        self.sessions.check(to)?;
        let body = encode(&message)?;
        self.commands.send(Command::Say(to, body)).map_err(|_| MeshError::NotConnected(to))
    }

    /// Waits until the members have acknowledged all messages or are gone, then ends all connections.
    pub async fn close(self, deadline: Duration) {
        let (settled, settling) = oneshot::channel();
        if self.commands.send(Command::Settle(settled)).is_ok()
            && tokio::time::timeout(deadline, settling).await.is_err()
        {
            tracing::warn!("members did not acknowledge the driver's last messages in time");
        }
    }
}

/// The state of the plane's thread.
struct Host {
    router: RouterSocket,
    gone: Gone,
    unproven: Unproven,
    sessions: Arc<Sessions>,
    incoming: UnboundedSender<(Member, ToDriver)>,
    settling: Vec<oneshot::Sender<()>>,
}

impl Host {
    async fn serve(mut self, mut commanded: UnboundedReceiver<Command>) {
        loop {
            tokio::select! {
                message = self.router.recv() => {
                    let Ok(message) = message else { return };
                    self.take(message).await;
                    self.take_arrived().await;
                }
                command = commanded.recv() => match command {
                    None => return,
                    Some(Command::Settle(settled)) => self.settling.push(settled),
                    Some(Command::Say(to, body)) => {
                        let frames = self.sessions.say(to, body);
                        self.send(frames).await;
                    }
                },
                identity = self.gone.recv() => {
                    let Some(identity) = identity else { return };
                    self.take_arrived().await;
                    self.unproven.forget(&identity);
                    self.sessions.leave(&identity);
                }
            }
            if self.sessions.settled() {
                self.settling.drain(..).for_each(|settled| settled.send(()).unwrap_or_default());
            }
        }
    }

    /// Reads all messages that have arrived, and acknowledges only then: writing to a killed process makes the socket
    /// library discard the messages of it that were not read yet.
    async fn take_arrived(&mut self) {
        loop {
            let message = tokio::select! {
                biased;
                message = self.router.recv() => message,
                () = std::future::ready(()) => break,
            };
            let Ok(message) = message else { break };
            self.take(message).await;
        }
        let acknowledgements = self.sessions.acknowledge();
        self.send(acknowledgements).await;
    }

    async fn take(&mut self, message: ZmqMessage) {
        let mut frames = message.into_vecdeque();
        let (Some(identity), Some(frame)) = (frames.pop_front(), frames.pop_front()) else { return };
        if let Some((member, body)) = self.sessions.take(&identity, &frame) {
            match rmp_serde::from_slice(&body) {
                Ok(said) => drop(self.incoming.send((member, said))),
                Err(error) => tracing::error!(%member, %error, "a control message cannot be decoded"),
            }
        } else if !self.sessions.knows(&identity) {
            self.admit(identity, &frame).await;
        }
    }

    /// Takes a frame of a connection whose peer has not proved who it is.
    async fn admit(&mut self, identity: Bytes, frame: &Bytes) {
        match self.unproven.take(&identity, frame) {
            Admission::Ignored => {}
            Admission::Reply(reply) => self.send(vec![(identity, reply)]).await,
            Admission::Proven { peer, welcome, key } => {
                let End::Member(member) = peer else { return };
                let Some(waiting) = self.sessions.enter(member, &identity, key, Side::Driver) else { return };
                self.send(vec![(identity, welcome)]).await;
                self.send(waiting).await;
            }
        }
    }

    async fn send(&mut self, frames: Vec<AddressedFrame>) {
        for (identity, frame) in frames {
            // Fails only if the peer has disconnected, which the monitor reports.
            let _ = self.router.send(addressed(&identity, frame)).await;
        }
    }
}
