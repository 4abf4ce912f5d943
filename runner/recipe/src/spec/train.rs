//! How long to train, with which steps, and when to look.

use crate::OptimizerSettings;
use crate::spec::family::family;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// A length of training.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Extent {
    /// Passes over the training set, of all ranks together.
    Epochs(f64),
    /// Steps of all ranks together: each is one global batch, the last of an epoch what is left of it.
    Steps(u64),
}

impl Extent {
    /// The extent in samples of all ranks together; epochs are rounded to the nearest whole sample.
    pub fn samples(self, training_samples: u64, global_batch: u32) -> u64 {
        match self {
            Self::Epochs(epochs) => (epochs * training_samples as f64).round() as u64,
            Self::Steps(steps) => Epoch { training_samples, global_batch }.samples_after(steps),
        }
    }

    /// How often the extent has passed when all ranks together have used `samples` samples: steps count as steps, whatever is
    /// in them.
    pub fn times(self, samples: u64, epoch: Epoch) -> u64 {
        match self {
            Self::Epochs(_) => samples / self.samples(epoch.training_samples, epoch.global_batch).max(1),
            Self::Steps(steps) => epoch.steps_within(samples) / steps.max(1),
        }
    }

    /// Samples of all ranks together when it has passed so often.
    pub fn samples_after(self, times: u64, epoch: Epoch) -> u64 {
        match self {
            Self::Epochs(_) => {
                times.saturating_mul(self.samples(epoch.training_samples, epoch.global_batch).max(1))
            }
            Self::Steps(steps) => epoch.samples_after(times.saturating_mul(steps.max(1))),
        }
    }
}

/// How the steps of an epoch lie on its samples: whole global batches, and what is left as the last, short one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Epoch {
    /// Samples of one pass.
    pub training_samples: u64,
    /// Samples of a whole step.
    pub global_batch: u32,
}

impl Epoch {
    /// Steps of one epoch.
    pub fn steps(self) -> u64 {
        self.training_samples.div_ceil(self.batch()).max(1)
    }

    /// Samples of all ranks together after `steps` steps.
    pub fn samples_after(self, steps: u64) -> u64 {
        let (epochs, within) = (steps / self.steps(), steps % self.steps());
        let whole = epochs.saturating_mul(self.training_samples);
        whole.saturating_add(within.saturating_mul(self.batch()))
    }

    /// Steps that are over when all ranks together have used `samples` samples.
    pub fn steps_within(self, samples: u64) -> u64 {
        let (epochs, rest) = (samples / self.training_samples.max(1), samples % self.training_samples.max(1));
        epochs.saturating_mul(self.steps()).saturating_add(rest / self.batch())
    }

    fn batch(self) -> u64 {
        u64::from(self.global_batch).max(1)
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Training {
    /// Samples per step of all workers together.
    pub global_batch: u32,
    /// When it is over.
    pub length: Extent,
    /// Pieces in which a worker computes its share of the batch.
    pub accumulate: u32,
    /// How gradients become steps.
    pub optimizer: OptimizerSettings,
    /// How the learning rate changes.
    pub schedule: LrSchedule,
    /// How often a snapshot is evaluated; the initial and the final model always are.
    pub evaluate: Extent,
    /// How often the state of all ranks is saved, for another attempt to go on from; `None` for never.
    // Absent where it says nothing, so that earlier runs keep their identity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Extent>,
    /// What the run is after.
    pub target: Option<Target>,
}

impl Training {
    /// Steps that `samples` samples make, where each step is one global batch: the measure of progress of workers that step
    /// by themselves. A part of a step is a fraction.
    pub fn steps_of(&self, samples: u64) -> f64 {
        samples as f64 / f64::from(self.global_batch.max(1))
    }
}

/// The learning rate over the samples consumed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LrSchedule {
    /// The shape, which begins with the training.
    pub shape: LrShape,
    /// Over this much the rate has a factor that rises linearly to one; zero for none.
    pub warmup: Extent,
    /// How it depends on the batch.
    pub scale: LrScale,
}

family! {
    /// How the learning rate depends on the batch.
    pub enum LrScaleKind {
        None = "none": "The rate is as written, for any number of workers.",
        Linear = "linear": "The rate is multiplied by the global batch divided by `reference-batch` (Goyal \
            et al., 2017).",
    }
}

/// How the learning rate depends on the batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", try_from = "StoredScale")]
pub enum LrScale {
    /// It does not.
    #[default]
    None,
    /// It is multiplied by the global batch divided by this one; a warm-up starts at the rate of this one (Goyal et al.,
    /// "Accurate, Large Minibatch SGD", 2017, section 2.1: "when the minibatch size is multiplied by k, multiply the
    /// learning rate by k").
    Linear {
        /// The global batch that the recipe's rate is for.
        reference_batch: u32,
    },
}

/// A scale as it lies in a store. Before it followed the batch it was a name alone.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
enum StoredScale {
    Name(String),
    Linear { linear: Reference },
}

#[derive(Deserialize, JsonSchema)]
struct Reference {
    reference_batch: u32,
}

impl TryFrom<StoredScale> for LrScale {
    type Error = String;

