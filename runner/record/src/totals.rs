//! Records of a whole run, which a rank makes at its end.

use crate::{LaneId, Nanos, Rank};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One rank's traffic to another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LinkRecord {
    /// The rank that sent.
    pub from: Rank,
    /// The rank that received.
    pub to: Rank,
    /// Payload bytes as sent, encoded.
    pub bytes: u64,
    /// Each announcement with its chunks counts once.
    pub messages: u64,
}

/// A worker's use of memory and time. Bytes are those that its learner and compute lane held, not counts by a formula.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UsageRecord {
    /// The rank that recorded it.
    pub rank: Rank,
    /// Bytes of the weights that it trains.
    pub weights: u64,
    /// Bytes of memory that it keeps for gradients.
    pub gradients: u64,
    /// Bytes of what its optimizer remembers.
    pub optimizer: u64,
    /// The most bytes that its forward passes kept for the backward pass; of a layer that libtorch records, what goes in and what comes
    /// out. 0 for a learner that does not know.
    pub activations: u64,
    /// Steps of this attempt.
    pub steps: u64,
    /// Communication and waiting of its compute lane in exchanges of activations and their gradients, in all these steps.
    pub exchanging: Nanos,
}

/// A lane's savings and losses by compression over the whole run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CodingRecord {
    /// The rank that recorded it.
    pub rank: Rank,
    /// The lane that recorded it.
    pub lane: LaneId,
    /// Payload bytes as sent, encoded.
    pub bytes: u64,
    /// The same as 32-bit floats.
    pub raw_bytes: u64,
    /// Squared length of all vectors that were encoded in the steps which keep their spans.
    pub squared: f64,
    /// Squared length of their encoding errors. The relative error of the run is the square root of this sum over all lanes
    /// divided by the other.
    pub squared_error: f64,
}

/// A rank's cost of recording.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Overhead {
    /// The rank that recorded it.
    pub rank: Rank,
    /// Processor time of recording: phase switches, and the threads that send the records.
    pub recording: Nanos,
    /// The time from the start of the run to the end of the last step, measured by a separate clock.
    pub wall: Nanos,
    /// Resident memory of its process at the end, in bytes; 0 if the system does not say.
    #[serde(default)]
    pub resident_bytes: u64,
}

/// The accuracy of a rank's emulation: how late the emulated effects were.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EmulationRecord {
    /// The rank that recorded it.
    pub rank: Rank,
    /// The part of the emulation whose lateness this is.
    pub what: Emulated,
    /// Number of delayed messages, or of pieces of work.
    pub count: u64,
    /// Median of their lateness.
    pub p50: Nanos,
    /// 95th percentile of their lateness.
    pub p95: Nanos,
    /// Maximum of their lateness.
    pub max: Nanos,
    /// Number of steps that computed; 0 for a network.
    pub steps: u64,
    /// Number of these whose real arithmetic took longer than the stated time.
    pub overruns: u64,
    /// The longest such excess.
    pub longest: Nanos,
}

/// A part of the emulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Emulated {
    /// The network card, which delays messages.
    Network,
    /// The time of computing.
    Compute,
}

impl Emulated {
    /// The name in the database and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Network => "network",
            Self::Compute => "compute",
        }
    }
}
