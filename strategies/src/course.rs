//! The course of a run: which samples each worker uses in each step, at which rate, and when to look. A pure
//! function of the recipe and the seed, the same on every rank, so that nobody has to be told.

use crate::deal::Deal;
use crate::learner::Batch;
use crate::strategy::Progress;
use crate::vector::piece;
use recipe::{Epoch, Extent, LrScale, LrSchedule, LrShape, RunSpec, Sgd};
use std::ops::Range;

/// Steps, samples, rates and evaluations of a run.
#[derive(Debug)]
pub struct Course {
    deal: Deal,
    workers: usize,
    together: bool,
    global_batch: u32,
    budget: u64,
    evaluate: Extent,
    accumulate: usize,
    optimizer: Sgd,
    schedule: LrSchedule,
}

impl Course {
    /// The course of `spec` over the samples of `deal`.
    pub fn new(spec: &RunSpec, deal: Deal) -> Self {
        let samples = |extent: Extent| extent.samples(deal.len() as u64, spec.train.global_batch);
        Self {
            budget: samples(spec.train.length).max(1),
            evaluate: spec.train.evaluate,
            workers: spec.cluster.workers() as usize,
            together: !spec.strategy.is_asynchronous(),
            global_batch: spec.train.global_batch,
            accumulate: spec.train.accumulate as usize,
            optimizer: spec.train.optimizer,
            schedule: spec.train.schedule.clone(),
            deal,
        }
    }

    /// The seed of everything random in the run.
    pub fn seed(&self) -> u64 {
        self.deal.seed()
    }

    /// Number of workers.
    pub fn workers(&self) -> usize {
        self.workers
    }

    /// Training samples.
    pub fn training_samples(&self) -> u64 {
        self.deal.len() as u64
    }

    /// Samples of all workers together after which training ends.
    pub fn budget(&self) -> u64 {
        self.budget
    }

    /// Pieces in which a worker computes its share of a batch.
    pub fn accumulate(&self) -> usize {
        self.accumulate
    }

    /// How gradients become steps.
    pub fn optimizer(&self) -> Sgd {
        self.optimizer
    }

    /// Steps of a synchronous strategy: the first that reaches the budget is the last.
    pub fn steps(&self) -> u64 {
        let (epochs, rest) = (self.budget / self.training_samples(), self.budget % self.training_samples());
        epochs * self.steps_per_epoch() + rest.div_ceil(u64::from(self.global_batch))
    }

    /// Samples of all workers together after `step` synchronous steps. The short last batch of an epoch is
    /// kept.
    pub fn samples_after(&self, step: u64) -> u64 {
        match step.checked_sub(1) {
            None => 0,
            Some(before) => {
                let epoch = before / self.steps_per_epoch();
                epoch * self.training_samples() + self.positions(step).end as u64
            }
        }
    }

    /// Whole global batches in the budget, rounded up: steps of each of several workers of one speed.
    pub fn whole_batches(&self) -> u64 {
        self.budget.div_ceil(u64::from(self.global_batch))
    }

    /// How far a synchronous run is after `step`.
    pub fn progress(&self, step: u64) -> Progress {
        Progress { samples: self.samples_after(step), over: step >= self.steps() }
    }

    /// Samples of worker `worker` in a step: the first ones take one more where the batch does not divide. At its
    /// own pace, a worker takes its share of a whole batch in every step.
    pub fn own_samples(&self, step: u64, worker: usize) -> usize {
        if self.together {
            self.share(step, worker).len()
        } else {
            piece(self.global_batch as usize, self.workers, worker).len()
        }
    }

    /// What a worker's mean gradient is multiplied by before a plain sum over the workers, scaled by 1 / p,
    /// is the mean over all samples: p n_i / B. Samples, not ranks, carry the weight.
    pub fn weight(&self, step: u64, worker: usize) -> f32 {
        let all = self.positions(step).len();
        (self.workers * self.own_samples(step, worker)) as f32 / all as f32
    }

