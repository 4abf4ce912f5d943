//! The messages between the driver and the agent of a host.

use crate::{FreeResources, NetworkFacts, NodeFacts, ProcessExit};
use mesh::{Member, Secret};
use recipe::{PortRange, Source};
use record::{HostRecord, Nanos, Rank};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// From the driver to an agent.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ToAgent {
    /// A sign of life.
    Alive,
    /// Something that is replied to.
    Request { request: u32, what: Request },
    /// Kill a member's process group.
    Kill { attempt: u64, member: Member },
    /// Delete a file of an attempt's directory.
    Discard { attempt: u64, name: String },
    /// End an attempt: kill its processes and delete its directories.
    Close { attempt: u64 },
    /// The payload is a piece of the file that `Request::Put` announced; an empty piece ends it.
    Piece { request: u32 },
    /// Bytes of a socket.
    Stream(StreamMessage),
}

/// Request of the driver to an agent, which sends back one [`FromAgent::Reply`].
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Request {
    /// The host's monotonic clock.
    Clock,
    /// Make the directories of an attempt, and with `listen` a door; with `forks` its processes are forked.
    Open { attempt: u64, secret: Secret, forks: bool, listen: Option<IpAddr>, ports: Option<PortRange> },
    /// Lead the sockets of other hosts' ranks there.
    Route { attempt: u64, routes: Vec<(Rank, Route)> },
    /// Start a process; the payload is its briefing.
    Start {
        attempt: u64,
        member: Member,
        program: PathBuf,
        threads: u32,
        environment: BTreeMap<String, String>,
    },
    /// Send a file of an attempt's directory as [`FromAgent::Piece`]s.
    Fetch { attempt: u64, name: String },
    /// Read the counters of the host.
    Host { attempt: u64, node: u32, at: Nanos },
    /// Digest the files of a data set.
    Data { source: Source },
    /// Which of these files the cache lacks.
    Missing { files: Vec<CachedFile> },
    /// Put a file into the cache; its bytes follow as [`ToAgent::Piece`]s.
    Put { file: CachedFile },
    /// Make a folder of cached files under their names.
    Assemble { folder: String, files: Vec<CachedFile> },
    /// Move files of the cache into a folder in the directory of an attempt, under their names; they go with it.
    Adopt { attempt: u64, files: Vec<CachedFile> },
    /// The card of this address, the kernel's buffers, and the wall clock.
    Network { address: Option<IpAddr> },
    /// Measure the way to another host's door, with messages of these sizes there and back.
    Probe { attempt: u64, door: SocketAddr, sizes: Vec<u64> },
    /// Whether a program on this host fits; where ranks with a number of threads are to start, it is loaded for them, if it can be a
    /// fork server.
    Examine { program: PathBuf, threads: Option<u32>, environment: BTreeMap<String, String> },
}

impl Request {
    /// How long it may take on a host that is alive. What reads or sends whole files takes longer.
    pub(crate) fn patience(&self) -> Duration {
        match self {
            Self::Fetch { .. } | Self::Data { .. } | Self::Put { .. } => Duration::from_hours(1),
            Self::Missing { .. } | Self::Assemble { .. } | Self::Adopt { .. } | Self::Examine { .. } => {
                Duration::from_mins(2)
            }
            Self::Clock
            | Self::Network { .. }
            | Self::Open { .. }
            | Self::Route { .. }
            | Self::Start { .. }
            | Self::Host { .. }
            | Self::Probe { .. } => Duration::from_mins(1),
        }
    }
}

/// A file by its content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CachedFile {
    /// Its name, without a folder.
    pub(crate) name: String,
    /// SHA-256 of its bytes in hexadecimal.
    pub(crate) sha256: String,
    /// Size of its content, in bytes.
    pub(crate) size: u64,
    /// Whether it is a program.
    pub(crate) program: bool,
}

/// How ranks of one host reach a rank of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Route {
    /// Through the door of its host.
    Door(SocketAddr),
    /// Through this channel and the driver: encrypted as far as the channels are, and slower.
    Tunnel,
}

/// Where a byte stream ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Destination {
    /// At the driver's control plane.
    Control,
    /// At the socket of a rank.
    Rank(Rank),
}

/// The life of a byte stream.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum StreamMessage {
    /// Opens a stream to a destination at the receiver's end; later messages carry its number.
    Open { stream: u32, attempt: u64, to: Destination },
    /// The payload is a piece of the stream.
    Data { stream: u32 },
    /// Ends the stream in both directions.
    End { stream: u32 },
}

/// From an agent to the driver.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum FromAgent {
    /// Sent once, before every other message.
    Greeting(Greeting),
    /// A sign of life.
    Alive,
    /// A request was carried out, or why not.
    Reply { request: u32, outcome: Result<Reply, String> },
    /// The payload is a piece of the file that `request` fetches; an empty piece ends it.
    Piece { request: u32 },
    /// A process exited; all of its log was sent before.
    Exited { attempt: u64, member: Member, exit: ProcessExit },
    /// The payload is what a process wrote to its standard error.
    Log { attempt: u64, member: Member },
    /// A sentence for the attempt's record.
    Note { attempt: u64, text: String },
    /// Bytes of a socket.
    Stream(StreamMessage),
}

/// Versions of an agent, facts about its host, and the addresses of its connection.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Greeting {
    pub(crate) version: String,
    pub(crate) protocol: u32,
    pub(crate) format: u64,
    pub(crate) facts: NodeFacts,
    pub(crate) free: FreeResources,
    /// The address at which the driver's connection arrived, and the driver's own; `None` where it came without a network.
    pub(crate) reached_at: Option<IpAddr>,
    pub(crate) driver_at: Option<IpAddr>,
    /// Folder of the cache.
    pub(crate) cache: PathBuf,
}

/// Result of a [`Request`] that was carried out.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Reply {
    Done,
    /// Nanoseconds of the host's monotonic clock.
    Clock(u64),
    Opened(Opened),
    /// Process id on the host.
    Started(u32),
    Host(Option<HostRecord>),
    Network(NetworkFacts),
    /// The shortest round trip, and the shortest time of each size.
    Probed {
        round_trip: Duration,
        transfers: Vec<Duration>,
    },
    /// SHA-256 of a data set as the driver computes it.
    Digest(String),
    /// The identity of a worker program ([`crate::WorkerBinary`]).
    Examined(String),
    /// Positions in the request's list, of the files that the cache lacks.
    Missing(Vec<usize>),
    /// Folder on the host that now has the request's files.
    Assembled(PathBuf),
}

/// An attempt on a host.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Opened {
    /// The directory of its sockets.
    pub(crate) sockets: PathBuf,
    pub(crate) directory: PathBuf,
    /// Where its door listens; `None` where no rank is on another host.
    pub(crate) door: Option<SocketAddr>,
}

impl From<StreamMessage> for ToAgent {
    fn from(message: StreamMessage) -> Self {
        Self::Stream(message)
    }
}

impl From<StreamMessage> for FromAgent {
    fn from(message: StreamMessage) -> Self {
        Self::Stream(message)
    }
}
