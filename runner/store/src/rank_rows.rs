//! The rows of one rank of an attempt: its end, its times, and what it used.

use recipe::Role;
use record::{LaneId, Nanos, Phase, Rank};
use serde::{Deserialize, Serialize};

/// One rank of an attempt.
#[derive(Clone, Debug, Serialize)]
pub struct RankRow {
    /// From 0, workers first.
    pub rank: Rank,
    /// Worker or server.
    pub role: Role,
    /// Index of its machine in [`SweepRows::nodes`](crate::SweepRows::nodes).
    pub node: u32,
    /// Number of threads of its tensor library.
    pub threads: u32,
    /// Its end, in words.
    pub end: String,
    /// Resident memory after loading data and weights, in bytes.
    pub resident_bytes: u64,
    /// Number of the set of ranks that must end with the same weights; `None` where its weights are its own, and in runs recorded before
    /// it was kept.
    pub replica_group: Option<u32>,
    /// Memory and time by purpose; `None` for servers and in runs recorded before this was kept.
    pub usage: Option<UsageRow>,
    /// Processor time of recording divided by wall time.
    pub recording_share: Option<f64>,
    /// Time of its lanes by phase, in steady steps only.
    pub phases: Vec<PhaseRow>,
    /// Exposed communication, summed over the compute lane's steady steps.
    pub exposed: Nanos,
    /// Hidden communication of the rank's other lanes, summed over the same steps.
    pub hidden: Nanos,
    /// The compute lane's steady steps.
    pub steady: Steady,
    /// Comparison with the other workers; `None` for servers, without steady steps, and in runs recorded before paces
    /// were kept.
    pub pace: Option<PaceRow>,
    /// Encoded bytes sent by all lanes.
    pub bytes_out: u64,
    /// Encoded bytes received by all lanes.
    pub bytes_in: u64,
}

/// Memory and time of a worker by purpose. Sizes are measured, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageRow {
    /// Weights that it trained.
    pub weights: u64,
    /// Memory that it kept for gradients.
    pub gradients: u64,
    /// State that its optimizer kept.
    pub optimizer: u64,
    /// The most that its forward passes kept for the backward pass.
    pub activations: u64,
    /// Resident memory of its process at the end, if that is known.
    pub resident: Option<u64>,
    /// Communication and waiting in exchanges of activations and their gradients, in all steps.
    pub exchanging: Nanos,
    /// Number of these steps.
    pub steps: u64,
}

/// The steady steps of a lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Steady {
    /// Sum of their lengths.
    pub time: Nanos,
    /// Steps that the times are of.
    pub steps: u64,
}

/// Comparison of a worker with the others, in steady steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaceRow {
    /// Median per step of the time in which its compute lane did not wait.
    pub own: Nanos,
    /// Number of rounds in which it was the last one, with the largest such time.
    pub last: u64,
    /// Waiting time of the others that it caused in these, added up.
    pub imposed: Nanos,
}

/// Time of one lane in one phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PhaseRow {
    /// Lane of the rank.
    pub lane: LaneId,
    /// Phase of the lane.
    pub phase: Phase,
    /// Number of steps in which it occurred.
    pub count: u64,
    /// Sum over these steps.
    pub total: Nanos,
    /// Median per step, over the steps in which it occurred.
    pub p50: Nanos,
    /// 95th percentile per step.
    pub p95: Nanos,
    /// Longest in a step.
    pub max: Nanos,
}