    /// The samples that a worker uses in a step. Any rank can ask for any other.
    ///
    /// Workers that step together share one permutation per epoch; each that goes at its own pace draws from its
    /// own, pass after pass.
    pub fn batch(&self, step: u64, worker: usize) -> Batch {
        if !self.together {
            let count = self.own_samples(step, worker);
            let before = (step - 1) * count as u64;
            let epoch = before / self.deal.own_len(worker).max(1);
            return Batch { epoch, examples: self.deal.own(worker, before, count) };
        }
        let epoch = (step - 1) / self.steps_per_epoch();
        let examples = if self.deal.is_shared() {
            let share = self.share(step, worker);
            self.deal.shared(epoch, share)
        } else {
            let before = self.own_before(step, worker);
            self.deal.own(worker, before, self.own_samples(step, worker))
        };
        Batch { epoch, examples }
    }

    /// The learning rate after so many samples: a pure function, so that it acts alike on all ranks.
    ///
    /// While warming up, the step that begins after `samples` takes the part (samples + B) / warm-up of the way to the
    /// full rate, so that the first is one step above the start and the last is at the end. The way begins at zero, or,
    /// where the rate is scaled with the batch, at that of the reference batch (Goyal et al., "Accurate, Large Minibatch
    /// SGD", 2017, section 2.2).
    pub fn rate(&self, samples: u64) -> f32 {
        let full = self.schedule.scale.factor(self.global_batch);
        let from = match self.schedule.scale {
            LrScale::None => 0.0,
            LrScale::Linear { .. } => 1.0,
        };
        let warm = match self.in_samples(self.schedule.warmup) {
            0 => full,
            warmup => {
                let passed = samples.saturating_add(u64::from(self.global_batch)) as f64 / warmup as f64;
                from + (full - from) * passed.min(1.0)
            }
        };
        (f64::from(self.optimizer.lr) * self.shape(samples) * warm) as f32
    }

    /// What the rate is multiplied by after so many samples. The cosine is that of Loshchilov & Hutter,
    /// "SGDR", ICLR 2017, equation 5, with one period as long as the training.
    fn shape(&self, samples: u64) -> f64 {
        let power = |factor: f32, times: u64| f64::from(factor).powi(times.min(i32::MAX as u64) as i32);
        match &self.schedule.shape {
            LrShape::Constant => 1.0,
            LrShape::Step { every, factor } => power(*factor, self.times(*every, samples)),
            LrShape::Milestones { at, factor } => {
                let passed = at.iter().filter(|milestone| self.in_samples(**milestone) <= samples).count();
                power(*factor, passed as u64)
            }
            LrShape::Cosine { floor } => {
                let passed = (samples as f64 / self.budget as f64).min(1.0);
                let floor = f64::from(*floor);
                floor + (1.0 - floor) * (1.0 + (std::f64::consts::PI * passed).cos()) / 2.0
            }
        }
    }

    /// Samples of all workers together in an extent.
    pub fn in_samples(&self, extent: Extent) -> u64 {
        extent.samples(self.training_samples(), self.global_batch)
    }

    /// How often an evaluation is due before the end of the training.
    pub fn evaluations(&self) -> u64 {
        self.times(self.evaluate, self.budget - 1)
    }

    /// The samples at which the evaluation of that number, from 1, is due.
    pub fn evaluation_at(&self, number: u64) -> u64 {
        self.evaluate.samples_after(number, self.epoch())
    }

    /// The number of the evaluation whose mark was passed last, after so many samples; 0 before the first.
    pub fn mark(&self, samples: u64) -> u64 {
        self.times(self.evaluate, samples).min(self.evaluations())
    }

    /// Whether an evaluation is due between these two counts of samples.
    pub fn evaluation_due(&self, before: u64, after: u64) -> bool {
        self.times(self.evaluate, after) > self.times(self.evaluate, before)
    }

    fn epoch(&self) -> Epoch {
        Epoch { training_samples: self.training_samples(), global_batch: self.global_batch }
    }

    fn times(&self, every: Extent, samples: u64) -> u64 {
        every.times(samples, self.epoch())
    }

    fn steps_per_epoch(&self) -> u64 {
        self.epoch().steps()
    }

