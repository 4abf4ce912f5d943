//! Binds and connects the ZeroMQ sockets. Three properties of the library matter here:
//!
//! - A socket does not report that a peer is gone; only its monitor does ([`watch`]).
//! - Identities are used once: a second connection with the same identity would replace the first.
//! - Dropping a socket loses the bytes that are not written yet: a sender waits for an acknowledgement first.

use crate::handshake::{Client, Code, End, Next, Plane};
use crate::{MeshError, Secret, directory};
use bytes::Bytes;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use zeromq::util::PeerIdentity;
use zeromq::{
    DealerSocket, RouterSocket, Socket, SocketEvent, SocketOptions, SocketRecv, SocketSend, ZmqMessage,
};

/// How often a client checks whether the server's socket exists.
const LOOK: Duration = Duration::from_millis(5);

/// The identities of connections that ended.
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

/// Where a socket is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    /// In a directory that only the user may enter.
    Ipc(PathBuf),
    /// On an address of the network.
    Tcp(SocketAddr),
}

impl Endpoint {
    /// Whether a server listens there.
    async fn is_open(&self) -> bool {
        match self {
            Self::Ipc(path) => path.exists(),
            Self::Tcp(address) => tokio::net::TcpStream::connect(address).await.is_ok(),
        }
    }

    fn fault(&self, error: &zeromq::ZmqError) -> MeshError {
        let path = match self {
            Self::Ipc(path) => path.clone(),
            Self::Tcp(_) => self.to_string().into(),
        };
        MeshError::Socket { path, reason: error.to_string() }
    }
}

impl std::fmt::Display for Endpoint {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Ipc(path) => write!(out, "ipc://{}", path.display()),
            Self::Tcp(address) => write!(out, "tcp://{address}"),
        }
    }
}

impl From<&Path> for Endpoint {
    fn from(path: &Path) -> Self {
        Self::Ipc(path.into())
    }
}

/// The file of a bound socket, if it has one. The library removes it too, but only if its runtime lives long enough.
pub(crate) struct SocketFile(Endpoint);

impl Drop for SocketFile {
    fn drop(&mut self) {
        if let Endpoint::Ipc(path) = &self.0 {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Binds a ROUTER to an endpoint; dropping the [`SocketFile`] removes its file.
pub(crate) async fn bind(
    endpoint: impl Into<Endpoint>,
) -> Result<(RouterSocket, Gone, SocketFile), MeshError> {
    let endpoint = endpoint.into();
    let mut socket = RouterSocket::new();
    let gone = watch(&mut socket);
    socket.bind(&endpoint.to_string()).await.map_err(|error| endpoint.fault(&error))?;
    Ok((socket, gone, SocketFile(endpoint)))
}

/// Connects a DEALER as soon as a server listens there. Has no time limit of its own.
pub(crate) async fn connect(endpoint: &Endpoint, name: &str) -> Result<(DealerSocket, Gone), MeshError> {
    // The library's own retry doubles its pause up to half a minute.
    while !endpoint.is_open().await {
        tokio::time::sleep(LOOK).await;
    }
    let fault = |error: zeromq::ZmqError| endpoint.fault(&error);
    let random: [u8; 16] = directory::random();
    let identity = [name.as_bytes(), b" ", &random].concat();
    let mut options = SocketOptions::default();
    options.peer_identity(PeerIdentity::try_from(identity).map_err(fault)?);
    let mut socket = DealerSocket::with_options(options);
    let gone = watch(&mut socket);
    socket.connect(&endpoint.to_string()).await.map_err(fault)?;
    Ok((socket, gone))
}

/// A connection whose other end has proved to belong to the attempt.
pub(crate) struct Proven {
    pub(crate) dealer: DealerSocket,
    pub(crate) gone: Gone,
    pub(crate) key: Code,
}

/// Connects and performs the handshake. Has no time limit of its own.
pub(crate) async fn introduce(
    endpoint: &Endpoint,
    secret: &Secret,
    plane: Plane,
    me: End,
    server: End,
) -> Result<Proven, MeshError> {
    let (mut dealer, mut gone) = connect(endpoint, &me.to_string()).await?;
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
