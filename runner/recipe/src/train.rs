//! How long to train, with which steps, and when to look.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// A length of training.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Extent {
    /// Passes over the training set, of all ranks together.
    Epochs(f64),
    /// Steps: samples of all ranks together, divided by the global batch.
    Steps(u64),
}

impl Extent {
    /// The extent in samples of all ranks together, rounded to the nearest whole sample.
    pub fn samples(self, training_samples: u64, global_batch: u32) -> u64 {
        match self {
            Self::Epochs(epochs) => (epochs * training_samples as f64).round() as u64,
            Self::Steps(steps) => steps.saturating_mul(u64::from(global_batch)),
        }
    }
}

impl fmt::Display for Extent {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Epochs(epochs) if (*epochs - 1.0).abs() < f64::EPSILON => write!(out, "1 epoch"),
            Self::Epochs(epochs) => write!(out, "{epochs} epochs"),
            Self::Steps(1) => write!(out, "1 step"),
            Self::Steps(steps) => write!(out, "{steps} steps"),
        }
    }
}

/// Training, as one run does it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Training {
    /// Samples per step of all workers together.
    pub global_batch: u32,
    /// When it is over.
    pub length: Extent,
    /// Pieces in which a worker computes its share of the batch.
    pub accumulate: u32,
    /// How gradients become steps.
    pub optimizer: Sgd,
    /// How the learning rate changes.
    pub schedule: LrSchedule,
    /// How often a snapshot is evaluated; the initial and the final model always are.
    pub evaluate: Extent,
    /// What the run is after.
    pub target: Option<Target>,
}

/// Stochastic gradient descent: g += decay w; v <- momentum v + g; w <- w - rate v.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sgd {
    /// The initial learning rate.
    pub lr: f32,
    /// Momentum; 0 keeps no velocity.
    pub momentum: f32,
    /// Weight decay.
    pub weight_decay: f32,
    /// Longest gradient, as a Euclidean norm over all weights.
    pub clip: Option<f32>,
}

/// The learning rate over the samples consumed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LrSchedule {
    /// The shape after the warm-up.
    pub shape: LrShape,
    /// The rate rises linearly over this much; zero for none.
    pub warmup: Extent,
    /// How it depends on the number of workers.
    pub scale: LrScale,
}

/// How the learning rate depends on the number of workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LrScale {
    /// It does not.
    #[default]
    None,
    /// It is multiplied by their number; a warm-up starts at the rate of one.
    Linear,
}

/// How the learning rate changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum LrShape {
    /// It does not.
    Constant,
    /// It is multiplied by `factor` each time `every` has passed, counted from the start of training.
    Step {
        /// How often.
        every: Extent,
        /// By how much.
        factor: f32,
    },
    /// It is multiplied by `factor` at each of these points, counted from the start of training.
    Milestones {
        /// Where, in any order.
        at: Vec<Extent>,
        /// By how much.
        factor: f32,
    },
    /// It falls along half a cosine.
    Cosine {
        /// Share that is left at the end of training.
        floor: f32,
    },
}

/// What is measured on a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// Share of the test set that is classified right, 0 to 1.
    TestAccuracy,
    /// Mean loss over the test set, in nats per sample.
    TestLoss,
    /// Share of the held-out samples that is classified right.
    ValidationAccuracy,
    /// Mean loss over the held-out samples, in nats per sample.
    ValidationLoss,
    /// How far the models of n ranks are apart: sqrt(1/n sum_i |x_i - m|^2) with their uniform mean m, in the unit of
    /// a weight; the root of what Lian et al., "Can Decentralized Algorithms Outperform Centralized Algorithms?",
    /// NIPS 2017, theorem 1 and corollary 3, bound: the mean square of the distances to the mean. No target: a run is
    /// judged by what its model can do.
    ConsensusDistance,
}

impl Metric {
    /// Every metric.
    pub const ALL: [Self; 5] = [
        Self::TestAccuracy,
        Self::TestLoss,
        Self::ValidationAccuracy,
        Self::ValidationLoss,
        Self::ConsensusDistance,
    ];

    /// The name in recipes, database and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::TestAccuracy => "test-accuracy",
            Self::TestLoss => "test-loss",
            Self::ValidationAccuracy => "validation-accuracy",
            Self::ValidationLoss => "validation-loss",
            Self::ConsensusDistance => "consensus-distance",
        }
    }

    /// Whether more of it is better.
    pub fn higher_is_better(self) -> bool {
        matches!(self, Self::TestAccuracy | Self::ValidationAccuracy)
    }

    /// Whether it is measured on held-out training samples, which only exist where `dataset.validation` says so.
    pub fn needs_validation(self) -> bool {
        matches!(self, Self::ValidationAccuracy | Self::ValidationLoss)
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

/// What a run is after.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Target {
    /// What is measured.
    pub metric: Metric,
    /// The value to reach: at least this for an accuracy, at most this for a loss.
    pub threshold: f64,
    /// Reached later than this on the clock of the run counts as missed.
    pub after: Option<Duration>,
    /// Whether the run ends when it is reached.
    pub stop: bool,
}

impl Target {
    /// Whether a value reaches the target.
    pub fn reached(&self, value: f64) -> bool {
        if self.metric.higher_is_better() { value >= self.threshold } else { value <= self.threshold }
    }
}
