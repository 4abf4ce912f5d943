//! Everything that processes of one attempt say to each other, and the only crate that knows ZeroMQ.
//!
//! - [`Briefing`]: what the driver hands a worker on its standard input ([`write_briefing`], [`read_briefing`]).
//! - The control plane: [`ControlServer`] in the driver, [`ControlClient`] in each member. Every message is
//!   authenticated, numbered and acknowledged, so that no event is lost silently.
//! - The data plane: [`DataPlane`] in each rank, which implements [`strategies::Transport`].

mod briefing;
mod control;
mod data;
mod directory;
mod error;
mod handshake;
mod memory;
mod message;
mod reception;
mod socket;
mod thread;
mod timer;
mod wire_format;

pub use briefing::{read_briefing, write_briefing};
pub use control::{ControlClient, ControlInbox, ControlServer};
pub use data::{DataPlane, Stopper};
pub use directory::{private_directory, random_secret};
pub use error::MeshError;
pub use memory::keep_freed_memory;
pub use message::{Briefing, Deadlines, Heartbeat, Member, PROTOCOL, Secret, ToDriver, ToMember};

/// What bytes lead to that no member of an attempt sent: for fuzzing, and of no other use.
pub mod hostile {
    pub use crate::control::control_message;
    pub use crate::data::data_frames;
}
pub use timer::PreciseTimer;
pub use wire_format::wire_format;
