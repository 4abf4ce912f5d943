//! The rows seen as an experiment: conditions, in each the arms, of each the runs that count.

use crate::ReportError;
use recipe::{Metric, Strategy, Target};
use record::Nanos;
use store::{AttemptRow, MetricRow, RunRow, RunState, SweepRows};

/// A sweep, grouped for comparison.
pub(crate) struct Study<'a> {
    pub(crate) rows: &'a SweepRows,
    /// Index of the arm that the others are compared with.
    pub(crate) baseline: usize,
    /// In the order of the plan.
    pub(crate) conditions: Vec<Condition<'a>>,
}

/// What all compared arms have in common.
pub(crate) struct Condition<'a> {
    /// As the plan names it; empty where there is only one.
    pub(crate) name: &'a str,
    pub(crate) workers: u32,
    pub(crate) target: Option<Target>,
    /// The metric that the charts follow.
    pub(crate) metric: Option<Metric>,
    /// In the order of the plan's arms.
    pub(crate) entries: Vec<Entry<'a>>,
}

/// One arm under one condition.
pub(crate) struct Entry<'a> {
    pub(crate) arm: usize,
    pub(crate) cell: usize,
    pub(crate) planned: usize,
    /// Whether all ranks must end with the same weights.
    pub(crate) ranks_agree: bool,
    /// The global batch, where each worker goes at its own pace.
    own_pace: Option<u32>,
    /// Steps after which what a worker does repeats.
    pub(crate) period: u64,
    /// Whether each worker goes at its own pace, and yet waits for others: for its turn, or within a bound on staleness.
    pub(crate) held_back: bool,
    /// Whether its workers average in pairs.
    pub(crate) averages_in_pairs: bool,
    /// The runs that are judged, in the order of their repeats.
    pub(crate) trials: Vec<Trial<'a>>,
}

/// An entry with its condition, and the condition's place among all.
#[derive(Clone, Copy)]
pub(crate) struct Placed<'s, 'a> {
    pub(crate) number: usize,
    pub(crate) condition: &'s Condition<'a>,
    pub(crate) entry: &'s Entry<'a>,
}

/// One run that is judged.
pub(crate) struct Trial<'a> {
    pub(crate) run: &'a RunRow,
    pub(crate) attempt: &'a AttemptRow,
    /// The first evaluation at or beyond the target, if it came in time.
    pub(crate) hit: Option<&'a MetricRow>,
    /// Seconds on the clock of the run for which the target was watched.
    pub(crate) watched: f64,
}

/// What arms are compared by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Measure {
    TimeToTarget,
    StepTime,
}

impl<'a> Study<'a> {
    /// Groups the rows; `baseline` replaces the plan's.
    pub(crate) fn new(rows: &'a SweepRows, baseline: Option<&str>) -> Result<Self, ReportError> {
        let arms = &rows.plan.arms;
        let baseline = match baseline {
            None => arms.iter().position(|arm| arm.baseline).unwrap_or(0),
            Some(name) => arms.iter().position(|arm| arm.name == name).ok_or_else(|| {
                let known = arms.iter().map(|arm| arm.name.clone()).collect();
                ReportError::UnknownBaseline { name: name.to_owned(), known }
            })?,
        };
        Ok(Self { rows, baseline, conditions: conditions(rows) })
    }

    pub(crate) fn arm_name(&self, arm: usize) -> &'a str {
        self.rows.plan.arms.get(arm).map_or("?", |arm| &arm.name)
    }

    /// Every arm under every condition, in the order of the plan.
    pub(crate) fn entries(&self) -> impl Iterator<Item = Placed<'_, 'a>> {
        self.conditions.iter().enumerate().flat_map(|(number, condition)| {
            condition.entries.iter().map(move |entry| Placed { number, condition, entry })
        })
    }

    /// How many distinct repeats the plan has.
    pub(crate) fn repeats(&self) -> usize {
        self.rows.plan.runs.iter().map(|run| run.repeat as usize + 1).max().unwrap_or(0)
    }
}

fn conditions(rows: &SweepRows) -> Vec<Condition<'_>> {
    let mut found: Vec<Condition> = Vec::new();
    for (number, cell) in rows.plan.cells.iter().enumerate().filter(|(_, cell)| cell.excluded.is_none()) {
        let target = cell.spec.train.target;
        let entry = Entry {
            arm: cell.arm,
            cell: number,
            planned: rows.plan.runs.iter().filter(|run| run.cell == number).count(),
            ranks_agree: cell.spec.strategy.ranks_agree(),
            own_pace: cell.spec.strategy.is_asynchronous().then_some(cell.spec.train.global_batch),
            period: cell.spec.strategy.period(),
            held_back: cell.spec.strategy.holds_back(),
            averages_in_pairs: matches!(cell.spec.strategy, Strategy::AdPsgd { .. }),
            trials: trials(rows, number, target),
        };
        if let Some(condition) = found.iter_mut().find(|condition| condition.name == cell.condition) {
            condition.entries.push(entry);
        } else {
            let workers = cell.spec.cluster.workers();
            let entries = vec![entry];
            found.push(Condition { name: &cell.condition, workers, target, metric: None, entries });
        }
    }
    for condition in &mut found {
        condition.entries.sort_by_key(|entry| (entry.arm, entry.cell));
        condition.metric = condition.target.map(|target| target.metric).or_else(|| condition.most_telling());
    }
    found
}

