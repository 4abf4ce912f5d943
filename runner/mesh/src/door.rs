//! The door of a host: how ranks of other hosts reach the sockets of the ranks on this one.
//!
//! All sockets of ZeroMQ lie in a directory that only the user may enter, since its decoder trusts the length of a frame before
//! any handshake. Between hosts a connection passes a door: the only thing that listens on an address of the network. It reads
//! nothing but messages of a fixed size, and only a peer that proves to know the attempt's secret is connected with the
//! socket of a rank. From then on the bytes pass as they are: authenticated at the beginning, not encrypted.
//!
//! ```text
//! client                                       door
//!   attempt (u64), rank (u32), little endian ->
//!   hello   ->  <- challenge    as in the handshake of a connection,
//!   proof   ->  <- welcome      each behind its length (u16)
//! ```

use crate::handshake::{Client, End, Next, Plane, Server};
use crate::{Member, MeshError, Secret, directory};
use bytes::Bytes;
use record::Rank;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// The longest message of a handshake, in bytes.
const LONGEST: usize = 256;

/// The most time that a door gives to a handshake.
pub const HANDSHAKE_TIME: Duration = Duration::from_secs(10);

/// Request of a peer at a door: the socket of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Knock {
    /// The attempt, a number that the driver draws.
    pub attempt: u64,
    /// The rank whose socket it wants.
    pub rank: Rank,
}

/// Asks at a door for the socket of a rank and proves to know the attempt's secret. The stream then leads to the socket.
///
/// # Errors
/// The door does not know the secret, or closes the connection.
pub async fn knock(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    knock: Knock,
    secret: &Secret,
) -> Result<(), MeshError> {
    let door = End::Member(Member::Rank(knock.rank));
    let mut preface = Vec::with_capacity(12);
    preface.extend(knock.attempt.to_le_bytes());
    preface.extend(knock.rank.0.to_le_bytes());
    stream.write_all(&preface).await.map_err(broken)?;
    let (mut client, hello) = Client::new(secret, Plane::Door, End::Driver, door);
    send(stream, &hello).await?;
    loop {
        match client.take(&receive(stream).await?).map_err(|fault| fault.of(door))? {
            Next::Send(message) => send(stream, &message).await?,
            Next::Done(_) => return Ok(()),
        }
    }
}

/// Serves a peer at the door; `secret_of` knows the attempts of this host. Reads at most a few hundred bytes. Returns what the
/// peer asked for after it has proved to know the secret. The caller limits the time, with [`HANDSHAKE_TIME`].
///
/// # Errors
/// No such attempt, or the peer does not know its secret.
pub async fn admit(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    secret_of: impl FnOnce(Knock) -> Option<Secret>,
) -> Result<Knock, MeshError> {
    let attempt = stream.read_u64_le().await.map_err(broken)?;
    let rank = Rank(stream.read_u32_le().await.map_err(broken)?);
    let knock = Knock { attempt, rank };
    let stranger = || MeshError::Secret { peer: "a peer at the door".into() };
    let secret = secret_of(knock).ok_or_else(stranger)?;
    let hello = receive(stream).await?;
    let me = End::Member(Member::Rank(rank));
    let (server, challenge) = Server::greet(&secret, Plane::Door, me, &hello).map_err(|_| stranger())?;
    send(stream, &challenge).await?;
    let (_, welcome, _) = server.check(&receive(stream).await?).map_err(|_| stranger())?;
    send(stream, &welcome).await?;
    Ok(knock)
}

/// The socket of the driver's control plane in a directory of sockets.
///
/// # Errors
/// The path is too long for a socket.
pub fn control_socket(sockets: &Path) -> Result<PathBuf, MeshError> {
    directory::control_socket(sockets)
}

/// The socket of a rank's data plane in a directory of sockets.
///
/// # Errors
/// The path is too long for a socket.
pub fn data_socket(sockets: &Path, rank: Rank) -> Result<PathBuf, MeshError> {
    directory::data_socket(sockets, rank)
}

async fn send(stream: &mut (impl AsyncWrite + Unpin), message: &Bytes) -> Result<(), MeshError> {
    let mut framed = Vec::with_capacity(2 + message.len());
    framed.extend((message.len() as u16).to_le_bytes());
    framed.extend(message);
    stream.write_all(&framed).await.map_err(broken)
}

async fn receive(stream: &mut (impl AsyncRead + Unpin)) -> Result<Vec<u8>, MeshError> {
    let length = usize::from(stream.read_u16_le().await.map_err(broken)?);
    if length > LONGEST {
        let what = "message at a door";
        return Err(MeshError::TooLarge { what, bytes: length as u64, limit: LONGEST as u64 });
    }
    let mut message = vec![0; length];
    stream.read_exact(&mut message).await.map_err(broken)?;
    Ok(message)
}

