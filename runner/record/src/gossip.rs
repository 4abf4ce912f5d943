//! Changes of the models of gossiping ranks.

use crate::{Nanos, Rank};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A change of a gossiping rank's model, or of its buffer of steps that are not in the model yet. With the batches, which
/// are known, these records suffice to replay a run bit for bit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GossipRecord {
    /// The rank whose model changed.
    pub rank: Rank,
    /// Number of the change on this rank, from 1.
    pub sequence: u64,
    /// Its time on the clock of the run.
    pub at: Nanos,
    /// Kind of the change, with the numbers that a replay needs.
    pub act: GossipAct,
}

/// A change of a gossiping rank's model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GossipAct {
    /// The compute lane read it, with the buffer applied, for this step.
    Read {
        /// From 1, as the rank counts them.
        step: u64,
    },
    /// The step is finished, and in the buffer.
    Added {
        /// From 1, as the rank counts them.
        step: u64,
        /// Samples that all ranks had consumed before it, as far as this one knew: its rate is the one at this count.
        samples: u64,
    },
    /// The buffer was applied to the model, and is empty.
    Flushed,
    /// A snapshot of the model, with the buffer applied, was taken for an evaluation.
    Kept {
        /// Samples that all ranks together had consumed.
        samples: u64,
    },
    /// The model became the mean of two.
    Averaged {
        /// The rank that it averages with.
        peer: Rank,
        /// Number of the averaging among those of the active rank, from 1.
        number: u64,
    },
}

/// Two ranks replaced their models by the mean of both. Recorded by the active rank, which asked for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AveragedRecord {
    /// The active rank, which asked for the averaging.
    pub rank: Rank,
    /// The rank that it asked.
    pub peer: Rank,
    /// Number of the averaging among those of the active rank, from 1.
    pub number: u64,
    /// When the active rank took the mean.
    pub at: Nanos,
}
