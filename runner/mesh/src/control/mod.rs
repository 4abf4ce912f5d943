//! The control plane: what driver and members say to each other.

mod client;
mod conversation;
mod hostile;
mod seats;
mod server;

pub use client::{ControlClient, ControlInbox};
pub use hostile::control_message;
pub use server::ControlServer;

use crate::MeshError;
use serde::Serialize;

fn encode(message: &impl Serialize) -> Result<Vec<u8>, MeshError> {
    rmp_serde::to_vec_named(message).map_err(|reason| MeshError::Encode { what: "control message", reason })
}
