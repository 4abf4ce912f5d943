//! One arm under one condition: its runs, and what they come to.

use super::{JudgedRun, SpeedMeasure, Usage};
use recipe::{Metric, RunSpec};
use std::num::NonZeroU64;
use store::AttemptRow;

/// Which workers of an arm must end with the same weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EqualWeights {
    /// All workers of the arm.
    All,
    /// Those that hold the same part of the model.
    Holders,
    /// Those of each set that a strategy of another crate names.
    OwnSets,
    /// None, because each part of the model has one holder.
    OneHolder,
    /// None: each worker ends with another model.
    Own,
}

impl EqualWeights {
    /// By the strategy; of one of another crate, as the ranks of one of `attempts` said.
    pub fn of<'a>(spec: &RunSpec, attempts: impl IntoIterator<Item = &'a AttemptRow>) -> Self {
        let workers = spec.cluster.workers();
        let parts = spec.strategy.parts();
        if !spec.strategy.ranks_agree() {
            let said = attempts.into_iter().find_map(|attempt| Self::as_said(attempt, workers));
            said.unwrap_or(Self::Own)
        } else if parts == 1 {
            Self::All
        } else if workers > parts {
            Self::Holders
        } else {
            Self::OneHolder
        }
    }

    /// `None` where no rank of the attempt said anything.
    fn as_said(attempt: &AttemptRow, workers: u32) -> Option<Self> {
        let said: Vec<u32> = attempt.ranks.iter().filter_map(|rank| rank.replica_group).collect();
        let first = *said.first()?;
        let is_one_set = said.len() == workers as usize && said.iter().all(|group| *group == first);
        Some(if is_one_set { Self::All } else { Self::OwnSets })
    }

    /// Whether there is anything to compare.
    pub fn compared(self) -> bool {
        matches!(self, Self::All | Self::Holders | Self::OwnSets)
    }
}

/// One arm under one condition: a cell of the plan that is not excluded.
pub struct ArmCell<'a> {
    /// Index into the plan's arms.
    pub arm: usize,
    /// Index into the plan's cells.
    pub index: usize,
    /// Number of planned runs, less those that were not needed.
    pub planned: usize,
    /// Whose weights are compared.
    pub equal: EqualWeights,
    /// Samples of a global batch.
    pub batch: u32,
    /// Samples that a model is tested with.
    pub(super) test_samples: u64,
    /// Samples that are held out of the training set.
    pub(super) held_out: u64,
    /// The global batch, if workers step independently.
    pub(super) own_pace: Option<u32>,
    /// Steps from one exchange to the next.
    pub period: u64,
    /// Whether workers step independently, but wait for others: for a turn, or because staleness is bounded.
    pub held_back: bool,
    /// Whether its workers average in pairs.
    pub averages_in_pairs: bool,
    /// Resources that each of its runs uses second by second.
    pub usage: Usage,
    /// Whether its training loss includes that of auxiliary heads.
    pub auxiliary_heads: bool,
    /// In the order of their repeats.
    pub runs: Vec<JudgedRun<'a>>,
}

