//! Strategies and collectives in simulated worlds.
#![expect(clippy::unwrap_used, reason = "in a test, a failure is a panic")]

mod asynchronous;
mod codecs;
mod collectives;
mod elastic;
mod elastic_lost;
mod elastic_sync;
mod emulation;
mod faults;
mod hogwild;
mod local_sgd;
mod lost_workers;
mod pipe_sgd;
mod reference;
mod scene;
mod shapes;
mod sharding;
mod sums;
mod synchronous;
mod times;
