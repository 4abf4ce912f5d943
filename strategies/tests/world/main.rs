//! Strategies and collectives in simulated worlds.
#![expect(clippy::unwrap_used, reason = "in a test, a failure is a panic")]

mod codecs;
mod collectives;
mod emulation;
mod faults;
mod scene;
mod shapes;
mod sums;
mod synchronous;
mod times;
