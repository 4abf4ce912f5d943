//! The messages between driver and workers.

use recipe::RunSpec;
use record::{Event, LaneId, Nanos, Phase, Rank, SnapshotRecord};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// The version of briefing, messages and frames; both sides must have the same.
pub const PROTOCOL: u32 = 5;

/// 256 random bits that only the processes of one attempt know.
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
    /// A worker or a server.
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

/// Everything that a worker process needs to know. It is written to its standard input, never to a command line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Briefing {
    /// [`PROTOCOL`] of the driver.
    pub protocol: u32,
    /// The member that the process is.
    pub member: Member,
    /// Specification of the run that the process takes part in.
    pub spec: RunSpec,
    /// Seed of everything random in the run.
    pub seed: u64,
    /// Shared by the attempt's processes; the handshake proves that a peer knows it.
    pub secret: Secret,
    /// Folder of the attempt's sockets, which only the user may enter.
    pub sockets: PathBuf,
    /// The attempt's directory: snapshots go to `snapshots/`.
    pub directory: PathBuf,
    /// Threads to compute with.
    pub threads: u32,
    /// Time limits of waits, with the slowness and pauses that the recipe asks for.
    pub deadlines: Deadlines,
    /// Folder of the checkpoint from which the run is continued: `rank-N.state` for each rank.
    pub resume: Option<PathBuf>,
}

/// Time limits of the waits of an attempt's processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Deadlines {
    /// From spawn until every rank is prepared; for each snapshot until it is on disk, and then until the evaluator has
    /// evaluated it.
    pub start_up: Duration,
    /// For a message, credits or a connection of a peer while training.
    pub peer: Duration,
    /// Between two heartbeats; silence for ten times as long counts as hanging.
    pub heartbeat: Duration,
    /// For each part of shutting down.
    pub shut_down: Duration,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            start_up: Duration::from_mins(2),
            peer: recipe::LONGEST_WAIT,
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
        /// The moment that is zero on the run's clock: nanoseconds of the member's monotonic clock, which begins with its
        /// machine; a run that continues may have begun before.
        origin: i64,
    },
    /// Stop at the next step.
    Stop,
    /// Evaluate this snapshot (to the evaluator only).
    Evaluate(SnapshotRecord),
    /// Average these snapshots of one evaluation point, in this order (to the evaluator only).
    Average(Vec<SnapshotRecord>),
    /// No more messages will come: say goodbye and exit.
    Leave,
}

impl ToMember {
    /// The snapshots that the message is about.
    pub fn snapshots(&self) -> &[SnapshotRecord] {
        match self {
            Self::Evaluate(snapshot) => std::slice::from_ref(snapshot),
            Self::Average(snapshots) => snapshots,
            Self::Start { .. } | Self::Stop | Self::Leave => &[],
        }
    }
}

/// From a member to the driver.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ToDriver {
    /// Events of the member, in its order.
    Events(Vec<Event>),
    /// A sign of life.
    Heartbeat(Heartbeat),
    /// A snapshot was evaluated, or could not be; its metrics were sent as events before.
    Evaluated {
        /// The snapshot's file; of averaged snapshots the first one's.
        file: String,
        /// Why there are no metrics, if there are none.
        failure: Option<String>,
    },
    /// The last message of a member, which then leaves.
    Goodbye,
}

/// A rank's current activity.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Heartbeat {
    /// The lane that stands for the rank: its compute lane, else its first.
    pub lane: LaneId,
    /// The lane's current step.
    pub step: u64,
    /// The lane's current phase.
    pub phase: Phase,
    /// When the step began, on the clock of the run.
    pub since: Nanos,
    /// Samples consumed by all ranks together, as far as this rank knows.
    pub samples: u64,
    /// Its last training loss.
    pub loss: Option<f32>,
}