    fn try_from(stored: StoredScale) -> Result<Self, String> {
        match stored {
            StoredScale::Linear { linear: Reference { reference_batch } } => {
                Ok(Self::Linear { reference_batch })
            }
            StoredScale::Name(name) if name == "none" => Ok(Self::None),
            // Of the batch of one worker, which the old specification does not have.
            StoredScale::Name(name) if name == "linear" => Ok(Self::Linear { reference_batch: 0 }),
            StoredScale::Name(name) => Err(format!("`{name}` is no way to scale a rate")),
        }
    }
}

impl LrScale {
    /// What the rate of a `global_batch` is multiplied by.
    pub fn factor(self, global_batch: u32) -> f64 {
        match self {
            Self::None => 1.0,
            Self::Linear { reference_batch } => f64::from(global_batch) / f64::from(reference_batch.max(1)),
        }
    }
}

family! {
    /// How the learning rate changes with the samples consumed.
    pub enum LrShapeKind {
        Constant = "constant": "The rate stays.",
        Step = "step": "The rate is multiplied by `factor` each time `every` has passed.",
        Milestones = "milestones": "The rate is multiplied by `factor` at each point of `at`.",
        Cosine = "cosine": "The rate falls along half a cosine, to `floor` at the end of training.",
    }
}

/// How the learning rate changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// Share of the test set that is classified right, 0 to 1.
    TestAccuracy,
    /// Mean loss over the test set, in nats per sample; of texts, per token.
    TestLoss,
    /// Share of the held-out samples that is classified right.
    ValidationAccuracy,
    /// Mean loss over the held-out samples, in nats per sample.
    ValidationLoss,
    /// exp of the test loss of a model of texts: as uncertain as a choice among this many tokens.
    TestPerplexity,
    /// exp of the validation loss of a model of texts.
    ValidationPerplexity,
    /// Share of the test set whose class is among the five with the highest scores, 0 to 1; of data with more than
    /// [`Metric::FEW_CLASSES`] classes.
    #[serde(rename = "test-top-5-accuracy")]
    TestTop5Accuracy,
    /// The same of the held-out samples.
    #[serde(rename = "validation-top-5-accuracy")]
    ValidationTop5Accuracy,
    /// How far the models of n ranks are apart: sqrt(1/n sum_i |x_i - m|^2) with their uniform mean m, in the unit of
    /// a weight; the root of what Lian et al., "Can Decentralized Algorithms Outperform Centralized Algorithms?",
    /// NIPS 2017, theorem 1 and corollary 3, bound: the mean square of the distances to the mean. No target: a run is
    /// judged by what its model can do.
    ConsensusDistance,
}

impl Metric {
    /// Of this number of classes five are half, and that a class is among them says little.
    pub const FEW_CLASSES: usize = 10;

    /// Every metric.
    pub const ALL: [Self; 9] = [
        Self::TestAccuracy,
        Self::TestLoss,
        Self::ValidationAccuracy,
        Self::ValidationLoss,
        Self::TestPerplexity,
        Self::ValidationPerplexity,
        Self::TestTop5Accuracy,
        Self::ValidationTop5Accuracy,
        Self::ConsensusDistance,
    ];

