//! Which samples each worker uses in each step, and how much its gradient weighs.

use super::SamplePartition;
use crate::learner::Batch;
use crate::vector::piece;
use recipe::{Epoch, RunSpec};
use std::ops::Range;

/// The distributed sampler of a run. Any rank can compute the batch of any other.
#[derive(Debug)]
pub struct Sampler {
    partition: SamplePartition,
    workers: usize,
    pace: Pace,
    epoch: Epoch,
}

/// How the steps of the workers relate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    /// Step t of all workers together is one global batch.
    Common,
    /// Each worker counts its own steps.
    Own,
}

impl Sampler {
    pub(super) fn new(spec: &RunSpec, partition: SamplePartition, epoch: Epoch) -> Self {
        let pace = if spec.strategy.is_asynchronous() { Pace::Own } else { Pace::Common };
        Self { partition, workers: spec.cluster.workers() as usize, pace, epoch }
    }

    /// Number of workers, at least 1.
    pub fn workers(&self) -> usize {
        self.workers
    }

    /// The samples of the run, divided among the workers.
    pub fn partition(&self) -> &SamplePartition {
        &self.partition
    }

    /// Samples of worker `worker` in a step: where the batch does not divide, the first workers take one more. At its
    /// own pace, a worker takes its share of a whole batch in every step.
    pub fn own_samples(&self, step: u64, worker: usize) -> usize {
        match self.pace {
            Pace::Common => self.share(step, worker).len(),
            Pace::Own => piece(self.epoch.global_batch as usize, self.workers, worker).len(),
        }
    }

    /// Samples of all workers in a step that they take together.
    pub fn samples(&self, step: u64) -> usize {
        self.positions(step).len()
    }

    /// The factor of a worker's mean gradient before a plain sum over the workers, scaled by 1 / p, so that the result
    /// is the mean over all samples: p n_i / B. Samples, not ranks, carry the weight.
    pub fn weight(&self, step: u64, worker: usize) -> f32 {
        let all = self.samples(step);
        (self.workers * self.own_samples(step, worker)) as f32 / all as f32
    }

    /// The samples that a worker uses in a step.
    ///
    /// Workers that step together share one permutation per epoch; a worker at its own pace draws from its own, pass
    /// after pass.
    pub fn batch(&self, step: u64, worker: usize) -> Batch {
        match self.pace {
            Pace::Common => self.common_batch(step, worker),
            Pace::Own => {
                let count = self.own_samples(step, worker);
                let before = (step - 1) * count as u64;
                let epoch = before / self.partition.own_len(worker).max(1);
                Batch { epoch, examples: self.partition.own(worker, before, count) }
            }
        }
    }

    fn common_batch(&self, step: u64, worker: usize) -> Batch {
        let epoch = (step - 1) / self.epoch.steps();
        let examples = if self.partition.is_shared() {
            self.partition.shared(epoch, self.share(step, worker))
        } else {
            self.partition.own(worker, self.own_before(step, worker), self.own_samples(step, worker))
        };
        Batch { epoch, examples }
    }

    /// The positions of a step's samples within its epoch.
    fn positions(&self, step: u64) -> Range<usize> {
        let Epoch { training_samples, global_batch } = self.epoch;
        let within = (step - 1) % self.epoch.steps();
        let begin = within * u64::from(global_batch);
        let end = (begin + u64::from(global_batch)).min(training_samples);
        begin as usize..end as usize
    }

    /// The positions of a worker's samples within the epoch.
    fn share(&self, step: u64, worker: usize) -> Range<usize> {
        let positions = self.positions(step);
        let share = piece(positions.len(), self.workers, worker);
        positions.start + share.start..positions.start + share.end
    }

    /// Samples that a worker used in all steps before this one.
    fn own_before(&self, step: u64, worker: usize) -> u64 {
        let per_epoch = self.epoch.steps();
        let epoch = (step - 1) / per_epoch;
        let within = (step - 1) % per_epoch;
        let full = piece(self.epoch.global_batch as usize, self.workers, worker).len() as u64;
        let last = self.own_samples(per_epoch, worker) as u64;
        epoch * ((per_epoch - 1) * full + last) + within * full
    }
}
