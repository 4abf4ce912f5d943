//! Errors of the communication between the processes of an attempt.

use crate::{Member, PROTOCOL};
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// An error of the communication between the processes of an attempt.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the message of each variant says what its fields are")]
pub enum MeshError {
    /// A socket's path does not fit into a socket address.
    #[error(
        "the socket path {} has {} bytes, and the system allows {limit}: set XDG_RUNTIME_DIR to a shorter \
         directory",
        path.display(), path.as_os_str().len()
    )]
    PathTooLong {
        path: PathBuf,
        /// The most bytes that a path may have.
        limit: usize,
    },
    /// The directory of the sockets cannot be made, or others may enter it.
    #[error("directory of sockets {}: {reason}", path.display())]
    Directory {
        path: PathBuf,
        /// Error of the system, or the refusal of its owner or mode.
        reason: io::Error,
    },
    /// A socket cannot be bound or connected.
    #[error("socket {}: {reason}", path.display())]
    Socket {
        path: PathBuf,
        /// Error of the socket library, as text.
        reason: String,
    },
    /// The ranks cannot share memory.
    #[error(
        "the memory of {owner} cannot be shared: {reason}; `communication.transport = \"zeromq\"` does without"
    )]
    SharedMemory {
        owner: Member,
        /// Cause, as text: an error of the system, or memory or machines that do not fit.
        reason: String,
    },
    /// The thread of a plane cannot be started.
    #[error("the thread of the {plane} plane cannot be started: {reason}")]
    Thread { plane: &'static str, reason: io::Error },
    /// A peer did not connect or did not complete the handshake in time.
    #[error("{who} waited {waited:.1?} for the handshake with {}", list(peers))]
    Late {
        who: Member,
        /// For whom; empty for the driver.
        peers: Vec<Member>,
        waited: Duration,
    },
    /// The other side does not know the secret of this attempt.
    #[error("{peer} does not know the secret of this attempt")]
    Secret { peer: String },
    /// The other side speaks another version.
    #[error(
        "{peer} speaks another version (protocol {protocol}, format {format:016x}) than this program \
         (protocol {PROTOCOL}, format {:016x}): build driver and worker again, from one state of the sources",
        crate::wire_format()
    )]
    Version { peer: String, protocol: u32, format: u64 },
    /// The input is not a briefing.
    #[error("the input is not a briefing: a worker is started by `bakeoff run`, not by hand")]
    NoBriefing,
    /// A briefing or message is larger than anything this program sends.
    #[error("{what} of {bytes} bytes exceeds the limit of {limit}")]
    TooLarge { what: &'static str, bytes: u64, limit: u64 },
    /// Reading or writing failed midway.
    #[error("{what}: {reason}")]
    Io { what: &'static str, reason: io::Error },
    /// The bytes are no message of this version.
    #[error("{what} cannot be decoded: {reason}")]
    Decode {
        /// Expected content of the bytes: `briefing`, for example.
        what: &'static str,
        reason: rmp_serde::decode::Error,
    },
    /// A message has no encoding.
    #[error("{what} cannot be encoded: {reason}")]
    Encode { what: &'static str, reason: rmp_serde::encode::Error },
    /// No member of that name belongs to the attempt.
    #[error("{0} is no member of this attempt")]
    Stranger(Member),
    /// A member is not connected, or no longer.
    #[error("{0} is not connected")]
    NotConnected(Member),
    /// A peer disconnected during the handshake.
    #[error("the connection to {peer} broke while it was made: {reason}")]
    Broke {
        peer: Member,
        /// Error that interrupted the handshake.
        reason: Box<MeshError>,
    },
    /// The connection is lost.
    #[error("the connection to {0} is lost")]
    Lost(String),
    /// Not everything was acknowledged in time, so the last messages may be lost.
    #[error("after {waited:.1?} {missing} are still not acknowledged")]
    Unsettled {
        missing: String,
        /// How long the sender waited.
        waited: Duration,
    },
}

fn list(members: &[Member]) -> String {
    if members.is_empty() {
        return "the driver".into();
    }
    members.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
