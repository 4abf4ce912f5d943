//! The training plan of a run: which samples each worker uses in each step, the learning rate, when training ends and
//! when models are evaluated. Pure functions of the recipe and the seed, equal on every rank, so that no rank has to
//! send them to another.

mod budget;
mod evaluation;
mod learning_rate;
mod partition;
mod sampler;
#[cfg(test)]
mod tests;

pub use budget::{Budget, Progress};
pub use evaluation::EvaluationPoints;
pub use learning_rate::LearningRate;
pub use partition::SamplePartition;
pub use sampler::Sampler;

use recipe::{Epoch, Extent, OptimizerSettings, RunSpec};

/// Everything about a run that follows from its recipe and its seed.
#[derive(Debug)]
pub struct TrainingPlan {
    /// Which samples a worker uses in a step.
    pub sampler: Sampler,
    /// The learning rate, by consumed samples.
    pub learning_rate: LearningRate,
    /// How long the run trains.
    pub budget: Budget,
    /// When models are evaluated.
    pub evaluations: EvaluationPoints,
    /// When the state of all ranks is saved; never, if the recipe does not ask for it.
    pub checkpoints: Option<EvaluationPoints>,
    epoch: Epoch,
    accumulate: usize,
    optimizer: OptimizerSettings,
}

impl TrainingPlan {
    /// The plan of `spec` over the samples of `partition`.
    pub fn new(spec: &RunSpec, partition: SamplePartition) -> Self {
        let epoch = Epoch { training_samples: partition.len() as u64, global_batch: spec.train.global_batch };
        let budget = Budget::new(spec.train.length, epoch);
        Self {
            learning_rate: LearningRate::new(&spec.train, budget, epoch),
            evaluations: EvaluationPoints::new(spec.train.evaluate, budget, epoch),
            checkpoints: spec.train.checkpoint.map(|every| EvaluationPoints::new(every, budget, epoch)),
            sampler: Sampler::new(spec, partition, epoch),
            budget,
            epoch,
            accumulate: spec.train.accumulate as usize,
            optimizer: spec.train.optimizer,
        }
    }

    /// The number of the checkpoint, from 1, that a step ends with: after which `after` samples are consumed, and before which
    /// `before` were. None ends the run.
    pub fn checkpoint(&self, before: u64, after: u64) -> Option<u64> {
        let points = self.checkpoints.filter(|points| points.due(before, after))?;
        (after < self.budget.samples()).then(|| points.last(after))
    }

    /// The seed of everything random in the run.
    pub fn seed(&self) -> u64 {
        self.sampler.partition().seed()
    }

    /// Number of workers, at least 1.
    pub fn workers(&self) -> usize {
        self.sampler.workers()
    }

    /// Samples of one pass over the training set.
    pub fn training_samples(&self) -> u64 {
        self.epoch.training_samples
    }

    /// Micro-batches in which a worker computes its share of a batch.
    pub fn accumulate(&self) -> usize {
        self.accumulate
    }

    /// The optimizer of the recipe.
    pub fn optimizer(&self) -> OptimizerSettings {
        self.optimizer
    }

    /// Samples of all workers together in an extent.
    pub fn in_samples(&self, extent: Extent) -> u64 {
        in_samples(extent, self.epoch)
    }
}

/// Samples of all workers together in an extent.
fn in_samples(extent: Extent, epoch: Epoch) -> u64 {
    extent.samples(epoch.training_samples, epoch.global_batch)
}