    /// The name in recipes, database and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::TestAccuracy => "test-accuracy",
            Self::TestLoss => "test-loss",
            Self::ValidationAccuracy => "validation-accuracy",
            Self::ValidationLoss => "validation-loss",
            Self::TestPerplexity => "test-perplexity",
            Self::ValidationPerplexity => "validation-perplexity",
            Self::TestTop5Accuracy => "test-top-5-accuracy",
            Self::ValidationTop5Accuracy => "validation-top-5-accuracy",
            Self::ConsensusDistance => "consensus-distance",
        }
    }

    /// The name for people: `test accuracy`, `test top-5 accuracy`.
    pub fn words(self) -> String {
        self.name().replace('-', " ").replace("top 5", "top-5")
    }

    /// Whether more of it is better.
    pub fn higher_is_better(self) -> bool {
        match self {
            Self::TestAccuracy
            | Self::ValidationAccuracy
            | Self::TestTop5Accuracy
            | Self::ValidationTop5Accuracy => true,
            Self::TestLoss
            | Self::ValidationLoss
            | Self::TestPerplexity
            | Self::ValidationPerplexity
            | Self::ConsensusDistance => false,
        }
    }

    /// Whether it is measured on held-out training samples, which only exist where `dataset.validation` says so.
    pub fn needs_validation(self) -> bool {
        match self {
            Self::ValidationAccuracy
            | Self::ValidationLoss
            | Self::ValidationPerplexity
            | Self::ValidationTop5Accuracy => true,
            Self::TestAccuracy
            | Self::TestLoss
            | Self::TestPerplexity
            | Self::TestTop5Accuracy
            | Self::ConsensusDistance => false,
        }
    }

    /// The share of samples whose class is among the five with the highest scores, of the samples of this accuracy; `None` of
    /// what is no accuracy.
    pub fn top_5(self) -> Option<Self> {
        match self {
            Self::TestAccuracy => Some(Self::TestTop5Accuracy),
            Self::ValidationAccuracy => Some(Self::ValidationTop5Accuracy),
            Self::TestLoss
            | Self::ValidationLoss
            | Self::TestPerplexity
            | Self::ValidationPerplexity
            | Self::TestTop5Accuracy
            | Self::ValidationTop5Accuracy
            | Self::ConsensusDistance => None,
        }
    }

    /// Whether it is measured of data with more than [`Metric::FEW_CLASSES`] classes only.
    pub fn needs_classes(self) -> bool {
        match self {
            Self::TestTop5Accuracy | Self::ValidationTop5Accuracy => true,
            Self::TestAccuracy
            | Self::TestLoss
            | Self::ValidationAccuracy
            | Self::ValidationLoss
            | Self::TestPerplexity
            | Self::ValidationPerplexity
            | Self::ConsensusDistance => false,
        }
    }

    /// Whether it is measured of models of texts only.
    pub fn needs_text(self) -> bool {
        match self {
            Self::TestPerplexity | Self::ValidationPerplexity => true,
            Self::TestAccuracy
            | Self::TestLoss
            | Self::ValidationAccuracy
            | Self::ValidationLoss
            | Self::TestTop5Accuracy
            | Self::ValidationTop5Accuracy
            | Self::ConsensusDistance => false,
        }
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

family! {
    /// The metrics that a target can name.
    pub enum TargetMetric {
        TestAccuracy = "test-accuracy": "Share of the test set that is classified right.",
        TestLoss = "test-loss": "Mean loss over the test set, in nats per sample; of `text-lines`, per token.",
        ValidationAccuracy = "validation-accuracy": "Share of the held-out samples that is classified right.",
        ValidationLoss = "validation-loss": "Mean loss over the held-out samples, in nats per sample; of `text-lines`, per token.",
        TestPerplexity = "test-perplexity": "exp of the test loss of a model of texts, which is the mean over tokens.",
        ValidationPerplexity = "validation-perplexity": "exp of the validation loss of a model of texts.",
        TestTop5Accuracy = "test-top-5-accuracy": "Share of the test set whose class is among the five with the highest scores; \
            of data with more than ten classes.",
        ValidationTop5Accuracy = "validation-top-5-accuracy": "The same of the held-out samples.",
    }
}

impl TargetMetric {
    /// The metric as it is measured.
    pub fn metric(self) -> Metric {
        match self {
            Self::TestAccuracy => Metric::TestAccuracy,
            Self::TestLoss => Metric::TestLoss,
            Self::ValidationAccuracy => Metric::ValidationAccuracy,
            Self::ValidationLoss => Metric::ValidationLoss,
            Self::TestPerplexity => Metric::TestPerplexity,
            Self::ValidationPerplexity => Metric::ValidationPerplexity,
            Self::TestTop5Accuracy => Metric::TestTop5Accuracy,
            Self::ValidationTop5Accuracy => Metric::ValidationTop5Accuracy,
        }
    }
}

/// What a run is after.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Target {
    /// What is measured.
    pub metric: Metric,
    /// The value to reach: at least this for an accuracy, at most this for a loss or a perplexity.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_is_read_as_it_is_written_and_as_it_was_once() {
        let read = |text: &str| serde_json::from_str::<LrScale>(text);
        for scale in [LrScale::None, LrScale::Linear { reference_batch: 32 }] {
            let written = serde_json::to_string(&scale).expect("it is plain data");
            assert_eq!(read(&written).expect("it was written so"), scale);
        }
        assert_eq!(read("\"linear\"").expect("it was written so"), LrScale::Linear { reference_batch: 0 });
        assert!(read("\"square\"").is_err());
    }

    #[test]
    fn a_metric_has_words_for_people() {
        let words = [Metric::TestAccuracy, Metric::ValidationTop5Accuracy].map(Metric::words);
        assert_eq!(words, ["test accuracy", "validation top-5 accuracy"]);
    }

    #[test]
    fn steps_and_samples_of_epochs_are_inverse() {
        // samples, batch: batches that divide the epoch, that do not, one that is the epoch, one of one sample
        for (training_samples, global_batch) in [(2000, 100), (2000, 96), (45, 10), (7, 7), (5, 1), (3, 8)] {
            let epoch = Epoch { training_samples, global_batch };
            let mut samples = 0;
            for step in 1..=200 {
                let left = training_samples - samples % training_samples;
                samples += left.min(u64::from(global_batch));
                assert_eq!(epoch.samples_after(step), samples);
                assert_eq!((epoch.steps_within(samples), epoch.steps_within(samples - 1)), (step, step - 1));
            }
        }
        assert_eq!(Extent::Steps(100).samples(2000, 96), 4 * 2000 + 16 * 96);
        assert_eq!(Extent::Steps(u64::MAX).samples(1 << 30, 1), u64::MAX);
    }
}
