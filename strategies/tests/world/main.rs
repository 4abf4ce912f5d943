//! Strategies and collectives in simulated worlds.
#![expect(clippy::unwrap_used, reason = "in a test, a failure is a panic")]

mod collectives;
mod emulation;
mod faults;
mod scene;
mod shapes;
mod synchronous;
