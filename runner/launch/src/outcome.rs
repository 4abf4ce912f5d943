//! How an attempt ended.

use record::{LaneId, Nanos, Phase, Rank};
use std::time::Duration;

/// How an attempt ended, with the details that a person needs.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The kind of its end.
    pub end: End,
    /// Wall time from the first spawn to the exit of the last process, evaluation included.
    pub wall: Nanos,
    /// The rank to blame, where there is one.
    pub culprit: Option<Rank>,
    /// One sentence: rank, step, phase, lane and cause; empty for a run that is done and lost no rank.
    pub detail: String,
    /// The ranks that the run lost and continued without, in the order of their loss.
    pub lost_ranks: Vec<LostRank>,
    /// Whether every rank that it lost or failed by is one that its recipe let fail.
    pub as_ordered: bool,
    /// The last lines of the culprit's log, or of the logs of the lost ranks.
    pub last_lines: Vec<String>,
}

/// A rank that a run lost and continued without.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostRank {
    /// Rank that the run continued without.
    pub rank: Rank,
    /// Its first step that a peer missed, else the step in which it was last seen; 0 if neither is known.
    pub step: u64,
    /// When a peer missed it, on the clock of the run.
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
        /// When the snapshot that reached it was taken, on the clock of the run.
        at: Nanos,
        /// Its value of the target's metric.
        value: f64,
    },
    /// A loss or weights stopped being finite: a result, not a fault.
    Diverged {
        /// The first rank that noticed.
        rank: Rank,
        /// The step of that rank.
        step: u64,
        /// The loss, as text.
        loss: String,
    },
    /// It could not continue.
    Failed {
        /// Where the culprit was, as far as it is known.
        place: Option<Whereabouts>,
        /// Why, without rank and place.
        cause: String,
        /// Whether another attempt may do better.
        origin: FaultOrigin,
    },
    /// It took longer than it may.
    TimedOut {
        /// The limit of its wall time.
        limit: Duration,
    },
    /// The user stopped it.
    Interrupted {
        /// The last step that every rank finished, as far as it is known.
        step: u64,
    },
}

impl End {
    /// Whether the run has its result.
    pub fn is_result(&self) -> bool {
        match self {
            Self::Done | Self::TargetReached { .. } | Self::Diverged { .. } => true,
            Self::Failed { .. } | Self::TimedOut { .. } | Self::Interrupted { .. } => false,
        }
    }
}

/// Where a fault comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultOrigin {
    /// A machine, a connection, or the system that killed a process: another attempt may do better.
    Infrastructure,
    /// The recipe let a rank fail that the strategy cannot do without: another attempt would end alike, as it should.
    Recipe,
    /// The worker program itself said why, or failed, or this machine lacks something: another attempt would fail alike.
    Program,
}

/// A rank's last known activity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Whereabouts {
    /// The lane that ended or that stands for the rank.
    pub lane: LaneId,
    /// From 1; 0 before the first.
    pub step: u64,
    /// The phase that the lane is in, or failed in.
    pub phase: Phase,
}
