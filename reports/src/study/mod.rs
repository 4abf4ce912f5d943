//! The rows as an experiment: conditions, the arms under each, and of each arm the runs that are judged.

mod judged_run;

pub use judged_run::is_judged;
pub(crate) use judged_run::{JudgedRun, is_degraded};

use crate::ReportError;
use judged_run::judged;
use recipe::{Metric, Strategy, Target};
use std::collections::BTreeMap;
use store::{AttemptRow, RunRow, RunState, SweepRows};

/// A sweep, grouped for comparison.
pub(crate) struct Study<'a> {
    pub(crate) rows: &'a SweepRows,
    /// Index of the arm that the others are compared with.
    pub(crate) baseline: usize,
    /// In the order of the plan.
    pub(crate) conditions: Vec<Condition<'a>>,
    /// For each cell of the plan the index of its condition; `None` for an excluded cell.
    condition_of: Vec<Option<usize>>,
}

/// A condition: the arms under it are compared with each other.
pub(crate) struct Condition<'a> {
    /// The plan's name; empty if there is only one condition.
    pub(crate) name: &'a str,
    pub(crate) workers: u32,
    pub(crate) target: Option<Target>,
    /// The metric that the charts follow.
    pub(crate) metric: Option<Metric>,
    /// In the order of the plan's arms.
    pub(crate) cells: Vec<ArmCell<'a>>,
}

/// One arm under one condition: a cell of the plan that is not excluded.
pub(crate) struct ArmCell<'a> {
    pub(crate) arm: usize,
    /// Index into the plan's cells.
    pub(crate) index: usize,
    /// Number of planned runs.
    pub(crate) planned: usize,
    /// Whether all ranks must end with the same weights.
    pub(crate) ranks_agree: bool,
    /// Samples of a global batch.
    pub(crate) batch: u32,
    /// The global batch, if workers step independently.
    own_pace: Option<u32>,
    /// Steps from one exchange to the next.
    pub(crate) period: u64,
    /// Whether workers step independently, but wait for others: for a turn, or because staleness is bounded.
    pub(crate) held_back: bool,
    /// Whether its workers average in pairs.
    pub(crate) averages_in_pairs: bool,
    /// In the order of their repeats.
    pub(crate) runs: Vec<JudgedRun<'a>>,
}

/// A cell with its condition, and the condition's index.
#[derive(Clone, Copy)]
pub(crate) struct PlacedCell<'s, 'a> {
    pub(crate) number: usize,
    pub(crate) condition: &'s Condition<'a>,
    pub(crate) cell: &'s ArmCell<'a>,
}

/// What arms are compared by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Measure {
    /// Seconds from the start to the target.
    TimeToTarget,
    /// Samples up to the target, divided by the global batch.
    StepsToTarget,
    /// Seconds per global batch over all steady steps.
    StepTime,
}

/// Why an arm's speed is not compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lost {
    /// Half of its runs or more.
    Diverged,
    /// Half or fewer reached the target.
    Missed,
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
        let conditions = conditions(rows);
        let mut condition_of = vec![None; rows.plan.cells.len()];
        for (number, condition) in conditions.iter().enumerate() {
            for cell in &condition.cells {
                condition_of[cell.index] = Some(number);
            }
        }
        Ok(Self { rows, baseline, conditions, condition_of })
    }

    pub(crate) fn arm_name(&self, arm: usize) -> &'a str {
        self.rows.plan.arms.get(arm).map_or("?", |arm| &arm.name)
    }

    /// The condition of a cell of the plan; `None` if the cell is excluded.
    pub(crate) fn condition_of(&self, cell: usize) -> Option<&Condition<'a>> {
        let number = self.condition_of.get(cell).copied().flatten()?;
        self.conditions.get(number)
    }

    /// Every arm under every condition, in the order of the plan.
    pub(crate) fn arm_cells(&self) -> impl Iterator<Item = PlacedCell<'_, 'a>> {
        self.conditions.iter().enumerate().flat_map(|(number, condition)| {
            condition.cells.iter().map(move |cell| PlacedCell { number, condition, cell })
        })
    }

    /// How many distinct repeats the plan has.
    pub(crate) fn repeats(&self) -> usize {
        self.rows.plan.runs.iter().map(|run| run.repeat as usize + 1).max().unwrap_or(0)
    }
}

