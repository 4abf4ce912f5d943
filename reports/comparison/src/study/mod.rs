//! The rows as an experiment: conditions, the arms under each, and of each arm the runs that are judged.

mod arm_cell;
mod judged_run;
mod level;
mod usage;

pub use usage::{Resource, Usage};

pub use arm_cell::{ArmCell, EqualWeights};
pub use judged_run::is_judged;
pub use judged_run::{JudgedRun, is_degraded};
pub use level::own_time;

use crate::UnknownBaseline;
use crate::compared_cells::compared_cells;
use crate::looks;
use judged_run::judged;
use recipe::{LayeredModel, Metric, Target};
use std::collections::BTreeMap;
use store::{RunRow, RunState, SweepRows};

/// A sweep, grouped for comparison.
pub struct Study<'a> {
    /// Recorded rows that the study is made from.
    pub rows: &'a SweepRows,
    /// Index of the arm that the others are compared with.
    pub baseline: usize,
    /// In the order of the plan.
    pub conditions: Vec<Condition<'a>>,
    /// For each cell of the plan the index of its condition; `None` for an excluded cell.
    condition_of: Vec<Option<usize>>,
}

/// A condition: the arms under it are compared with each other.
pub struct Condition<'a> {
    /// The plan's name; empty if there is only one condition.
    pub name: &'a str,
    /// Number of ranks that train.
    pub workers: u32,
    /// The metric's value that ends a run; `None` where runs have a fixed length.
    pub target: Option<Target>,
    /// The metric that the charts follow.
    pub metric: Option<Metric>,
    /// Index of the arm that the others are compared with; the condition may not have it.
    baseline: usize,
    /// In the order of the plan's arms.
    pub cells: Vec<ArmCell<'a>>,
}

/// A cell with its condition, and the condition's index.
#[derive(Clone, Copy)]
pub struct PlacedCell<'s, 'a> {
    /// Index of the condition in [`Study::conditions`].
    pub number: usize,
    /// Condition under which the cell was trained.
    pub condition: &'s Condition<'a>,
    /// Cell of the condition.
    pub cell: &'s ArmCell<'a>,
}

/// Measure by which the speeds of arms are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SpeedMeasure {
    /// Seconds from the start to the target.
    TimeToTarget,
    /// Samples up to the target, divided by the global batch.
    StepsToTarget,
    /// Seconds per global batch over all steady steps.
    StepTime,
}

/// Why an arm's speed is not compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// Half of its runs or more.
    Diverged,
    /// Half or fewer reached the target.
    Missed,
}

impl<'a> Study<'a> {
    /// Groups the rows; `baseline` replaces the plan's.
    pub fn new(rows: &'a SweepRows, baseline: Option<&str>) -> Result<Self, UnknownBaseline> {
        let arms = &rows.plan.arms;
        let baseline = match baseline {
            None => arms.iter().position(|arm| arm.baseline).unwrap_or(0),
            Some(name) => arms.iter().position(|arm| arm.name == name).ok_or_else(|| {
                let known = arms.iter().map(|arm| arm.name.clone()).collect();
                UnknownBaseline { name: name.to_owned(), known }
            })?,
        };
        let conditions = conditions(rows, baseline);
        let mut condition_of = vec![None; rows.plan.cells.len()];
        for (number, condition) in conditions.iter().enumerate() {
            for cell in &condition.cells {
                condition_of[cell.index] = Some(number);
            }
        }
        Ok(Self { rows, baseline, conditions, condition_of })
    }

    /// The arm's name in the plan; `?` of an arm that the plan does not have.
    pub fn arm_name(&self, arm: usize) -> &'a str {
        self.rows.plan.arms.get(arm).map_or("?", |arm| &arm.name)
    }

    /// The condition of a cell of the plan; `None` if the cell is excluded.
    pub fn condition_of(&self, cell: usize) -> Option<&Condition<'a>> {
        let number = self.condition_of.get(cell).copied().flatten()?;
        self.conditions.get(number)
    }

    /// Every arm under every condition, in the order of the plan.
    pub fn arm_cells(&self) -> impl Iterator<Item = PlacedCell<'_, 'a>> {
        self.conditions.iter().enumerate().flat_map(|(number, condition)| {
            condition.cells.iter().map(move |cell| PlacedCell { number, condition, cell })
        })
    }

    /// How many distinct repeats every cell has.
    pub fn repeats(&self) -> usize {
        if let Some(first) = self.rows.plan.looks.first() {
            return *first as usize;
        }
        self.rows.plan.runs.iter().map(|run| run.repeat as usize + 1).max().unwrap_or(0)
    }
}

/// The runs of each cell, in one pass over the plan and one over the rows.
struct RunsByCell<'a> {
    /// Number of planned runs of each cell, less those that were not needed.
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
            let (Some(of_cell), Some(count)) = (by_cell.get_mut(row.cell), planned.get_mut(row.cell)) else {
                continue;
            };
            of_cell.push(row);
            *count -= usize::from(row.state == RunState::NotNeeded).min(*count);
        }
        Self { planned, rows: by_cell }
    }
}

