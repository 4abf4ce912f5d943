//! How an attempt ended.

use record::{LaneId, Nanos, Phase, Rank};
use std::time::Duration;

/// How an attempt ended, with what a person needs to understand it.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// How.
    pub end: End,
    /// From the first spawn to the end of the last process, evaluation included, by the wall.
    pub wall: Nanos,
    /// The rank to blame, where there is one.
    pub culprit: Option<Rank>,
    /// One sentence: rank, step, phase, lane and cause; empty for a run that is done and lost no rank.
    pub detail: String,
    /// The ranks without which the run went on, in this order.
    pub losses: Vec<Loss>,
    /// The last lines of the culprit's log, or of those of the ranks that were lost.
    pub last_lines: Vec<String>,
}

/// A rank without which a run went on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// Which.
    pub rank: Rank,
    /// The step of it that did not come, or in which it was last seen; 0 where neither is known.
    pub step: u64,
    /// When it was missed, on the clock of the run.
    pub at: Nanos,
    /// Why, in a sentence.
    pub reason: String,
}

/// The ways in which an attempt ends.
#[derive(Clone, Debug, PartialEq)]
pub enum End {
    /// All ranks that were not lost finished, and all snapshots were evaluated.
    Done,
    /// The run was ended because it reached its target.
    TargetReached {
        /// When the model that reached it was set aside, on the clock of the run.
        at: Nanos,
        /// What was measured on it.
        value: f64,
    },
    /// A loss or weights stopped being finite: a result, not a fault.
    Diverged {
        /// Which rank noticed.
        rank: Rank,
        /// In which step.
        step: u64,
        /// The loss, as text.
        loss: String,
    },
    /// It could not go on.
    Failed {
        /// Where the culprit was, as far as it is known.
        place: Option<Place>,
        /// Why, without rank and place.
        cause: String,
    },
    /// It took longer than it may.
    TimedOut {
        /// What it may take, by the wall.
        limit: Duration,
    },
    /// The user stopped it.
    Interrupted {
        /// The last step that every rank finished, as far as it is known.
        step: u64,
    },
}

/// Where a rank was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// On which lane.
    pub lane: LaneId,
    /// In which step of the lane.
    pub step: u64,
    /// In which phase.
    pub phase: Phase,
}
