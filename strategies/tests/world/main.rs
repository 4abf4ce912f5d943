//! Strategies and collectives in simulated worlds.
#![expect(clippy::unwrap_used, reason = "in a test, a failure is a panic")]

mod asynchronous;
mod codecs;
mod coded_sums;
mod collectives;
mod elastic;
mod elastic_lost;
mod elastic_pull;
mod elastic_replay;
mod elastic_sync;
mod emulation;
mod faults;
mod gossip;
mod gradient_range;
mod hogwild;
mod interleavings;
mod local_sgd;
mod lost_workers;
mod narrow;
mod orders;
mod overlap;
mod pairs;
mod pairs_lost;
mod phases;
mod pipe_sgd;
mod plan;
mod projections;
mod reference;
mod scene;
mod serving;
mod shapes;
mod sharding;
mod sums;
mod synchronous;
mod times;