fn conditions(rows: &SweepRows, baseline: usize) -> Vec<Condition<'_>> {
    let plan = &rows.plan;
    let under_way = looks::under_way(rows);
    let planned = plan.runs.iter().filter(|run| run.repeat < under_way).map(|run| run.cell);
    let due = rows.runs.iter().filter(|run| run.repeat < under_way);
    let runs = RunsByCell::of(plan.cells.len(), planned, due);
    let mut found: Vec<Condition> = Vec::new();
    let mut numbers: BTreeMap<&str, usize> = BTreeMap::new();
    let compared = compared_cells(rows);
    let is_compared = |number: usize| compared.as_ref().is_none_or(|cells| cells.contains(&number));
    let cells = plan.cells.iter().enumerate().filter(|(number, _)| is_compared(*number));
    for (number, cell) in cells.filter(|(_, cell)| cell.excluded.is_none()) {
        let target = cell.spec.train.target;
        let arm_cell = ArmCell {
            arm: cell.arm,
            index: number,
            planned: runs.planned[number],
            equal: EqualWeights::of(
                &cell.spec,
                runs.rows[number].iter().filter_map(|run| run.attempt.as_ref()),
            ),
            batch: cell.spec.train.global_batch.max(1),
            test_samples: cell.spec.dataset.source.test_samples(),
            held_out: cell.spec.dataset.held_out().unwrap_or_default(),
            own_pace: cell.spec.strategy.is_asynchronous().then_some(cell.spec.train.global_batch),
            period: cell.spec.strategy.period(),
            held_back: cell.spec.strategy.holds_workers_back(),
            averages_in_pairs: cell.spec.strategy.kind().profile().averages_in_pairs(),
            usage: Usage::of(&cell.spec, plan.report.prices.of(number)),
            auxiliary_heads: cell.spec.model.layered().is_some_and(LayeredModel::has_auxiliary_heads),
            runs: judged(&runs.rows[number], target, cell.spec.train.global_batch),
        };
        let name = plan.compared_under(number);
        let place = *numbers.entry(name).or_insert_with(|| {
            let workers = cell.spec.cluster.workers();
            let cells = Vec::new();
            found.push(Condition { name, workers, target, metric: None, baseline, cells });
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
    /// Time to target where there is one, else time per step.
    pub fn measure(&self) -> SpeedMeasure {
        if self.target.is_some() { SpeedMeasure::TimeToTarget } else { SpeedMeasure::StepTime }
    }

    /// Why the speed of an arm is not compared; `None` if it is, or has no run yet.
    pub fn lost(&self, cell: &ArmCell) -> Option<Lost> {
        if cell.mostly_diverged() {
            return Some(Lost::Diverged);
        }
        let missed = self.target.is_some() && cell.mostly_missed();
        missed.then_some(Lost::Missed)
    }

    /// The cell of an arm; `None` where the condition does not have it.
    pub fn cell(&self, arm: usize) -> Option<&ArmCell<'_>> {
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
    pub fn sound_runs(&self) -> impl Iterator<Item = &JudgedRun<'a>> {
        self.runs.iter().filter(|judged| !judged.has_diverged())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{Sample, under_conditions};
    use std::time::Duration;
    use store::RunState;

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
            Study::new(rows, None).unwrap().conditions[0].cells[1].values(SpeedMeasure::StepTime)
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

    /// With a rank that the recipe lets fail in every arm, what continues is what was to be seen; what ends has missed its target, and says
    /// nothing without one.
    #[test]
    fn a_run_that_lost_what_it_was_to_lose_is_judged_and_one_that_failed_by_it_by_its_target_alone() {
        let mut rows = Sample::duel().rows();
        let lost =
            store::LostRow { rank: record::Rank(1), step: 9, at: record::Nanos(1), reason: String::new() };
        for run in rows.runs.iter_mut().filter(|run| run.cell == 0) {
            run.state = RunState::Degraded;
            let attempt = run.attempt.as_mut().unwrap();
            (attempt.lost, attempt.as_ordered) = (vec![lost.clone()], true);
        }
        for run in rows.runs.iter_mut().filter(|run| run.cell == 1) {
            run.state = RunState::Failed;
            run.attempt.as_mut().unwrap().as_ordered = true;
        }
        let study = Study::new(&rows, None).unwrap();
        let cells = &study.conditions[0].cells;
        assert_eq!((cells[0].runs.len(), cells[1].runs.len()), (5, 5));
        let final_values = |arm: usize| cells[arm].final_values(Metric::TestAccuracy).len();
        assert_eq!((final_values(0), final_values(1)), (5, 0));
        assert_eq!(rows.runs[0].state_words(), "degraded as ordered");
        for cell in &mut rows.plan.cells {
            cell.spec.train.target = None;
        }
        let study = Study::new(&rows, None).unwrap();
        let cells = &study.conditions[0].cells;
        assert_eq!((cells[0].runs.len(), cells[1].runs.len()), (5, 0));
    }

    #[test]
    fn the_run_in_the_middle() {
        let rows = Sample::duel().rows();
        let study = Study::new(&rows, None).unwrap();
        let cell = &study.conditions[0].cells[1];
        let middle = cell.median_run(SpeedMeasure::TimeToTarget).unwrap().time_to_target();
        assert_eq!(crate::statistics::median(&cell.values(SpeedMeasure::TimeToTarget)), Some(middle));
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
