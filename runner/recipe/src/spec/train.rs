//! How long to train, with which steps, and when to look.

use crate::OptimizerSettings;
use crate::spec::family::family;
use crate::spec::metric::Target;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A length of training.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Extent {
    /// Passes over the training set, of all ranks together.
    Epochs(f64),
    /// Steps of all ranks together: each is one global batch, the last of an epoch its remaining samples.
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

/// How the steps of an epoch lie on its samples: whole global batches, and the remaining samples as the last, short one.
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
        let epochs = steps / self.steps();
        let within = steps % self.steps();
        let whole = epochs.saturating_mul(self.training_samples);
        whole.saturating_add(within.saturating_mul(self.batch()))
    }

    /// Steps that are over when all ranks together have used `samples` samples.
    pub fn steps_within(self, samples: u64) -> u64 {
        let epochs = samples / self.training_samples.max(1);
        let rest = samples % self.training_samples.max(1);
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
    /// Value of a metric that the run is to reach; `None` for none.
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
    /// The rate is as written for every batch.
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
    /// Factor of the learning rate in a run with this global batch.
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
    /// The rate stays as written.
    Constant,
    /// It is multiplied by `factor` each time `every` has passed, counted from the start of training.
    Step {
        /// Length between two changes.
        every: Extent,
        /// Factor of each change.
        factor: f32,
    },
    /// It is multiplied by `factor` at each of these points, counted from the start of training.
    Milestones {
        /// Points of change, in any order.
        at: Vec<Extent>,
        /// Factor of each change.
        factor: f32,
    },
    /// It falls along half a cosine.
    Cosine {
        /// Share that is left at the end of training.
        floor: f32,
    },
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
