//! The control plane: messages between the driver and the members.

mod client;
mod conversation;
mod fuzz_targets;
mod server;
mod sessions;

pub use client::{ControlClient, ControlInbox};
pub use fuzz_targets::control_message;
pub use server::ControlServer;

use crate::MeshError;
use serde::Serialize;

fn encode(message: &impl Serialize) -> Result<Vec<u8>, MeshError> {
    rmp_serde::to_vec_named(message).map_err(|reason| MeshError::Encode { what: "control message", reason })
}