/// The runs of each cell, in one pass over the plan and one over the rows.
struct RunsByCell<'a> {
    /// Number of planned runs of each cell.
    planned: Vec<usize>,
    /// Rows of each cell.
    rows: Vec<Vec<&'a RunRow>>,
}

impl<'a> RunsByCell<'a> {
    /// Runs of a cell that the plan does not have are left out.
    fn of(
        cells: usize,
        planned_cells: impl Iterator<Item = usize>,
        rows: impl Iterator<Item = &'a RunRow>,
    ) -> Self {
        let mut planned = vec![0; cells];
        for cell in planned_cells {
            if let Some(count) = planned.get_mut(cell) {
                *count += 1;
            }
        }
        let mut by_cell = vec![Vec::new(); cells];
        for row in rows {
            if let Some(of_cell) = by_cell.get_mut(row.cell) {
                of_cell.push(row);
            }
        }
        Self { planned, rows: by_cell }
    }
}

fn conditions(rows: &SweepRows) -> Vec<Condition<'_>> {
    let plan = &rows.plan;
    let runs = RunsByCell::of(plan.cells.len(), plan.runs.iter().map(|run| run.cell), rows.runs.iter());
    let mut found: Vec<Condition> = Vec::new();
    let mut numbers: BTreeMap<&str, usize> = BTreeMap::new();
    for (number, cell) in plan.cells.iter().enumerate().filter(|(_, cell)| cell.excluded.is_none()) {
        let target = cell.spec.train.target;
        let arm_cell = ArmCell {
            arm: cell.arm,
            index: number,
            planned: runs.planned[number],
            ranks_agree: cell.spec.strategy.ranks_agree(),
            batch: cell.spec.train.global_batch.max(1),
            own_pace: cell.spec.strategy.is_asynchronous().then_some(cell.spec.train.global_batch),
            period: cell.spec.strategy.period(),
            held_back: cell.spec.strategy.holds_back(),
            averages_in_pairs: matches!(cell.spec.strategy, Strategy::AdPsgd { .. }),
            runs: judged(&runs.rows[number], target),
        };
        let place = *numbers.entry(&cell.condition).or_insert_with(|| {
            let workers = cell.spec.cluster.workers();
            let cells = Vec::new();
            found.push(Condition { name: &cell.condition, workers, target, metric: None, cells });
            found.len() - 1
        });
        found[place].cells.push(arm_cell);
    }
    for condition in &mut found {
        condition.take_one_step_time();
        condition.cells.sort_by_key(|cell| (cell.arm, cell.index));
        condition.metric = condition.target.map(|target| target.metric).or_else(|| condition.most_telling());
    }
    found
}

impl Condition<'_> {
    pub(crate) fn measure(&self) -> Measure {
        if self.target.is_some() { Measure::TimeToTarget } else { Measure::StepTime }
    }

    /// Why the speed of an arm is not compared; `None` if it is, or has no run yet.
    pub(crate) fn lost(&self, cell: &ArmCell) -> Option<Lost> {
        if cell.mostly_diverged() {
            return Some(Lost::Diverged);
        }
        let missed = self.target.is_some() && cell.mostly_missed();
        missed.then_some(Lost::Missed)
    }

    pub(crate) fn cell(&self, arm: usize) -> Option<&ArmCell<'_>> {
        self.cells.iter().find(|cell| cell.arm == arm)
    }

    /// Runs recorded before the mean step was kept have the median one alone: then all runs are compared by their median.
    fn take_one_step_time(&mut self) {
        let judged = || self.cells.iter().flat_map(|cell| &cell.runs).filter(|judged| !judged.has_diverged());
        let whole = judged()
            .all(|judged| judged.attempt.mean_step_time.is_some() || judged.attempt.step_time.is_none());
        if !whole {
            self.cells.iter_mut().flat_map(|cell| &mut cell.runs).for_each(JudgedRun::forget_mean);
        }
    }

    /// The first metric, in their fixed order, that any run measured.
    fn most_telling(&self) -> Option<Metric> {
        let measured = |metric: Metric| {
            let mut runs = self.cells.iter().flat_map(|cell| &cell.runs);
            runs.any(|judged| judged.attempt.metrics.iter().any(|row| row.metric == metric))
        };
        Metric::ALL.into_iter().find(|metric| measured(*metric))
    }
}

