//! How far a training is: its samples, in steps and in the time that is left.

use recipe::{Extent, RunSpec};
use std::time::{Duration, Instant};

/// Shorter than this, in seconds, a training has no pace.
const SHORTEST: f64 = 0.5;

/// The samples of a run, of all ranks together.
pub(super) struct Training {
    batch: u32,
    /// Whether workers step together.
    steps_together: bool,
    length: Extent,
    /// When this attempt began to train.
    pub(super) since: Option<Instant>,
    /// Training samples of the data set.
    pub(super) epoch: Option<u64>,
    samples: u64,
    /// Those of an attempt before, which this one continues.
    pub(super) samples_before: u64,
}

impl Training {
    pub(super) fn of(spec: &RunSpec) -> Self {
        Self {
            batch: spec.train.global_batch.max(1),
            steps_together: !spec.strategy.is_asynchronous(),
            length: spec.train.length,
            since: None,
            epoch: None,
            samples: 0,
            samples_before: 0,
        }
    }

    /// Takes in how far a rank is; one that is behind changes nothing.
    pub(super) fn reached(&mut self, samples: u64) {
        self.samples = self.samples.max(samples);
    }

    /// Steps that the samples consumed so far make.
    pub(super) fn step(&self) -> u64 {
        self.steps_of(self.samples)
    }

    /// Steps at the end.
    pub(super) fn steps(&self) -> Option<u64> {
        self.goal().map(|goal| self.steps_of(goal))
    }

    /// Steps that these samples make. Workers that step together take the rest of an epoch as a short batch.
    fn steps_of(&self, samples: u64) -> u64 {
        let batch = u64::from(self.batch);
        match self.epoch {
            Some(all) if self.steps_together && all > 0 => {
                samples / all * all.div_ceil(batch) + (samples % all).div_ceil(batch)
            }
            _ => samples.div_ceil(batch),
        }
    }

    /// Samples at the end.
    pub(super) fn goal(&self) -> Option<u64> {
        Some(self.length.samples(self.epoch?, self.batch)).filter(|goal| *goal > 0)
    }

    /// Samples of this attempt.
    fn samples_here(&self) -> u64 {
        self.samples.saturating_sub(self.samples_before)
    }

    /// Of these, those at the end, at least one.
    fn goal_here(&self, goal: u64) -> u64 {
        goal.saturating_sub(self.samples_before).max(1)
    }

    /// Whether nothing is left to train, and its ranks are only waited for: one that lost a link gives its peer up late.
    pub(super) fn has_all_samples(&self) -> bool {
        self.goal().is_some_and(|goal| self.samples_here() >= self.goal_here(goal))
    }

    /// The pace of this attempt so far.
    pub(super) fn steps_per_second(&self, now: Instant) -> Option<f64> {
        let trained = now.saturating_duration_since(self.since?).as_secs_f64();
        (trained > SHORTEST).then(|| self.samples_here() as f64 / f64::from(self.batch) / trained)
    }

    /// How long the training still takes, in whole seconds.
    pub(super) fn left(&self, now: Instant) -> Option<Duration> {
        let goal = self.goal()?;
        let took = now.saturating_duration_since(self.since?);
        let share = self.samples_here() as f64 / self.goal_here(goal) as f64;
        // The first steps are slow, and guesses from them would jump about.
        (share > 0.02 && share < 1.0 && took > Duration::from_secs(1)).then(|| {
            let left = took.as_secs_f64() * (1.0 - share).max(0.0) / share;
            Duration::from_secs_f64(left.ceil())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn training(steps_together: bool) -> Training {
        let length = Extent::Epochs(2.0);
        Training {
            batch: 300,
            steps_together,
            length,
            since: None,
            epoch: Some(1000),
            samples: 0,
            samples_before: 0,
        }
    }

    /// 1,000 samples in batches of 300 are four steps together, and three and a third by themselves.
    #[test]
    fn the_short_last_batch_of_an_epoch_is_a_step() {
        let together = training(true);
        assert_eq!([900, 950, 1000, 1300, 2000].map(|samples| together.steps_of(samples)), [3, 4, 4, 5, 8]);
        let apart = training(false);
        assert_eq!([900, 1000, 2000].map(|samples| apart.steps_of(samples)), [3, 4, 7]);
    }

    /// 1,500 of the 2,000 samples stem from the attempt before: of 500 of its own it has made half in ten seconds.
    #[test]
    fn an_attempt_that_continues_has_the_pace_of_its_own_samples() {
        let begun = Instant::now();
        let mut training = Training { since: Some(begun), samples_before: 1500, ..training(true) };
        assert_eq!(training.left(begun), None);
        training.reached(1750);
        training.reached(1600);
        let now = begun + Duration::from_secs(10);
        assert_eq!(training.left(now), Some(Duration::from_secs(10)));
        assert_eq!(training.steps_per_second(now), Some(250.0 / 300.0 / 10.0));
        assert!(!training.has_all_samples());
        training.reached(2000);
        assert!(training.has_all_samples() && training.left(now).is_none());
    }
}
