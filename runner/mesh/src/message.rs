//! What driver and workers say to each other: closed sets of messages with a version.

use recipe::RunSpec;
use record::{Event, LaneId, Nanos, Phase, Rank, SnapshotRecord};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// The version of briefing, messages and frames; both sides must have the same.
pub const PROTOCOL: u32 = 2;

/// 256 random bits that all processes of one attempt share and nobody else knows.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Secret(pub [u8; 32]);

impl fmt::Debug for Secret {
    /// Never shows the bits: a briefing may end up in a log.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Secret(..)")
    }
}

/// A process of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Member {
    /// A rank.
    Rank(Rank),
    /// The process that evaluates snapshots.
    Evaluator,
}

impl fmt::Display for Member {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rank(rank) => write!(out, "rank {rank}"),
            Self::Evaluator => write!(out, "evaluator"),
        }
    }
}

/// Everything a worker process must know; it travels on its standard input, never on a command line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Briefing {
    /// [`PROTOCOL`] of the driver.
    pub protocol: u32,
    /// Who the process is.
    pub member: Member,
    /// What the run does.
    pub spec: RunSpec,
    /// Seed of everything random in the run.
    pub seed: u64,
    /// Proves that a peer belongs to this attempt.
    pub secret: Secret,
    /// Folder of the attempt's sockets, which only the user may enter.
    pub sockets: PathBuf,
    /// The attempt's directory: snapshots go to `snapshots/`.
    pub directory: PathBuf,
    /// Threads to compute with.
    pub threads: u32,
    /// How long to wait for what.
    pub deadlines: Deadlines,
}

/// How long to wait for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Deadlines {
    /// From spawn until every rank is prepared; and for each snapshot, until it is on disk, and from when it was handed
    /// to the evaluator until it is evaluated.
    pub start_up: Duration,
    /// For a message, credits or a connection of a peer while training.
    pub peer: Duration,
    /// Between two heartbeats; silence for ten times as long counts as hanging.
    pub heartbeat: Duration,
    /// For everything that happens on the way out.
    pub shut_down: Duration,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            start_up: Duration::from_mins(2),
            peer: Duration::from_mins(1),
            heartbeat: Duration::from_millis(500),
            shut_down: Duration::from_secs(5),
        }
    }
}

/// From the driver to a member.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ToMember {
    /// All ranks are prepared: the run begins.
    Start {
        /// The moment that is zero on the run's clock: nanoseconds of the driver host's monotonic clock.
        origin: u64,
    },
    /// Stop at the next step.
    Stop,
    /// Evaluate this snapshot (of the evaluator only).
    Evaluate(SnapshotRecord),
    /// Take these snapshots of one mark together, in this order (of the evaluator only).
    Average(Vec<SnapshotRecord>),
    /// Nothing more will come: say good-bye and leave.
    Leave,
}

/// From a member to the driver.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ToDriver {
    /// What happened, in order.
    Events(Vec<Event>),
    /// Still there.
    Heartbeat(Heartbeat),
    /// A snapshot was evaluated, or could not be; its metrics came as events before.
    Evaluated {
        /// The snapshot's file, of several that of the first.
        file: String,
        /// Why there are no metrics.
        failure: Option<String>,
    },
    /// Everything was said.
    Goodbye,
}

/// What a rank is doing right now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Heartbeat {
    /// The lane that stands for the rank: its compute lane, else its first.
    pub lane: LaneId,
    /// The step it is in.
    pub step: u64,
    /// The phase it is in.
    pub phase: Phase,
    /// Since when it has been in this step, on the clock of the run.
    pub since: Nanos,
    /// Samples consumed by all ranks together, as far as this rank knows.
    pub samples: u64,
    /// Its last loss.
    pub loss: Option<f32>,
}
