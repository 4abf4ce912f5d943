//! Runs one attempt of one run on the processes of this machine, and looks after it.
//!
//! [`run`] starts a `bakeoff-worker` per rank, begins the run when all are prepared, forwards what they
//! report, and ends it: as planned, at its target, because a rank diverged, died, hung or failed, because
//! time is up, or because the user said so. Whatever happens, no process outlives the attempt.
//!
//! The decisions are the pure state machine in `supervise`; processes, sockets and clocks are at the rim.
//! This crate opens no database, draws nothing, and knows nothing of sweeps.

mod arithmetic;
mod attempt;
mod error;
mod exit;
mod log;
mod outcome;
mod preflight;
mod process;
#[cfg(test)]
mod sample;
mod sockets;
mod supervise;
mod surroundings;
mod worker_binary;

pub use attempt::{Attempt, RunPhase, StopSignal, Update, run};
pub use error::LaunchError;
pub use log::{last_lines, log_file, readable};
// Whoever launches speaks of these; what they travel on is nobody else's business.
pub use mesh::{Deadlines, Heartbeat, Member, PROTOCOL, wire_format};
pub use outcome::{End, Loss, Outcome, Place};
pub use preflight::{Concern, Machine, Severity, preflight};
pub use sockets::reap;
pub use surroundings::{NodeFacts, hardware, machine, node_facts};
pub use worker_binary::{WorkerBinary, examine, find_worker};