    /// The positions of a step's samples within its epoch.
    fn positions(&self, step: u64) -> Range<usize> {
        let within = (step - 1) % self.steps_per_epoch();
        let begin = within * u64::from(self.global_batch);
        let end = (begin + u64::from(self.global_batch)).min(self.training_samples());
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
        let per_epoch = self.steps_per_epoch();
        let (epoch, within) = ((step - 1) / per_epoch, (step - 1) % per_epoch);
        let full = piece(self.global_batch as usize, self.workers, worker).len() as u64;
        let last = self.own_samples(per_epoch, worker) as u64;
        epoch * ((per_epoch - 1) * full + last) + within * full
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::sample_spec;
    use std::collections::BTreeSet;

    fn course(workers: u32, batch: u32, samples: u32, change: impl FnOnce(&mut RunSpec)) -> Course {
        let mut spec = sample_spec(workers);
        spec.train.global_batch = batch;
        change(&mut spec);
        Course::new(&spec, Deal::shared_by(5, (0..samples).collect()))
    }

    #[test]
    fn an_epoch_uses_every_sample_once_and_epochs_differ() {
        for (workers, batch, samples) in [(1, 10, 40), (3, 10, 47), (4, 7, 50), (8, 64, 65)] {
            let course = course(workers, batch, samples, |_| ());
            let steps = u64::from(samples.div_ceil(batch));
            let epoch = |from: u64| -> Vec<u32> {
                (from + 1..=from + steps)
                    .flat_map(|t| (0..workers as usize).flat_map(move |k| [(t, k)]))
                    .flat_map(|(t, k)| course.batch(t, k).examples)
                    .collect()
            };
            let (first, second) = (epoch(0), epoch(steps));
            assert_eq!(first.len(), samples as usize);
            assert_eq!(first.iter().collect::<BTreeSet<_>>().len(), samples as usize);
            assert_eq!(second.iter().collect::<BTreeSet<_>>().len(), samples as usize);
            assert_ne!(first, second);
            assert_eq!(course.samples_after(steps), u64::from(samples));
            assert_eq!(course.samples_after(2 * steps), 2 * u64::from(samples));
        }
    }

    #[test]
    fn the_batch_of_all_workers_does_not_depend_on_their_number() {
        let alone = course(1, 100, 1000, |_| ());
        for workers in 2..=8 {
            let together = course(workers, 100, 1000, |_| ());
            for t in 1..=25 {
                let all: Vec<u32> =
                    (0..workers as usize).flat_map(|k| together.batch(t, k).examples).collect();
                assert_eq!(all, alone.batch(t, 0).examples);
            }
        }
    }

    #[test]
    fn weights_count_samples_and_average_to_one() {
        let course = course(3, 10, 22, |_| ());
        assert_eq!((0..3).map(|k| course.own_samples(1, k)).collect::<Vec<_>>(), [4, 3, 3]);
        assert_eq!((0..3).map(|k| course.own_samples(3, k)).collect::<Vec<_>>(), [1, 1, 0]);
        assert_eq!(course.weight(1, 0).to_bits(), 1.2_f32.to_bits());
        assert_eq!(course.weight(3, 2).to_bits(), 0.0_f32.to_bits());
        let equal = self::course(4, 100, 1000, |_| ());
        assert!((0..4).all(|k| equal.weight(1, k).to_bits() == 1.0_f32.to_bits()));
    }

    #[test]
    fn training_ends_with_the_step_that_reaches_the_budget() {
        let by = |length| course(2, 10, 45, |spec| spec.train.length = length).steps();
        assert_eq!(by(Extent::Epochs(1.0)), 5);
        assert_eq!(by(Extent::Epochs(2.0)), 10);
        assert_eq!(by(Extent::Epochs(1.5)), 8);
        assert_eq!(by(Extent::Steps(4)), 4);
        assert_eq!(by(Extent::Steps(0)), 1);
    }

    #[test]
    fn the_rate_warms_up_then_falls_by_steps() {
        let course = course(1, 10, 100, |spec| {
            spec.train.optimizer.lr = 0.5;
            spec.train.schedule = LrSchedule {
                shape: LrShape::Step { every: Extent::Epochs(2.0), factor: 0.5 },
                warmup: Extent::Steps(4),
                scale: LrScale::None,
            };
        });
        let rates: Vec<f32> = [0, 10, 20, 30, 190, 200, 399, 400].map(|s| course.rate(s)).into();
        assert_eq!(rates, [0.125, 0.25, 0.375, 0.5, 0.5, 0.25, 0.25, 0.125]);
    }

    fn rates(course: &Course, samples: &[u64]) -> Vec<f32> {
        samples.iter().map(|samples| course.rate(*samples)).collect()
    }

    #[test]
    fn the_rate_changes_at_each_milestone() {
        let course = course(1, 10, 100, |spec| {
            spec.train.optimizer.lr = 0.5;
            let at = vec![Extent::Epochs(2.0), Extent::Steps(5)];
            spec.train.schedule.shape = LrShape::Milestones { at, factor: 0.5 };
        });
        assert_eq!(rates(&course, &[0, 49, 50, 199, 200, 9999]), [0.5, 0.5, 0.25, 0.25, 0.125, 0.125]);
    }

    #[test]
    fn a_cosine_ends_at_its_floor() {
        let course = course(1, 10, 100, |spec| {
            spec.train.length = Extent::Epochs(2.0);
            spec.train.optimizer.lr = 0.5;
            spec.train.schedule.shape = LrShape::Cosine { floor: 0.5 };
        });
        // (1 + cos 0) / 2 = 1, (1 + cos pi/2) / 2 = 1/2, (1 + cos pi) / 2 = 0
        assert_eq!(rates(&course, &[0, 100, 200, 300]), [0.5, 0.375, 0.25, 0.25]);
        let third = course.rate(67);
        assert!(third < 0.5 && third > 0.375);
    }

    #[test]
    fn a_scaled_rate_warms_up_from_that_of_the_reference_batch() {
        let course = course(4, 10, 100, |spec| {
            spec.train.optimizer.lr = 0.5;
            spec.train.schedule = scaled(Extent::Steps(4), 2);
        });
        // A batch of 10 is five times one of 2: from 0.5 to 2.5.
        assert_eq!(rates(&course, &[0, 10, 20, 30, 90]), [1.0, 1.5, 2.0, 2.5, 2.5]);
    }

    fn scaled(warmup: Extent, reference_batch: u32) -> LrSchedule {
        LrSchedule { shape: LrShape::Constant, warmup, scale: LrScale::Linear { reference_batch } }
    }

    #[test]
    fn evaluations_are_due_when_a_mark_is_passed() {
        let course = course(1, 10, 100, |spec| spec.train.evaluate = Extent::Steps(3));
        let due: Vec<u64> = (1..=10)
            .filter(|t| course.evaluation_due(course.samples_after(t - 1), course.samples_after(*t)))
            .collect();
        assert_eq!(due, [3, 6, 9]);
    }

    #[test]
    fn workers_at_their_own_pace_pass_through_all_samples_in_orders_of_their_own() {
        let alone = course(2, 6, 10, |spec| {
            spec.strategy = recipe::Strategy::AsyncSgd { serve: recipe::Serve::One, staleness_bound: None }
        });
        let own = |worker, steps: std::ops::RangeInclusive<u64>| -> Vec<u32> {
            steps.flat_map(|t| alone.batch(t, worker).examples).collect()
        };
        for worker in 0..2 {
            // Ten steps of three samples: three passes over the ten.
            for pass in own(worker, 1..=10).chunks(10) {
                let mut seen = pass.to_vec();
                seen.sort_unstable();
                assert!(seen.iter().copied().eq(0..10), "{seen:?}");
            }
            let epochs: Vec<u64> = (1..=10).map(|t| alone.batch(t, worker).epoch).collect();
            assert_eq!(epochs, [0, 0, 0, 0, 1, 1, 1, 2, 2, 2]);
        }
        assert_ne!(own(0, 1..=3), own(1, 1..=3));
        assert_ne!(own(0, 1..=3), own(0, 4..=6));
    }

    #[test]
    fn fixed_parts_are_passed_through_in_turn() {
        let mut spec = sample_spec(2);
        spec.train.global_batch = 5;
        let parts = vec![(0..6).collect(), (6..10).collect()];
        let course = Course::new(&spec, Deal::parted_by(3, parts));
        let own = |worker, steps: std::ops::RangeInclusive<u64>| -> Vec<u32> {
            steps.flat_map(|t| course.batch(t, worker).examples).collect()
        };
        // Worker 0 takes 3 of 5 samples: two steps are one pass over its part of 6.
        for pass in 0..3 {
            let mut seen = own(0, 2 * pass + 1..=2 * pass + 2);
            seen.sort_unstable();
            assert!(seen.iter().copied().eq(0..6));
        }
        let mut seen = own(1, 1..=2);
        seen.sort_unstable();
        assert!(seen.iter().copied().eq(6..10));
    }
}