fn trials(rows: &SweepRows, cell: usize, target: Option<Target>) -> Vec<Trial<'_>> {
    let mut trials: Vec<Trial> = rows
        .runs
        .iter()
        .filter(|run| run.cell == cell && is_judged(run))
        .filter_map(|run| Some(Trial::new(run, run.attempt.as_ref()?, target)))
        .collect();
    trials.sort_by_key(|trial| (trial.run.repeat, trial.run.index));
    trials
}

/// A run that diverged or ran out of time is a result: it did not reach the target. One that failed or was
/// interrupted says nothing about its arm. Neither does one that went on without a rank: from then on it was a run of
/// fewer workers, and the same accident ends a run of a strategy that cannot spare a rank, which is left out, too.
pub fn is_judged(run: &RunRow) -> bool {
    matches!(run.state, RunState::Done | RunState::Diverged | RunState::TimedOut) && !is_degraded(run)
}

/// Whether the run went on without a rank, however it ended.
pub(crate) fn is_degraded(run: &RunRow) -> bool {
    run.state == RunState::Degraded || run.attempt.as_ref().is_some_and(|attempt| !attempt.lost.is_empty())
}

impl Condition<'_> {
    pub(crate) fn measure(&self) -> Measure {
        if self.target.is_some() { Measure::TimeToTarget } else { Measure::StepTime }
    }

    pub(crate) fn entry(&self, arm: usize) -> Option<&Entry<'_>> {
        self.entries.iter().find(|entry| entry.arm == arm)
    }

    /// The first metric, in their fixed order, that any run measured.
    fn most_telling(&self) -> Option<Metric> {
        let measured = |metric: Metric| {
            let mut trials = self.entries.iter().flat_map(|entry| &entry.trials);
            trials.any(|trial| trial.attempt.metrics.iter().any(|row| row.metric == metric))
        };
        Metric::ALL.into_iter().find(|metric| measured(*metric))
    }
}

impl Entry<'_> {
    /// What is compared, one value for each judged run; infinite where a target was not reached.
    pub(crate) fn values(&self, measure: Measure) -> Vec<f64> {
        match measure {
            Measure::TimeToTarget => self.trials.iter().map(Trial::time_to_target).collect(),
            Measure::StepTime => self.step_times(),
        }
    }

    /// Step time of each run that has one, in seconds.
    pub(crate) fn step_times(&self) -> Vec<f64> {
        self.trials.iter().filter_map(|trial| trial.attempt.step_time).map(Nanos::seconds).collect()
    }

    /// The last value of the metric in each run that ended as planned, with the run's repeat.
    pub(crate) fn final_values(&self, metric: Metric) -> Vec<(u32, f64)> {
        let done = self.trials.iter().filter(|trial| trial.run.state == RunState::Done);
        done.filter_map(|trial| Some((trial.run.repeat, trial.last(metric)?))).collect()
    }

    /// How many judged runs reached the target.
    pub(crate) fn reached(&self) -> usize {
        self.trials.iter().filter(|trial| trial.hit.is_some()).count()
    }

    /// Fewer than half reached the target: no time is printed.
    pub(crate) fn mostly_missed(&self) -> bool {
        self.reached() * 2 < self.trials.len()
    }

    /// The run in the middle by the measure, the lower of two; one that has no value comes last.
    pub(crate) fn median_trial(&self, measure: Measure) -> Option<&Trial<'_>> {
        let key = |trial: &Trial| match measure {
            Measure::TimeToTarget => trial.time_to_target(),
            Measure::StepTime => trial.attempt.step_time.map_or(f64::INFINITY, Nanos::seconds),
        };
        let mut order: Vec<&Trial> = self.trials.iter().collect();
        order.sort_by(|left, right| key(left).total_cmp(&key(right)));
        order.get(order.len().saturating_sub(1) / 2).copied()
    }

    /// Steps of an attempt by which what it did is divided. Workers that go at their own pace have no common number of
    /// steps: samples by the global batch is the mean over them.
    fn steps(&self, attempt: &AttemptRow) -> Option<f64> {
        let steps = match self.own_pace {
            Some(batch) => attempt.samples as f64 / f64::from(batch.max(1)),
            None => attempt.steps as f64,
        };
        (steps > 0.0).then_some(steps)
    }

    /// Bytes that the workers of an attempt sent per step, on average.
    pub(crate) fn worker_bytes_per_step(&self, attempt: &AttemptRow) -> Option<f64> {
        let workers = attempt.ranks.iter().filter(|rank| rank.role == recipe::Role::Worker);
        let sent: Vec<f64> = workers.map(|rank| rank.bytes_out as f64).collect();
        let steps = self.steps(attempt).filter(|_| !sent.is_empty())?;
        Some(sent.iter().sum::<f64>() / sent.len() as f64 / steps)
    }

    /// Bytes that all ranks of an attempt sent per step.
    pub(crate) fn all_bytes_per_step(&self, attempt: &AttemptRow) -> Option<f64> {
        let steps = self.steps(attempt).filter(|_| !attempt.ranks.is_empty())?;
        Some(attempt.ranks.iter().map(|rank| rank.bytes_out as f64).sum::<f64>() / steps)
    }

    /// The mean over the judged runs of what `value` finds in each.
    pub(crate) fn mean_of(&self, value: impl Fn(&AttemptRow) -> Option<f64>) -> Option<f64> {
        let values: Vec<f64> = self.trials.iter().filter_map(|trial| value(trial.attempt)).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    }
}