impl ArmCell<'_> {
    /// Whether every run that was planned, and needed, is judged.
    pub fn is_complete(&self) -> bool {
        self.runs.len() >= self.planned
    }

    /// The values that are compared, one for each judged run; infinite where a target was not reached.
    pub fn values(&self, measure: SpeedMeasure) -> Vec<f64> {
        match measure {
            SpeedMeasure::TimeToTarget => self.runs.iter().map(JudgedRun::time_to_target).collect(),
            SpeedMeasure::StepsToTarget => {
                self.runs.iter().map(|judged| judged.steps_to_target(self.batch)).collect()
            }
            SpeedMeasure::StepTime => self.runs.iter().filter_map(JudgedRun::mean_step).collect(),
        }
    }

    /// The samples of which a metric is the share that is classified right; `None` of a metric that is no such share.
    pub(crate) fn classified(&self, metric: Metric) -> Option<NonZeroU64> {
        match metric {
            Metric::TestAccuracy | Metric::TestTop5Accuracy => NonZeroU64::new(self.test_samples),
            Metric::ValidationAccuracy | Metric::ValidationTop5Accuracy => NonZeroU64::new(self.held_out),
            Metric::TestLoss
            | Metric::ValidationLoss
            | Metric::TestPerplexity
            | Metric::ValidationPerplexity
            | Metric::ConsensusDistance => None,
        }
    }

    /// How many judged runs diverged.
    pub fn diverged(&self) -> usize {
        self.runs.iter().filter(|judged| judged.has_diverged()).count()
    }

    /// Half of the runs or more diverged: their speed says nothing.
    pub fn mostly_diverged(&self) -> bool {
        self.diverged() * 2 >= self.runs.len() && !self.runs.is_empty()
    }

    /// The last value of the metric in each run that ended as planned, with the run's repeat.
    pub fn final_values(&self, metric: Metric) -> Vec<(u32, f64)> {
        let done = self.runs.iter().filter(|judged| judged.ended_as_planned());
        done.filter_map(|judged| Some((judged.run.repeat, judged.last(metric)?))).collect()
    }

    /// The best value of the metric that any judged run had while the target was watched.
    pub fn best(&self, metric: Metric) -> Option<f64> {
        let watched = |judged: &JudgedRun<'_>| judged.watched;
        let rows = self.runs.iter().flat_map(|judged| {
            let end = watched(judged);
            judged.attempt.metrics.iter().filter(move |row| row.at.seconds() <= end)
        });
        let values = rows.filter(|row| row.metric == metric && row.value.is_finite()).map(|row| row.value);
        values.reduce(if metric.higher_is_better() { f64::max } else { f64::min })
    }

    /// How many judged runs reached the target.
    pub fn reached(&self) -> usize {
        self.runs.iter().filter(|judged| judged.hit.is_some()).count()
    }

    /// Half of the runs or fewer reached the target: no time is printed.
    pub fn mostly_missed(&self) -> bool {
        self.reached() * 2 <= self.runs.len() && !self.runs.is_empty()
    }

    /// The median run by the measure, the lower of two, of those that did not diverge if there are any; a run without a value
    /// comes last.
    pub fn median_run(&self, measure: SpeedMeasure) -> Option<&JudgedRun<'_>> {
        self.runs.get(self.median_index(measure)?)
    }

    /// The index of [`ArmCell::median_run`].
    pub fn median_index(&self, measure: SpeedMeasure) -> Option<usize> {
        let key = |place: &usize| match measure {
            SpeedMeasure::TimeToTarget => self.runs[*place].time_to_target(),
            SpeedMeasure::StepsToTarget => self.runs[*place].steps_to_target(self.batch),
            SpeedMeasure::StepTime => self.runs[*place].mean_step().unwrap_or(f64::INFINITY),
        };
        let sound = |place: &usize| !self.runs[*place].has_diverged();
        let mut order: Vec<usize> = (0..self.runs.len()).filter(sound).collect();
        if order.is_empty() {
            order = (0..self.runs.len()).collect();
        }
        order.sort_by(|left, right| key(left).total_cmp(&key(right)));
        order.get(order.len().saturating_sub(1) / 2).copied()
    }

    /// The number of steps that totals of an attempt are divided by. Workers that step independently have no common
    /// number of steps: samples divided by the global batch is their mean.
    fn steps(&self, attempt: &AttemptRow) -> Option<f64> {
        let steps = match self.own_pace {
            Some(batch) => attempt.samples as f64 / f64::from(batch.max(1)),
            None => attempt.steps as f64,
        };
        (steps > 0.0).then_some(steps)
    }

    /// Bytes that the workers of an attempt sent per step, on average.
    pub fn worker_bytes_per_step(&self, attempt: &AttemptRow) -> Option<f64> {
        let workers = attempt.ranks.iter().filter(|rank| rank.role == recipe::Role::Worker);
        let sent: Vec<f64> = workers.map(|rank| rank.bytes_out as f64).collect();
        let steps = self.steps(attempt).filter(|_| !sent.is_empty())?;
        Some(sent.iter().sum::<f64>() / sent.len() as f64 / steps)
    }

    /// Bytes that all ranks of an attempt sent per step.
    pub fn all_bytes_per_step(&self, attempt: &AttemptRow) -> Option<f64> {
        let steps = self.steps(attempt).filter(|_| !attempt.ranks.is_empty())?;
        Some(attempt.ranks.iter().map(|rank| rank.bytes_out as f64).sum::<f64>() / steps)
    }

    /// The mean of `value` over the judged runs that have one and did not diverge.
    pub fn mean_of(&self, value: impl Fn(&AttemptRow) -> Option<f64>) -> Option<f64> {
        let values: Vec<f64> = self.sound_runs().filter_map(|judged| value(judged.attempt)).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    }
}
