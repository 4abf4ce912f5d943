//! Runs and supervises one attempt of one run.
//!
//! [`run`] starts a `bakeoff-worker` per rank, begins the run when all are prepared, forwards their reports, and ends it:
//! as planned, at its target, because a rank diverged, died, hung or failed, because time is up, or because the user
//! stopped it. No process outlives the attempt.
//!
//! The decisions are made by the pure state machine in `supervise`. [`Launcher`] and [`Artifacts`] are the seam to the
//! machines, and [`LocalLauncher`] is the driver's own. This crate opens no database, prints nothing, and does not know
//! sweeps.

mod agent;
mod attempt;
mod cache;
mod channel;
mod checkpoints;
mod data_files;
mod digest;
mod error;
mod inventory;
mod launcher;
mod local;
mod log;
mod model_description;
mod model_files;
mod node_facts;
mod order;
mod outcome;
mod preflight;
mod process_exit;
mod reading_schedule;
mod remote;
#[cfg(test)]
mod sample;
mod sockets;
mod supervise;
mod update;
mod worker_binary;

pub use agent::serve as serve_agent;
pub use attempt::{run, run_on, run_on_hosts};
pub use checkpoints::{Continuation, SavedCheckpoint};
pub use data_files::{DataFilesError, digest as data_digest};
pub use error::LaunchError;
pub use launcher::{
    Artifact, Artifacts, Fetch, Launcher, NodeIndex, NodePlace, NodeReport, Opening, SpawnRequest,
};
pub use local::{ForkServers, Interface, LocalLauncher, LocalNodes, NetworkFacts, free_resources};
pub use log::{last_lines, log_file, readable};
pub use model_description::{DescriptionError, describe_model};
pub use model_files::check_model_files;
// Part of this crate's interface; what they travel on is not.
pub use inventory::{check_inventory, needs_custom};
pub use mesh::{Deadlines, Heartbeat, Inventory, Member, PROTOCOL, wire_format};
pub use node_facts::{NodeFacts, Nodes, hardware};
pub use order::{Attempt, StopSignal};
pub use outcome::{End, FaultOrigin, LostRank, Outcome, Whereabouts};
pub use preflight::{Concern, ConcernLevel, Free, FreeResources, kept_files, preflight};
pub use process_exit::ProcessExit;
pub use remote::{
    HostError, HostFault, HostState, Hosts, Inspect, Sent, Upload, WallClock, Way, WayState, needs_hosts,
};
pub use sockets::reap;
pub use update::{RunPhase, Update};
pub use worker_binary::{WorkerBinary, examine, examine_for, find_worker};
