//! Made-up sweeps: rows with the times that a structure of spread, misses and evaluations draws.

use crate::sample::Sample;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::Rng;
use record::Nanos;
use store::{RunState, SweepRows};

/// Sweeps of each structure.
pub(super) const SWEEPS: usize = 2_000;

/// Shape of a made-up sweep, and how its runs spread.
#[derive(Clone, Copy, Debug)]
pub(super) struct Structure {
    pub(super) arms: usize,
    pub(super) conditions: usize,
    pub(super) repeats: u32,
    /// Deviation of the logarithm that a seed causes in all arms.
    pub(super) seeds: f64,
    /// Deviation of the logarithm of each run.
    pub(super) runs: f64,
    /// Of arm i, or of condition i, the same, i + 1 times as large.
    pub(super) uneven: Uneven,
    pub(super) tail: Tail,
    /// How much slower the machine is in the second half of the sweep, whose repeats follow one another.
    pub(super) drift: f64,
    /// Probability that a run never reaches the target.
    pub(super) misses: f64,
    /// Time up to which runs are watched, in units of the baseline's mean; infinite if they all reach it.
    pub(super) watched: f64,
    /// Number of evaluations until twice the baseline's mean; 0 if the target is seen at once.
    pub(super) evaluations: u32,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Uneven {
    Nothing,
    Arms,
    Conditions,
    /// The last condition spreads this many times as much as the others.
    LastCondition(f64),
    /// The last arm spreads this many times as much as the others.
    LastArm(f64),
    /// The baseline spreads this many times as much as the arms.
    Baseline(f64),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Tail {
    Normal,
    /// One run of ten is 30 % slower.
    Contaminated,
    /// Student's t of three degrees of freedom.
    Heavy,
}

pub(super) const PLAIN: Structure = Structure {
    arms: 2,
    conditions: 1,
    repeats: 5,
    seeds: 0.0,
    runs: 0.05,
    uneven: Uneven::Nothing,
    tail: Tail::Normal,
    drift: 0.0,
    misses: 0.0,
    watched: f64::INFINITY,
    evaluations: 0,
};

pub(super) struct Draws(pub(super) ChaCha8Rng);

impl Draws {
    fn uniform(&mut self) -> f64 {
        (f64::from(self.0.next_u32()) + 0.5) / 4_294_967_296.0
    }

    /// Standard normal value, by the transform of Box and Muller.
    pub(super) fn normal(&mut self) -> f64 {
        (-2.0 * self.uniform().ln()).sqrt() * (2.0 * std::f64::consts::PI * self.uniform()).cos()
    }

    fn tailed(&mut self, tail: Tail) -> f64 {
        match tail {
            Tail::Normal | Tail::Contaminated => self.normal(),
            Tail::Heavy => {
                let square: f64 = (0..3).map(|_| self.normal().powi(2)).sum();
                self.normal() / (square / 3.0).sqrt()
            }
        }
    }
}

impl Structure {
    /// Rows with nothing but what a comparison reads.
    pub(super) fn template(&self) -> SweepRows {
        let duel = Sample::duel();
        let arms = (0..self.arms).map(|place| {
            let mut arm = duel.arms[place.min(1)].clone();
            arm.name = format!("arm-{place}");
            arm
        });
        let workers = (0..self.conditions as u32).map(|place| place + 2).collect();
        let sample = Sample { arms: arms.collect(), workers, repeats: self.repeats, ..duel };
        let mut rows = sample.rows();
        for run in &mut rows.runs {
            let attempt = run.attempt.as_mut().unwrap();
            (attempt.losses, attempt.ranks, attempt.links) = (vec![], vec![], vec![]);
            attempt.metrics.retain(|row| row.metric == recipe::Metric::TestAccuracy);
            attempt.metrics.truncate(2);
            attempt.weights = Some(Ok(run.id.clone()));
        }
        rows
    }

    /// Gives each run a time to the target: 100 s for the baseline, `ratio` times less for the arms.
    pub(super) fn fill(&self, rows: &mut SweepRows, ratio: f64, draws: &mut Draws) {
        let seeds: Vec<f64> = (0..self.repeats).map(|_| self.seeds * draws.normal()).collect();
        for run in &mut rows.runs {
            let arm = run.cell % self.arms;
            let spread = self.runs
                * match self.uneven {
                    Uneven::Arms => arm as f64 + 1.0,
                    Uneven::Conditions => (run.cell / self.arms) as f64 + 1.0,
                    Uneven::LastCondition(times) if run.cell / self.arms + 1 == self.conditions => times,
                    Uneven::LastArm(times) if arm + 1 == self.arms => times,
                    Uneven::Baseline(times) if arm == 0 => times,
                    Uneven::Nothing | Uneven::LastCondition(_) | Uneven::LastArm(_) | Uneven::Baseline(_) => {
                        1.0
                    }
                };
            let mut log = seeds[run.repeat as usize] + spread * draws.tailed(self.tail);
            if self.tail == Tail::Contaminated && draws.uniform() < 0.1 {
                log += 1.3_f64.ln();
            }
            if run.repeat * 2 >= self.repeats {
                log += (1.0 + self.drift).ln();
            }
            let time = 100.0 * log.exp() / if arm == 0 { 1.0 } else { ratio };
            let missed = draws.uniform() < self.misses || time > 100.0 * self.watched;
            run.state = RunState::Done;
            self.reach(run.attempt.as_mut().unwrap(), time, missed);
        }
    }

    fn reach(&self, attempt: &mut store::AttemptRow, time: f64, missed: bool) {
        let limit = if self.watched.is_finite() { 100.0 * self.watched } else { 400.0 };
        let cell = if self.evaluations == 0 { time * 1e-9 } else { 200.0 / f64::from(self.evaluations) };
        let seen = if self.evaluations == 0 { time } else { (time / cell).ceil() * cell };
        let at = |seconds: f64| Nanos((seconds * 1e9) as u64);
        let (before, last) = if missed { (limit - 1.0, limit) } else { (seen - cell, seen) };
        for (row, seconds) in attempt.metrics.iter_mut().zip([before, last]) {
            (row.at, row.samples, row.value) = (at(seconds), (seconds * 1e4) as u64, 0.5);
        }
        if !missed {
            attempt.metrics[1].value = 0.98;
        }
        attempt.training = Some(at(last));
    }

    /// Each condition counts as a sweep, unless one of them is looked at.
    pub(super) fn sweeps(&self) -> usize {
        if matches!(self.uneven, Uneven::LastCondition(_)) { SWEEPS } else { SWEEPS / self.conditions }
    }
}
