//! The channel between the driver and the agent of a host: messages over the agent's standard input and output, which reach
//! it through `ssh`, through `srun`, or directly.
//!
//! A frame is two lengths (u32, little endian), a message in MessagePack and a payload of plain bytes. One channel carries
//! everything of a host: requests and replies, logs, files, and the byte streams of sockets.

mod frame;
mod message;
mod patient;
mod streams;

pub(crate) use frame::{Frame, Outlet, Urgency, outlet, read_frame};
pub(crate) use message::{
    CachedFile, Destination, FromAgent, Greeting, Opened, Reply, Request, Route, StreamMessage, ToAgent,
};
pub(crate) use patient::Patient;
pub(crate) use streams::{Opener, Streams, urgency};

use std::time::Duration;

/// How often either side sends a sign of life.
pub(crate) const SIGN_OF_LIFE: Duration = Duration::from_secs(2);
/// Silence, without a single byte, after which the other side counts as lost. An agent then ends its ranks.
pub(crate) const LEASE: Duration = Duration::from_secs(15);
/// The bytes of a file or stream that travel in one frame.
pub(crate) const PIECE: usize = 128 << 10;
