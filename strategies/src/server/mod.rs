//! Parameter servers: how weights are divided among them, and the protocols between workers and servers.
//!
//! A server that replies to each worker as it comes has a lane for each worker, and one that snapshots the model. How a
//! gradient changes the weights is up to the algorithm; which worker may continue, how stale a gradient was and when
//! training ends is decided here.

pub(crate) mod adder;
mod applied;
mod bucket_lanes;
mod client;
mod elastic_client;
mod exchange_lane;
mod push_pull;
mod round_robin;
mod shards;
mod snapshot_lane;
mod state;
mod worker_clocks;

pub use adder::{Adder, AdderScope};
pub use applied::Applied;
pub use bucket_lanes::{ReceivingLane, SendingLane, SentBuckets};
pub use client::{Client, Push};
pub use elastic_client::{Arrival, Elastic, ElasticClient, Grant, Visit, pulled, pulled_centre};
pub use exchange_lane::{CentrePart, Exchange, ExchangeLane, Exchanges};
pub use round_robin::RoundRobin;
pub use shards::Shards;
pub use snapshot_lane::SnapshotLane;
pub use state::{Centre, ServerState};
pub use worker_clocks::{TrainingEnd, WorkerClocks};