impl<'a> ArmCell<'a> {
    /// The judged runs that did not diverge: what they did says something of the arm's speed.
    pub(crate) fn sound_runs(&self) -> impl Iterator<Item = &JudgedRun<'a>> {
        self.runs.iter().filter(|judged| !judged.has_diverged())
    }
}

impl ArmCell<'_> {
    /// What is compared, one value for each judged run; infinite where a target was not reached.
    pub(crate) fn values(&self, measure: Measure) -> Vec<f64> {
        match measure {
            Measure::TimeToTarget => self.runs.iter().map(JudgedRun::time_to_target).collect(),
            Measure::StepsToTarget => {
                self.runs.iter().map(|judged| judged.steps_to_target(self.batch)).collect()
            }
            Measure::StepTime => self.runs.iter().filter_map(JudgedRun::mean_step).collect(),
        }
    }

    /// Typical step time, in seconds, of each run that has one and did not diverge.
    pub(crate) fn typical_steps(&self) -> Vec<f64> {
        self.runs.iter().filter_map(JudgedRun::typical_step).collect()
    }

    /// How many judged runs diverged.
    pub(crate) fn diverged(&self) -> usize {
        self.runs.iter().filter(|judged| judged.has_diverged()).count()
    }

    /// Half of the runs or more diverged: their speed says nothing.
    pub(crate) fn mostly_diverged(&self) -> bool {
        self.diverged() * 2 >= self.runs.len() && !self.runs.is_empty()
    }

    /// The last value of the metric in each run that ended as planned, with the run's repeat.
    pub(crate) fn final_values(&self, metric: Metric) -> Vec<(u32, f64)> {
        let done = self.runs.iter().filter(|judged| judged.run.state == RunState::Done);
        done.filter_map(|judged| Some((judged.run.repeat, judged.last(metric)?))).collect()
    }

    /// The best value of the metric that any judged run had while the target was watched.
    pub(crate) fn best(&self, metric: Metric) -> Option<f64> {
        let watched = |judged: &JudgedRun<'_>| judged.watched;
        let rows = self.runs.iter().flat_map(|judged| {
            let end = watched(judged);
            judged.attempt.metrics.iter().filter(move |row| row.at.seconds() <= end)
        });
        let values = rows.filter(|row| row.metric == metric && row.value.is_finite()).map(|row| row.value);
        values.reduce(if metric.higher_is_better() { f64::max } else { f64::min })
    }

    /// How many judged runs reached the target.
    pub(crate) fn reached(&self) -> usize {
        self.runs.iter().filter(|judged| judged.hit.is_some()).count()
    }

    /// Half of the runs or fewer reached the target: no time is printed.
    pub(crate) fn mostly_missed(&self) -> bool {
        self.reached() * 2 <= self.runs.len() && !self.runs.is_empty()
    }

    /// The median run by the measure, the lower of two, of those that did not diverge if there are any; a run without a value
    /// comes last.
    pub(crate) fn median_run(&self, measure: Measure) -> Option<&JudgedRun<'_>> {
        self.runs.get(self.median_index(measure)?)
    }

    /// The index of [`ArmCell::median_run`].
    pub(crate) fn median_index(&self, measure: Measure) -> Option<usize> {
        let key = |place: &usize| match measure {
            Measure::TimeToTarget => self.runs[*place].time_to_target(),
            Measure::StepsToTarget => self.runs[*place].steps_to_target(self.batch),
            Measure::StepTime => self.runs[*place].mean_step().unwrap_or(f64::INFINITY),
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

    /// The mean of `value` over the judged runs that have one and did not diverge.
    pub(crate) fn mean_of(&self, value: impl Fn(&AttemptRow) -> Option<f64>) -> Option<f64> {
        let values: Vec<f64> = self.sound_runs().filter_map(|judged| value(judged.attempt)).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{Sample, under_conditions};
    use std::time::Duration;

    #[test]
    fn a_target_counts_only_in_time() {
        let mut rows = Sample::duel().rows();
        let reached = |rows: &SweepRows| Study::new(rows, None).unwrap().conditions[0].cells[0].reached();
        assert_eq!(reached(&rows), 5);
        let target = rows.plan.cells[0].spec.train.target.as_mut().unwrap();
        target.after = Some(Duration::from_millis(1));
        assert_eq!(reached(&rows), 0);
        let study = Study::new(&rows, None).unwrap();
        assert!((study.conditions[0].cells[0].runs[0].watched - 0.001).abs() < 1e-12);
    }

    #[test]
    fn means_and_medians_of_steps_are_not_mixed() {
        let mut rows = Sample::duel().rows();
        let steps = |rows: &SweepRows| {
            Study::new(rows, None).unwrap().conditions[0].cells[1].values(Measure::StepTime)
        };
        for run in &mut rows.runs {
            let attempt = run.attempt.as_mut().unwrap();
            attempt.mean_step_time = attempt.step_time.map(|step| record::Nanos(step.0 * 2));
        }
        let means = steps(&rows);
        // A run of the other arm was recorded before the mean was kept.
        rows.runs[0].attempt.as_mut().unwrap().mean_step_time = None;
        let halves: Vec<f64> = means.iter().map(|mean| mean / 2.0).collect();
        assert_eq!(steps(&rows), halves);
    }

    #[test]
    fn a_diverged_run_is_judged_and_a_failed_one_is_not() {
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
        let cell = &study.conditions[0].cells[0];
        assert_eq!(cell.runs.len(), 2);
        assert_eq!(cell.planned, 5);
        assert_eq!(cell.final_values(Metric::TestAccuracy), []);
    }

    #[test]
    fn a_run_that_lost_a_rank_is_not_judged_however_it_ended() {
        let mut rows = Sample::duel().rows();
        let lost =
            store::LostRow { rank: record::Rank(1), step: 9, at: record::Nanos(1), reason: String::new() };
        rows.runs[0].state = RunState::Degraded;
        for (run, state) in [(2, RunState::Diverged), (4, RunState::TimedOut)] {
            rows.runs[run].state = state;
            rows.runs[run].attempt.as_mut().unwrap().lost.push(lost.clone());
        }
        let study = Study::new(&rows, None).unwrap();
        let judged = |arm: usize| study.conditions[0].cells[arm].runs.len();
        assert_eq!((judged(0), judged(1)), (2, 5));
    }

    #[test]
    fn the_run_in_the_middle() {
        let rows = Sample::duel().rows();
        let study = Study::new(&rows, None).unwrap();
        let cell = &study.conditions[0].cells[1];
        let middle = cell.median_run(Measure::TimeToTarget).unwrap().time_to_target();
        assert_eq!(crate::statistics::median(&cell.values(Measure::TimeToTarget)), Some(middle));
    }

    #[test]
    fn an_unknown_baseline_is_named_with_those_there_are() {
        let rows = Sample::duel().rows();
        let error = Study::new(&rows, Some("d-snyc")).err().unwrap().to_string();
        assert_eq!(error, "no arm is called `d-snyc`; the sweep has ps-sync, d-sync");
        assert_eq!(Study::new(&rows, Some("d-sync")).unwrap().baseline, 1);
    }

    #[test]
    fn ten_thousand_cells_are_indexed_in_one_pass() {
        let one = Sample { repeats: 1, epochs: (1, 1), workers: vec![1], ..Sample::duel() }.rows();
        let arms = one.plan.arms.len();
        let rows = under_conditions(&one, 10_000 / arms);
        let visited = std::cell::Cell::new(0);
        let counted = rows.runs.iter().inspect(|_| visited.set(visited.get() + 1));
        let planned = rows.plan.runs.iter().map(|run| run.cell).inspect(|_| visited.set(visited.get() + 1));
        let by_cell = RunsByCell::of(10_000, planned, counted);
        assert_eq!(visited.get(), 20_000);
        assert!(by_cell.planned.iter().all(|count| *count == 1));
        assert!(by_cell.rows.iter().enumerate().all(|(cell, rows)| rows.len() == 1 && rows[0].cell == cell));
        let study = Study::new(&rows, None).unwrap();
        assert_eq!(study.conditions.len(), 10_000 / arms);
        assert!(study.conditions.iter().all(|condition| condition.cells.len() == arms));
        assert_eq!(study.condition_of(9_999).map(|condition| condition.name), Some("lr=4999"));
        assert_eq!(study.condition_of(10_000).map(|condition| condition.name), None);
    }
}
