//! Distributed training on one rank: strategies, collectives, codecs, and a simulator to run them in.
//!
//! No tensor library, no sockets, no threads: a strategy is straight-line code against a [`WorkerContext`], and the same
//! file runs in real processes, in tests, and in the simulator.
//!
//! The crate is also the API for strategies of other crates: the files of [`algorithm`] use its public members only. [`sim`]
//! and [`toy`] are the test kit, and a [`Registry`] makes such a strategy known to a `bakeoff-worker`.

pub mod algorithm;
mod all_reduce;
mod arithmetic;
mod blueprint;
pub mod buffers;
pub mod collective;
mod comm_lane;
pub mod compress;
pub mod emulation;
mod error;
pub mod gossip;
mod group;
mod handoff;
pub mod in_process;
mod lane;
mod lane_loops;
mod learner;
pub mod matrices;
mod message;
pub mod model_parallel;
mod optimizer;
pub mod plan;
pub mod projection;
pub mod rng;
mod runtime;
pub mod schedule;
pub mod server;
mod service_context;
pub mod sim;
pub mod state;
mod step_recorder;
mod strategy;
pub mod toy;
mod transport;
pub mod vector;
mod wire;
mod worker_context;

pub use all_reduce::{AllReduce, CommQueue, ReduceJob, Reduced};
pub use blueprint::registry::{
    CustomRank, CustomSettings, CustomStrategy, NewCodec, Registry, codec_setting,
};
pub use blueprint::{Blueprint, Body, LaneBody, RankSetup, panic_text};
pub use comm_lane::CommLane;
pub use error::{StepError, Wanted};
pub use group::{Group, GroupRank};
pub use handoff::{Handoff, Pending, Request, Ticket};
pub use lane::{Coding, Lane, Traffic};
pub use learner::{Batch, Learner};
pub use message::{Fields, Message, malformed};
pub use optimizer::Optimizer;
pub use plan::{Progress, SamplePartition, TrainingPlan};
pub use record::Rank;
pub use runtime::{Bell, Checkpoint, Gate, Observer, Runtime, Shared};
pub use service_context::{RankInfo, ServiceContext};
pub use state::{State, StateError, StateVisitor};
pub use strategy::{Evaluated, Roles, Service, ServiceStep, Trainer};
pub use transport::{Envelope, Kind, Packet, Senders, Tag, Transport};
pub use vector::{Block, Layout, LayoutLayer, Vector};
pub use wire::Wire;
pub use worker_context::{Averaging, LayerGradient, Travelling, WorkerContext};

/// A mean training loss, in nats per sample.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Loss(pub f32);
