//! The learning rate as a function of the consumed samples, so that all ranks compute the same.

use super::{Budget, in_samples};
use recipe::{Epoch, Extent, LrScale, LrSchedule, LrShape, Training};

/// The learning-rate schedule of a run.
#[derive(Clone, Debug)]
pub struct LearningRate {
    base: f32,
    schedule: LrSchedule,
    budget: Budget,
    epoch: Epoch,
}

impl LearningRate {
    pub(super) fn new(train: &Training, budget: Budget, epoch: Epoch) -> Self {
        Self { base: train.optimizer.lr, schedule: train.schedule.clone(), budget, epoch }
    }

    /// The rate of the step that begins after `samples`.
    ///
    /// During warm-up, this step covers the part (samples + B) / warm-up of the distance to the full rate: the first
    /// step is one above the start, the last is at the end. The start is zero or, where the rate scales with the
    /// batch, the rate of the reference batch (Goyal et al., "Accurate, Large Minibatch SGD", 2017, section 2.2).
    pub fn at(&self, samples: u64) -> f32 {
        let full = self.schedule.scale.factor(self.epoch.global_batch);
        let from = match self.schedule.scale {
            LrScale::None => 0.0,
            LrScale::Linear { .. } => 1.0,
        };
        let warm = match in_samples(self.schedule.warmup, self.epoch) {
            0 => full,
            warmup => {
                let passed =
                    samples.saturating_add(u64::from(self.epoch.global_batch)) as f64 / warmup as f64;
                from + (full - from) * passed.min(1.0)
            }
        };
        (f64::from(self.base) * self.shape(samples) * warm) as f32
    }

    /// The factor of the schedule's shape. The cosine is that of Loshchilov & Hutter, "SGDR", ICLR 2017, equation 5,
    /// with one period as long as the training.
    fn shape(&self, samples: u64) -> f64 {
        match &self.schedule.shape {
            LrShape::Constant => 1.0,
            LrShape::Step { every, factor } => power(*factor, self.times(*every, samples)),
            LrShape::Milestones { at, factor } => {
                let passed = at.iter().filter(|milestone| in_samples(**milestone, self.epoch) <= samples);
                power(*factor, passed.count() as u64)
            }
            LrShape::Cosine { floor } => {
                let passed = (samples as f64 / self.budget.samples() as f64).min(1.0);
                let floor = f64::from(*floor);
                floor + (1.0 - floor) * (1.0 + (std::f64::consts::PI * passed).cos()) / 2.0
            }
        }
    }

    fn times(&self, every: Extent, samples: u64) -> u64 {
        every.times(samples, self.epoch)
    }
}

fn power(factor: f32, times: u64) -> f64 {
    f64::from(factor).powi(times.min(i32::MAX as u64) as i32)
}
