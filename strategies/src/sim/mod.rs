//! A deterministic world for strategies: one lane at a time, virtual time, seeded interleavings.
//!
//! Each lane is a coroutine. The scheduler takes the next event in virtual time; ties are broken by the seed,
//! and a seeded jitter on the cost of work moves what would otherwise always come in the same order: ties
//! alone explore nothing once times differ. A world in which nothing can happen any more, while lanes still
//! wait, is a deadlock, and is reported with what each lane waits for.
//!
//! Nothing in this crate may keep state in a thread-local: all lanes share one thread here.

mod aftermath;
mod blocked;
mod choices;
mod cost;
mod fault;
mod kernel;
mod lanes;
mod outcome;
mod runtime;
mod world;

pub use crate::emulation::Link;
pub use aftermath::{Aftermath, Ending, LaneEnd};
pub use blocked::Blocked;
pub use choices::Choices;
pub use cost::Costs;
pub use fault::{Fault, Faults};
pub use outcome::{RankOutcome, WorldError, WorldOutcome};
pub use world::World;

use recipe::{RunSpec, Strategy};

/// A run of D-Sync on `workers` workers and built-in data, to change for a test: the model is a placeholder,
/// because a simulated world brings learners of its own.
pub fn sample_spec(workers: u32) -> RunSpec {
    hashed(RunSpec::sample(workers))
}

/// The same run by another strategy: with the servers it needs.
pub fn sample_spec_of(strategy: Strategy, workers: u32) -> RunSpec {
    hashed(RunSpec::sample_of(strategy, workers))
}

/// Tests compare the weights of all ranks after every step.
fn hashed(mut spec: RunSpec) -> RunSpec {
    spec.measure.hash_every_step = true;
    spec
}
