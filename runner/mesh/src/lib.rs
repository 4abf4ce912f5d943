//! The communication between the processes of one attempt, and the only crate that knows ZeroMQ.
//!
//! - [`ForkRequest`]: the driver starts a worker process as a fork of one that was loaded before ([`serve_forks`]).
//! - [`Briefing`]: the driver writes it to a worker's standard input ([`write_briefing`], [`read_briefing`]).
//! - The control plane: [`ControlServer`] in the driver, [`ControlClient`] in each member. Every message is
//!   authenticated, numbered and acknowledged, so that no event is lost unnoticed.
//! - The data plane: [`DataPlane`] in each rank, which implements [`strategies::Transport`].

mod allocator;
mod briefing;
mod control;
mod data;
mod directory;
pub mod door;
mod error;
mod fork;
mod handshake;
mod inventory;
mod message;
mod relayed;
mod shared_memory;
mod socket;
mod socket_buffers;
mod thread;
mod timer;
mod unproven;
mod wire_format;

pub use allocator::{keep_freed_memory, release_freed_memory};
pub use briefing::{read_briefing, write_briefing};
pub use control::{ControlClient, ControlInbox, ControlServer};
pub use data::{DataPlane, LinkDropper, Stopper};
pub use directory::{private_directory, private_directory_in, random_secret};
pub use error::MeshError;
pub use fork::{FORK_SERVER, ForkExit, ForkReply, ForkRequest, Forked, INTRODUCE, fork_sockets, serve_forks};
pub use inventory::Inventory;
pub use message::{Briefing, Deadlines, Heartbeat, Member, PROTOCOL, Secret, ToDriver, ToMember};

/// Decoders without a socket, for fuzzing only.
pub mod fuzz_targets {
    pub use crate::control::control_message;
    pub use crate::data::data_frames;
}
pub use relayed::RelayedTcp;
pub use socket_buffers::size_send_buffer;
pub use timer::PreciseTimer;
pub use wire_format::wire_format;