fn broken(reason: io::Error) -> MeshError {
    MeshError::Io { what: "connection through a door", reason }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::duplex;

    const SECRET: Secret = Secret([7; 32]);
    const ASKED: Knock = Knock { attempt: 5, rank: Rank(3) };

    fn wait<T>(future: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(future)
    }

    /// Results of the client, which has `secret`, and of a door that knows attempt 5.
    fn meeting(secret: Secret, asked: Knock) -> (Result<(), MeshError>, Result<Knock, MeshError>) {
        wait(async {
            let (mut client, mut door) = duplex(64);
            let knocking = async {
                let knocked = knock(&mut client, asked, &secret).await;
                drop(client);
                knocked
            };
            let admitting = async {
                let known = |asked: Knock| (asked.attempt == 5).then_some(SECRET);
                let admitted = admit(&mut door, known).await;
                drop(door);
                admitted
            };
            tokio::join!(knocking, admitting)
        })
    }

    #[test]
    fn a_peer_with_the_secret_passes_and_no_byte_behind_the_handshake_is_read() {
        wait(async {
            let (mut client, mut door) = duplex(1 << 12);
            let knocking = async {
                knock(&mut client, ASKED, &SECRET).await.unwrap();
                client.write_all(b"what follows").await.unwrap();
            };
            let admitting = async {
                assert_eq!(admit(&mut door, |_| Some(SECRET)).await.unwrap(), ASKED);
                let mut rest = [0; 12];
                door.read_exact(&mut rest).await.unwrap();
                assert_eq!(&rest, b"what follows");
            };
            tokio::join!(knocking, admitting);
        });
    }

    #[test]
    fn no_peer_passes_without_the_secret_of_the_attempt() {
        let (client, door) = meeting(Secret([8; 32]), ASKED);
        assert!(client.is_err() && matches!(door, Err(MeshError::Secret { .. } | MeshError::Io { .. })));
        let (client, door) = meeting(SECRET, Knock { attempt: 6, ..ASKED });
        assert!(client.is_err() && matches!(door, Err(MeshError::Secret { .. })));
        assert!(matches!(meeting(SECRET, ASKED), (Ok(()), Ok(ASKED))));
    }

    /// A peer that overheard the conversation of one with the secret repeats it.
    #[test]
    fn an_overheard_conversation_opens_no_door() {
        wait(async {
            let (mut client, mut tap) = duplex(1 << 12);
            let (mut onward, mut door) = duplex(1 << 12);
            let overhearing = async {
                let mut heard = Vec::new();
                let mut up = [0; 64];
                let mut down = [0; 64];
                loop {
                    tokio::select! {
                        read = tap.read(&mut up) => match read.unwrap() {
                            0 => return heard,
                            read => {
                                heard.extend_from_slice(&up[..read]);
                                onward.write_all(&up[..read]).await.unwrap();
                            }
                        },
                        read = onward.read(&mut down) => {
                            let read = read.unwrap();
                            tap.write_all(&down[..read]).await.unwrap();
                        }
                    }
                }
            };
            let knocking = async {
                knock(&mut client, ASKED, &SECRET).await.unwrap();
                drop(client);
            };
            let (admitted, (), heard) =
                tokio::join!(admit(&mut door, |_| Some(SECRET)), knocking, overhearing);
            assert_eq!(admitted.unwrap(), ASKED);
            let (mut again, mut door) = duplex(1 << 12);
            again.write_all(&heard).await.unwrap();
            assert!(matches!(admit(&mut door, |_| Some(SECRET)).await, Err(MeshError::Secret { .. })));
        });
    }

    #[test]
    fn a_giant_length_is_refused_before_anything_is_allocated() {
        let told = wait(async {
            let (mut client, mut door) = duplex(64);
            client.write_all(&[5, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0xff, 0xff]).await.unwrap();
            admit(&mut door, |_| Some(SECRET)).await.unwrap_err()
        });
        assert!(matches!(told, MeshError::TooLarge { bytes: 65_535, .. }), "{told}");
    }

    #[test]
    fn a_connection_of_the_data_plane_is_none_of_the_door() {
        let me = End::Member(Member::Rank(Rank(3)));
        let (_, hello) = Client::new(&SECRET, Plane::Data, End::Driver, me);
        assert!(Server::greet(&SECRET, Plane::Door, me, &hello).is_err());
    }
}
