//! One attempt of one run: the thin shell around the supervisor.

use crate::{LaunchError, Outcome};
use mesh::{Deadlines, Heartbeat, Member};
use recipe::RunSpec;
use record::{Event, Rank};
use std::path::PathBuf;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// What to run, and within which limits.
#[derive(Clone, Debug)]
pub struct Attempt<'a> {
    /// What the run does.
    pub spec: &'a RunSpec,
    /// Seed of everything random in it.
    pub seed: u64,
    /// The attempt's own directory: made if it is not there; logs and snapshots go into it.
    pub directory: PathBuf,
    /// The worker binary.
    pub worker: PathBuf,
    /// How long to wait for what.
    pub deadlines: Deadlines,
    /// How long the attempt may take, by the wall.
    pub timeout: Option<Duration>,
    /// Cores that the attempt may use.
    pub cores: u32,
}

/// How the user ends an attempt early. Clones share their state.
#[derive(Clone, Debug, Default)]
pub struct StopSignal {
    /// Stop at the next step.
    pub at_next_step: CancellationToken,
    /// Kill everything.
    pub now: CancellationToken,
}

/// What is told while an attempt runs.
#[derive(Clone, Debug, PartialEq)]
pub enum Update {
    /// A process was started.
    Spawned {
        /// Whose.
        member: Member,
        /// Its process id.
        pid: u32,
    },
    /// Members reported events; those of one member come in their order.
    Events(Vec<Event>),
    /// What a rank is doing.
    Heartbeat(Rank, Heartbeat),
    /// The attempt entered a phase of its life.
    State(RunPhase),
    /// Something that a user may want to know, in a sentence.
    Note(String),
}

/// The phases in the life of an attempt, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RunPhase {
    /// Processes start, read data, make weights, meet.
    Starting,
    /// The ranks train.
    Running,
    /// The ranks were told to end early.
    Stopping,
    /// The ranks are gone; the evaluator works through the snapshots.
    Evaluating,
}

/// Runs one attempt and answers how it ended. Everything it reports goes to `updates`; no process that it
/// started is left when it returns, nor when its future is dropped, nor when this process is killed.
///
/// # Errors
/// What keeps an attempt from being made at all; a run that fails is an [`Outcome`].
pub async fn run(
    attempt: Attempt<'_>,
    stop: StopSignal,
    updates: mpsc::Sender<Update>,
) -> Result<Outcome, LaunchError> {
    let _ = (attempt, stop, updates);
    Err(LaunchError::Unrecorded)
}
