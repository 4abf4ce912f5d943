//! What there is to know about the ZeroMQ sockets themselves.
//!
//! - A socket of this library does not say that a peer is gone: only its monitor does ([`watch`]).
//! - Identities are used once: a second connection with the same identity would replace the first.
//! - Dropping a socket loses what is not written yet: whoever wants it to arrive waits for an acknowledgement.

use crate::handshake::{Client, Code, End, Next, Plane};
use crate::{MeshError, Secret, directory};
use bytes::Bytes;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use zeromq::util::PeerIdentity;
use zeromq::{
    DealerSocket, RouterSocket, Socket, SocketEvent, SocketOptions, SocketRecv, SocketSend, ZmqMessage,
};

/// How often a client looks whether the server's socket is there yet.
const LOOK: Duration = Duration::from_millis(5);

/// Tells which identities are no longer connected.
pub(crate) type Gone = UnboundedReceiver<Bytes>;

/// Passes on the identities of lost connections. Must be called before the socket is bound or connected, on
/// the runtime of the socket.
fn watch(socket: &mut impl Socket) -> Gone {
    let mut monitor = socket.monitor();
    let (sender, receiver) = unbounded_channel();
    tokio::spawn(async move {
        while let Ok(event) = monitor.recv().await {
            if let SocketEvent::Disconnected(identity) = event
                && sender.send(identity.into()).is_err()
            {
                break;
            }
        }
    });
    receiver
}

/// The file of a bound socket. The library removes it too, but only if its runtime lives long enough.
pub(crate) struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Binds a ROUTER to a path.
pub(crate) async fn bind(path: &Path) -> Result<(RouterSocket, Gone, SocketFile), MeshError> {
    let mut socket = RouterSocket::new();
    let gone = watch(&mut socket);
    let bound = socket.bind(&endpoint(path)).await;
    bound.map_err(|error| MeshError::Socket { path: path.into(), reason: error.to_string() })?;
    Ok((socket, gone, SocketFile(path.into())))
}

/// Connects a DEALER to a path as soon as somebody listens there. Never gives up by itself.
pub(crate) async fn connect(path: &Path, name: &str) -> Result<(DealerSocket, Gone), MeshError> {
    // The library's own way of waiting doubles its pause up to half a minute.
    while !path.exists() {
        tokio::time::sleep(LOOK).await;
    }
    let fault = |error: zeromq::ZmqError| MeshError::Socket { path: path.into(), reason: error.to_string() };
    let random: [u8; 16] = directory::random();
    let identity = [name.as_bytes(), b" ", &random].concat();
    let mut options = SocketOptions::default();
    options.peer_identity(PeerIdentity::try_from(identity).map_err(fault)?);
    let mut socket = DealerSocket::with_options(options);
    let gone = watch(&mut socket);
    socket.connect(&endpoint(path)).await.map_err(fault)?;
    Ok((socket, gone))
}

/// A connection whose other end has proved to belong to the attempt.
pub(crate) struct Proven {
    pub(crate) dealer: DealerSocket,
    pub(crate) gone: Gone,
    pub(crate) key: Code,
}

/// Connects and proves to belong to the attempt. Never gives up by itself.
pub(crate) async fn introduce(
    path: &Path,
    secret: &Secret,
    plane: Plane,
    (me, server): (End, End),
) -> Result<Proven, MeshError> {
    let (mut dealer, mut gone) = connect(path, &me.to_string()).await?;
    let lost = || MeshError::Lost(server.to_string());
    let (mut client, hello) = Client::new(secret, plane, me, server);
    dealer.send(ZmqMessage::from(hello)).await.map_err(|_| lost())?;
    loop {
        let answer = tokio::select! {
            answer = dealer.recv() => answer.map_err(|_| lost())?,
            _ = gone.recv() => return Err(lost()),
        };
        let Some(answer) = answer.get(0) else { continue };
        match client.take(answer).map_err(|fault| fault.of(server))? {
            Next::Send(message) => dealer.send(ZmqMessage::from(message)).await.map_err(|_| lost())?,
            Next::Done(key) => return Ok(Proven { dealer, gone, key }),
        }
    }
}

/// A message for one peer of a ROUTER.
pub(crate) fn addressed(identity: &Bytes, frame: Bytes) -> ZmqMessage {
    let mut message = ZmqMessage::from(identity.clone());
    message.push_back(frame);
    message
}

fn endpoint(path: &Path) -> String {
    format!("ipc://{}", path.display())
}
