//! The sockets of an attempt's ranks on one host, to which connections from elsewhere lead.

use crate::sockets::OwnedDirectory;
use mesh::Secret;
use record::Rank;
use std::io;
use std::io::ErrorKind::{ConnectionRefused, NotFound, WouldBlock};
use std::path::Path;
use std::sync::Weak;
use std::time::Duration;
use tokio::net::UnixStream;

/// How long a connection waits for the socket of a rank that is still starting. The ranks' own deadline is shorter.
const SOCKET: Duration = Duration::from_mins(10);
/// How often it looks.
const LOOK: Duration = Duration::from_millis(10);

/// The sockets of an attempt's ranks on this host, and the secret of those who may connect with them. Dropping it removes their directory.
pub(super) struct RankSockets {
    attempt: u64,
    secret: Secret,
    directory: OwnedDirectory,
}

impl RankSockets {
    /// Makes the directory of an attempt's sockets.
    pub(super) fn of(attempt: u64, secret: Secret) -> io::Result<Self> {
        Ok(Self { attempt, secret, directory: OwnedDirectory::of_sockets()? })
    }

    /// Their directory.
    pub(super) fn path(&self) -> &Path {
        &self.directory.path
    }

    /// The secret of the attempt.
    pub(super) fn secret(&self) -> &Secret {
        &self.secret
    }

    /// The secret that peers at the door must know.
    pub(super) fn secret_for(&self, attempt: u64) -> Option<Secret> {
        (attempt == self.attempt).then(|| self.secret.clone())
    }

    /// A connection with the socket of a rank on this host, as soon as it exists. An attempt that is closed meanwhile ends
    /// the wait.
    pub(super) async fn connect(sockets: Weak<Self>, rank: Rank) -> io::Result<UnixStream> {
        let connected = async {
            loop {
                let here = sockets.upgrade().ok_or_else(over)?;
                let path = mesh::door::data_socket(here.path(), rank).map_err(io::Error::other)?;
                drop(here);
                match UnixStream::connect(&path).await {
                    // It was not made yet, or made and not listened at.
                    Err(error) if matches!(error.kind(), NotFound | ConnectionRefused | WouldBlock) => {
                        tokio::time::sleep(LOOK).await;
                    }
                    Ok(socket) => {
                        mesh::size_send_buffer(&socket)?;
                        return Ok(socket);
                    }
                    Err(error) => return Err(error),
                }
            }
        };
        tokio::time::timeout(SOCKET, connected).await.map_err(|_| io::ErrorKind::TimedOut)?
    }
}

/// The error of a request to an attempt that has ended.
pub(super) fn over() -> io::Error {
    io::Error::other("the attempt has ended on this host")
}
