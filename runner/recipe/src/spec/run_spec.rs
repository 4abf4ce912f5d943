//! The specification of a run: a pure description, whose canonical form decides a run's identity. It has no facts of its
//! own about faults and links: files that know these are built on this one.

use crate::spec::hex::hex;
use crate::spec::measure::Measure;
use crate::spec::train::Epoch;
use crate::{
    Cluster, Communication, Compression, CustomCodec, Dataset, Emulation, Extent, Model, PlannedFault,
    Strategy, Threads, Training,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Everything that reaches the workers of a run, and so decides its numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunSpec {
    /// The model to train.
    pub model: Model,
    /// The data, and how the workers share it.
    pub dataset: Dataset,
    /// For how long and with which steps.
    pub train: Training,
    /// The machines, and the ranks on them.
    pub cluster: Cluster,
    /// How the ranks train together.
    pub strategy: Strategy,
    /// Collective, schedule of layers, order of sums and transport.
    pub communication: Communication,
    /// Codec of the vectors on the wire.
    pub compression: Compression,
    /// The codec of another crate, where `compression` is of that kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub custom_codec: Option<CustomCodec>,
    /// The measurements that are recorded beyond the totals.
    pub measure: Measure,
    /// The emulation of network and machine.
    #[serde(default, skip_serializing_if = "Emulation::is_none")]
    pub emulation: Emulation,
    /// Faults that are caused on purpose.
    // Absent where nothing does, so that earlier runs keep their identity.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<PlannedFault>,
    /// Who computes with how many threads.
    #[serde(default)]
    pub threads: Threads,
}

impl RunSpec {
    /// The canonical form: JSON with the fields in their declared order.
    pub fn canonical(&self) -> String {
        serde_json::to_string(self).unwrap_or_else(|error| unreachable!("a RunSpec is plain data: {error}"))
    }

    /// SHA-256 of the canonical form, in hexadecimal.
    pub fn config_hash(&self) -> String {
        hex(&Sha256::digest(self.canonical()))
    }

    /// Steps of the training; `None` where their number depends on data that has not been read.
    pub fn steps(&self) -> Option<u64> {
        match self.train.length {
            Extent::Steps(steps) => Some(steps),
            length @ Extent::Epochs(_) => {
                let batch = self.train.global_batch;
                Some(length.samples(self.training_samples()?, batch) / u64::from(batch).max(1))
            }
        }
    }

    /// Steps of one epoch; `None` likewise.
    pub fn steps_of_epoch(&self) -> Option<u64> {
        let training_samples = self.training_samples()?;
        Some(Epoch { training_samples, global_batch: self.train.global_batch }.steps())
    }

    /// Samples that are trained with.
    fn training_samples(&self) -> Option<u64> {
        Some(self.dataset.source.training_samples()?.saturating_sub(self.dataset.held_out()?))
    }
}