impl<'a> Trial<'a> {
    fn new(run: &'a RunRow, attempt: &'a AttemptRow, target: Option<Target>) -> Self {
        let last_seen = attempt.metrics.iter().map(|row| row.at).max();
        let ran = attempt.training.or(last_seen).unwrap_or_default().seconds();
        let deadline =
            target.and_then(|target| target.after).map_or(f64::INFINITY, |after| after.as_secs_f64());
        let hit = target.and_then(|target| {
            let mut rows = attempt.metrics.iter().filter(|row| row.metric == target.metric);
            rows.find(|row| target.reached(row.value) && row.at.seconds() <= deadline)
        });
        Self { run, attempt, hit, watched: ran.min(deadline) }
    }

    /// Seconds until the target; infinite where it was not reached.
    pub(crate) fn time_to_target(&self) -> f64 {
        self.hit.map_or(f64::INFINITY, |row| row.at.seconds())
    }

    pub(crate) fn last(&self, metric: Metric) -> Option<f64> {
        self.attempt.metrics.iter().rev().find(|row| row.metric == metric).map(|row| row.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Sample;
    use std::time::Duration;

    #[test]
    fn a_target_counts_only_in_time() {
        let mut rows = Sample::duel().rows();
        let reached = |rows: &SweepRows| Study::new(rows, None).unwrap().conditions[0].entries[0].reached();
        assert_eq!(reached(&rows), 5);
        let target = rows.plan.cells[0].spec.train.target.as_mut().unwrap();
        target.after = Some(Duration::from_millis(1));
        assert_eq!(reached(&rows), 0);
        let study = Study::new(&rows, None).unwrap();
        assert!((study.conditions[0].entries[0].trials[0].watched - 0.001).abs() < 1e-12);
    }

    #[test]
    fn what_diverged_is_judged_and_what_failed_is_not() {
        let mut rows = Sample::duel().rows();
        for (run, state) in rows.runs.iter_mut().step_by(2).zip([
            RunState::Diverged,
            RunState::TimedOut,
            RunState::Failed,
            RunState::Interrupted,
            RunState::Running,
        ]) {
            run.state = state;
        }
        let study = Study::new(&rows, None).unwrap();
        let entry = &study.conditions[0].entries[0];
        assert_eq!(entry.trials.len(), 2);
        assert_eq!(entry.planned, 5);
        assert_eq!(entry.final_values(Metric::TestAccuracy), []);
    }

    #[test]
    fn what_went_on_without_a_rank_is_not_judged_however_it_ended() {
        let mut rows = Sample::duel().rows();
        let lost = store::LostRow { rank: record::Rank(1), step: 9, at: Nanos(1), reason: String::new() };
        rows.runs[0].state = RunState::Degraded;
        for (run, state) in [(2, RunState::Diverged), (4, RunState::TimedOut)] {
            rows.runs[run].state = state;
            rows.runs[run].attempt.as_mut().unwrap().lost.push(lost.clone());
        }
        let study = Study::new(&rows, None).unwrap();
        let judged = |arm: usize| study.conditions[0].entries[arm].trials.len();
        assert_eq!((judged(0), judged(1)), (2, 5));
    }

    #[test]
    fn the_run_in_the_middle() {
        let rows = Sample::duel().rows();
        let study = Study::new(&rows, None).unwrap();
        let entry = &study.conditions[0].entries[1];
        let middle = entry.median_trial(Measure::TimeToTarget).unwrap().time_to_target();
        assert_eq!(crate::statistics::median(&entry.values(Measure::TimeToTarget)), Some(middle));
    }

    #[test]
    fn an_unknown_baseline_is_named_with_those_there_are() {
        let rows = Sample::duel().rows();
        let error = Study::new(&rows, Some("d-snyc")).err().unwrap().to_string();
        assert_eq!(error, "no arm is called `d-snyc`; the sweep has ps-sync, d-sync");
        assert_eq!(Study::new(&rows, Some("d-sync")).unwrap().baseline, 1);
    }
}
