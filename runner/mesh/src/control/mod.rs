//! The control plane: what driver and members say to each other.

mod client;
mod server;

pub use client::{ControlClient, ControlInbox};
pub use server::ControlServer;
