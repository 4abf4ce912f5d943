//! Models that are put aside: whose they are, and what they are to their run.

use crate::event::yes;
use crate::{Nanos, Rank};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A copy of the model, on its way to the evaluator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SnapshotRecord {
    /// Whose event this is.
    pub rank: Rank,
    /// Which model it is, in words: `rank 0`, `server`.
    pub model: String,
    /// After which step.
    pub step: u64,
    /// Samples consumed by all ranks together.
    pub samples: u64,
    /// When the copy was made, on the clock of the run.
    pub at: Nanos,
    /// The file's name in the run's directory.
    pub file: String,
    /// Whether this is the model that the rank ends with.
    pub last: bool,
    /// The mark at which it is due: 0 for the initial model, then the number of the evaluation, one more than the
    /// last of them for the final model. A rank that passes several marks in one step makes one copy, at the last
    /// of them, which stands for all of them; and its final model stands for every mark that it did not reach.
    #[serde(default)]
    pub mark: u64,
    /// What the model is to its run.
    #[serde(default)]
    pub standing: Standing,
    /// The models that are taken together with it, if any.
    #[serde(default)]
    pub company: Option<Company>,
    /// SHA-256 of the weights as little-endian 32-bit floats, in hexadecimal; empty where it was not told.
    #[serde(default)]
    pub sha256: String,
    /// Whether the rank answers for it, and its digest is the rank's: not so the own model of a worker that holds a
    /// centre, too.
    #[serde(default = "yes")]
    pub answers: bool,
}

impl SnapshotRecord {
    /// Whether the run ends with this model.
    pub fn is_result(&self) -> bool {
        self.last && self.standing == Standing::Judged
    }

    /// Whether its file is kept after it has served: of the models that a run begins and ends with, one each.
    pub fn is_kept(&self) -> bool {
        let stands_for_mean = self.standing == Standing::Beside && self.company.is_some_and(|all| all.judged);
        self.is_result() || self.step == 0 && (self.standing == Standing::Judged || stands_for_mean)
    }
}

/// What a model that a rank puts aside is to its run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Standing {
    /// The run is judged by it.
    #[default]
    Judged,
    /// It is evaluated too; the run is judged by another.
    Beside,
    /// It is not evaluated by itself, only with its company.
    Member,
}

/// The models that are taken together at a mark: those of ranks 0 up to `size`. Their distance to their uniform mean is
/// always measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Company {
    /// How many.
    pub size: u32,
    /// Whether the run is judged by their mean.
    pub judged: bool,
}
