//! Snapshots of models: whose they are, and how their run uses them.

use crate::{Nanos, Rank};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The file of the weights that no rank trains, where a model has such, in the run's directory: the same for all its snapshots.
pub const FROZEN: &str = "snapshots/frozen.f32";

/// A copy of a rank's model for the evaluator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SnapshotRecord {
    /// The rank that took it.
    pub rank: Rank,
    /// The model's name for people: `rank 0`, `server`.
    pub model: String,
    /// The rank's last step before it.
    pub step: u64,
    /// Samples consumed by all ranks together.
    pub samples: u64,
    /// When it was taken, on the clock of the run.
    pub at: Nanos,
    /// The file's name in the run's directory.
    pub file: String,
    /// Whether this is the model that the rank ends with.
    pub last: bool,
    /// The evaluation point that it is for: 0 for the initial model, then the number of the evaluation, and one more than
    /// the last for the final model. A rank that passes several points in one step takes one snapshot, at the last of them,
    /// which represents it at all of them; its final model represents it at every point that it did not reach.
    #[serde(default)]
    pub mark: u64,
    /// How the run uses the model.
    #[serde(default)]
    pub standing: Standing,
    /// The group that it is evaluated with, if any.
    #[serde(default, rename = "company")]
    pub group: Option<SnapshotGroup>,
    /// SHA-256 of the weights as little-endian 32-bit floats, in hexadecimal; empty if it was not computed.
    #[serde(default)]
    pub sha256: String,
    /// Whether it is the model that the rank's digest is of; false for the own model of a worker that also holds a centre.
    #[serde(default = "yes", rename = "answers")]
    pub digested: bool,
}

/// The value of a field in logs that were written before it existed.
fn yes() -> bool {
    true
}

impl SnapshotRecord {
    /// Whether the run ends with this model.
    pub fn is_result(&self) -> bool {
        self.last && self.standing == Standing::Judged
    }

    /// Whether its file is kept after the evaluation: one of the initial and one of the final models of a run.
    pub fn is_kept(&self) -> bool {
        let stands_for_mean = self.standing == Standing::Beside && self.group.is_some_and(|all| all.judged);
        self.is_result() || self.step == 0 && (self.standing == Standing::Judged || stands_for_mean)
    }
}

/// How a run uses a snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Standing {
    /// The run is judged by it.
    #[default]
    Judged,
    /// It is evaluated too; the run is judged by another.
    Beside,
    /// It is evaluated with its group only.
    Member,
}

/// The models that are evaluated together at an evaluation point: those of ranks 0 up to `size`. Their distance to their
/// uniform mean is always measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SnapshotGroup {
    /// Number of ranks in the group, counted from rank 0.
    pub size: u32,
    /// Whether the run is judged by their mean.
    pub judged: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Event logs of earlier versions are read again by `bakeoff db rebuild`.
    #[test]
    fn a_group_keeps_its_name_in_logs() {
        let record = SnapshotRecord {
            rank: Rank(1),
            model: "rank 1".into(),
            step: 3,
            samples: 30,
            at: Nanos(3),
            file: "snapshots/1-3".into(),
            last: false,
            mark: 1,
            standing: Standing::Member,
            group: Some(SnapshotGroup { size: 2, judged: true }),
            sha256: String::new(),
            digested: true,
        };
        let bytes = rmp_serde::to_vec_named(&record).unwrap();
        assert!(bytes.windows(7).any(|word| word == b"company"));
        assert_eq!(rmp_serde::from_slice::<SnapshotRecord>(&bytes).unwrap(), record);
    }
}
