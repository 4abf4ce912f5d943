//! The transports of this crate keep the contract of transports.
#![expect(clippy::unwrap_used, reason = "what fails here is a test")]

#[path = "../contract/mod.rs"]
mod contract;
mod in_process;
mod simulated;
