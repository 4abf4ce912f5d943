//! What happens to the models of ranks that gossip.

use crate::{Nanos, Rank};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Something that happened to the model of a rank without a centre, or to the buffer of steps that are not in it yet.
/// With the batches, which are known, a run is replayed from these to equal bits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GossipRecord {
    /// Whose model.
    pub rank: Rank,
    /// The order on this rank, from 1.
    pub sequence: u64,
    /// When.
    pub at: Nanos,
    /// What.
    pub act: GossipAct,
}

/// What happened to a gossiping rank's model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GossipAct {
    /// The compute lane read it, with the buffer applied, for this step.
    Read {
        /// The rank's step.
        step: u64,
    },
    /// The step is finished, and in the buffer.
    Added {
        /// The rank's step.
        step: u64,
        /// Samples that all ranks had consumed before it, as far as this one knew: its rate is the one at this count.
        samples: u64,
    },
    /// The buffer was applied to the model, and is empty.
    Flushed,
    /// The model, with the buffer applied, was put aside for an evaluation.
    Kept {
        /// Samples that all ranks together had consumed.
        samples: u64,
    },
    /// The model became the mean of two.
    Averaged {
        /// The other one's rank.
        peer: Rank,
        /// Which averaging of the active rank of the two, from 1.
        number: u64,
    },
}

/// Two ranks replaced their models by the mean of both. Only the rank that asked for it, the active one, tells.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AveragedRecord {
    /// The active rank.
    pub rank: Rank,
    /// The rank that it asked.
    pub peer: Rank,
    /// Number of the averaging among those of the active rank, from 1.
    pub number: u64,
    /// When the active rank took the mean.
    pub at: Nanos,
}
