//! Reports of an attempt while it runs.

use mesh::{Heartbeat, Member};
use record::{Event, Rank};

/// Report of an attempt to its caller while it runs.
#[derive(Clone, Debug, PartialEq)]
pub enum Update {
    /// A process was started.
    Spawned {
        /// The member that it is.
        member: Member,
        /// Its process id on its node.
        pid: u32,
    },
    /// Members reported events; those of one member are in its order.
    Events(Vec<Event>),
    /// A rank's current activity.
    Heartbeat(Rank, Heartbeat),
    /// The attempt entered a phase of its life.
    State(RunPhase),
    /// The run continues without a rank: from here on it is degraded.
    Lost {
        /// Rank without which the run continues.
        rank: Rank,
        /// Why, in a sentence.
        reason: String,
    },
    /// The run continues where an earlier attempt had consumed this number of samples; its events come next.
    Continued {
        /// Of all ranks together.
        samples: u64,
    },
    /// A sentence for the user.
    Note(String),
}

/// The phases in the life of an attempt, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RunPhase {
    /// Processes start, read data, make weights and connect.
    Starting,
    /// All ranks are prepared and train.
    Running,
    /// The ranks were asked to end early.
    Stopping,
    /// The ranks are gone; the evaluator works through the snapshots.
    Evaluating,
}
