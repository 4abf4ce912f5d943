//! How long a run trains, counted in samples of all workers together.

use super::in_samples;
use recipe::{Epoch, Extent};

/// Progress of a run, as far as one rank knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Samples consumed by all ranks together.
    pub samples: u64,
    /// Whether this rank has no further step to take.
    pub over: bool,
}

/// The samples after which training ends, and the synchronous steps that they take.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    samples: u64,
    epoch: Epoch,
}

impl Budget {
    /// A budget of at least one sample.
    pub(super) fn new(length: Extent, epoch: Epoch) -> Self {
        Self { samples: in_samples(length, epoch).max(1), epoch }
    }

    /// Samples of all workers together after which training ends.
    pub fn samples(&self) -> u64 {
        self.samples
    }

    /// Steps of a synchronous strategy: the first that reaches the budget is the last.
    pub fn steps(&self) -> u64 {
        let Epoch { training_samples, global_batch } = self.epoch;
        let rest = self.samples % training_samples;
        self.samples / training_samples * self.epoch.steps() + rest.div_ceil(u64::from(global_batch))
    }

    /// Samples of all workers together after `step` synchronous steps. The short last batch of an epoch is kept.
    pub fn samples_after(&self, step: u64) -> u64 {
        self.epoch.samples_after(step)
    }

    /// Whole global batches in the budget, rounded up: the steps of each of several workers of one speed.
    pub fn whole_batches(&self) -> u64 {
        self.samples.div_ceil(u64::from(self.epoch.global_batch))
    }

    /// Progress of a synchronous run after `step`.
    pub fn progress(&self, step: u64) -> Progress {
        Progress { samples: self.samples_after(step), over: step >= self.steps() }
    }
}
