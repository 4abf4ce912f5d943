//! When models are evaluated, counted in samples of all workers together.

use super::Budget;
use recipe::{Epoch, Extent};

/// The evaluation points of a run, numbered from 1. The initial and the final model are evaluated beside them.
#[derive(Clone, Copy, Debug)]
pub struct EvaluationPoints {
    every: Extent,
    budget: Budget,
    epoch: Epoch,
}

impl EvaluationPoints {
    pub(super) fn new(every: Extent, budget: Budget, epoch: Epoch) -> Self {
        Self { every, budget, epoch }
    }

    /// Number of evaluation points before the end of training.
    pub fn count(&self) -> u64 {
        self.reached(self.budget.samples() - 1)
    }

    /// The samples at which an evaluation point lies.
    pub fn at(&self, number: u64) -> u64 {
        self.every.samples_after(number, self.epoch)
    }

    /// The last evaluation point within `samples` samples; 0 before the first.
    pub fn last(&self, samples: u64) -> u64 {
        self.reached(samples).min(self.count())
    }

    /// Whether an evaluation point lies above `before` and at or below `after`.
    pub fn due(&self, before: u64, after: u64) -> bool {
        self.reached(after) > self.reached(before)
    }

    fn reached(&self, samples: u64) -> u64 {
        self.every.times(samples, self.epoch)
    }
}
