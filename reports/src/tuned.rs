//! The comparison of arms that each have their own best settings.
//!
//! Rates and schedules under `train` are searched over; the workload (workers, network, data, batch) is not. Each arm chooses for
//! itself, by the mean of the validation metric at the end of some repeats, and is judged by the others: the run that made a
//! setting the best of many was lucky, in every metric and in time, and would be again if it were judged.

use crate::findings::Findings;
use comparison::study::{ArmCell, Condition, JudgedRun, PlacedCell};
use recipe::{AxisValue, Cell, Metric, Run, is_searched};
use std::collections::{BTreeMap, BTreeSet};
use store::{RunRow, SweepRows};

/// Metrics that settings are chosen by, the first that any run has.
pub(crate) const CHOSEN_BY: [Metric; 3] =
    [Metric::ValidationAccuracy, Metric::ValidationLoss, Metric::ValidationPerplexity];

/// The sweep that is left when each arm keeps its best settings.
pub(crate) struct Tuned {
    pub(crate) rows: SweepRows,
    /// In the order of the cells of `rows`.
    pub(crate) choices: Vec<Choice>,
    pub(crate) metric: Metric,
    /// Number of repeats that choose; the others judge. 0 where there are too few to divide.
    pub(crate) choosers: u32,
    /// Repeats that all settings have.
    repeats: u32,
}

/// Setting that an arm has chosen under a condition.
pub(crate) struct Choice {
    pub(crate) arm: usize,
    /// The axes that are not searched over, in words.
    pub(crate) condition: String,
    /// The values that are searched over.
    pub(crate) values: Vec<AxisValue>,
    /// The mean of the metric.
    pub(crate) score: f64,
    /// Number of settings that it was chosen from.
    pub(crate) tried: usize,
    /// The most runs of a setting that are missing: planned, and not judged.
    pub(crate) missing: usize,
    /// The names of the values beyond which nothing was tried, and on which side: `largest`.
    pub(crate) at_edge: Vec<(String, &'static str)>,
}

/// Why there is no choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Untuned {
    /// The sweep searches over nothing.
    NothingSearched,
    /// No samples are held out.
    NoValidation,
    /// Runs stop at the target, so that their last metric is that of the target.
    StopsAtTarget,
    /// No run has measured a metric of the samples that are held out.
    NothingMeasured,
}

/// The cells of an arm that differ in the searched settings alone.
struct Search<'s, 'a> {
    condition: String,
    arm: usize,
    cells: Vec<PlacedCell<'s, 'a>>,
}

impl Tuned {
    pub(crate) fn of(findings: &Findings) -> Result<Self, Untuned> {
        let rows = findings.rows();
        if rows.plan.search.is_some() {
            // Its arms have chosen already, by runs that judge nothing.
            return Err(Untuned::NothingSearched);
        }
        let searched = searched(&rows.plan.cells);
        check(findings, &searched)?;
        let metric = metric(findings).ok_or(Untuned::NothingMeasured)?;
        let repeats = findings.study.repeats() as u32;
        let choosers = choosers(repeats as usize);
        let mut tuned = Self { rows: emptied(rows), choices: Vec::new(), metric, choosers, repeats };
        for search in searches(findings, &searched) {
            tuned.choose(rows, &searched, search);
        }
        // Settings that move in lockstep with something else leave nothing to choose from.
        if tuned.choices.iter().all(|choice| choice.tried < 2) {
            return Err(Untuned::NothingSearched);
        }
        Ok(tuned)
    }

    fn choose(&mut self, rows: &SweepRows, searched: &BTreeSet<String>, search: Search<'_, '_>) {
        let Search { condition, arm, cells } = search;
        let metric = self.metric;
        // Settings that were run on, because their comparison was open, are not chosen by more runs than the others.
        let repeats = if self.choosers == 0 { self.repeats } else { self.choosers };
        let scored = cells.iter().map(|placed| (placed.cell, score(placed.cell, metric, repeats)));
        let best = scored.reduce(|best, other| if better(metric, other.1, best.1) { other } else { best });
        // Where each setting has a run that diverged, none is the best.
        let Some((best, score)) = best.filter(|(_, score)| score.is_finite()) else { return };
        let own = |cell: &ArmCell| -> Vec<AxisValue> {
            let axes = rows.plan.cells[cell.index].axes.iter();
            axes.filter(|axis| searched.contains(axis.path.as_str())).cloned().collect()
        };
        let all: Vec<Vec<AxisValue>> = cells.iter().map(|placed| own(placed.cell)).collect();
        let values = own(best);
        let at_edge = values.iter().filter_map(|value| edge(value, &all)).collect();
        let missing = |placed: &PlacedCell| placed.cell.planned.saturating_sub(placed.cell.runs.len());
        let missing = cells.iter().map(missing).fold(0, usize::max);
        self.add(rows, best, &condition);
        self.choices.push(Choice { arm, condition, values, score, tried: cells.len(), missing, at_edge });
    }

    fn add(&mut self, rows: &SweepRows, best: &ArmCell, condition: &str) {
        let number = self.rows.plan.cells.len();
        let cell = &rows.plan.cells[best.index];
        self.rows.plan.report.prices.cells.push(rows.plan.report.prices.of(best.index));
        self.rows.plan.cells.push(Cell { condition: condition.to_owned(), axes: Vec::new(), ..cell.clone() });
        let judging = |run: &&RunRow| run.cell == best.index && run.repeat >= self.choosers;
        for run in rows.runs.iter().filter(judging).collect::<Vec<_>>() {
            let index = self.rows.runs.len();
            self.rows.plan.runs.push(Run { cell: number, repeat: run.repeat, seed: run.seed });
            self.rows.runs.push(RunRow { index, cell: number, ..run.clone() });
        }
    }
}

/// Values of a setting in words: `lr=0.2 momentum=0.9`.
pub fn setting_words(values: &[AxisValue]) -> String {
    let word = |value: &AxisValue| format!("{}={}", value.short(), value.text);
    values.iter().map(word).collect::<Vec<_>>().join(" ")
}

/// Why nothing can be chosen.
fn check(findings: &Findings, searched: &BTreeSet<String>) -> Result<(), Untuned> {
    let cells = &findings.rows().plan.cells;
    let stops = |condition: &Condition<'_>| condition.target.is_some_and(|target| target.stop);
    if searched.is_empty() {
        Err(Untuned::NothingSearched)
    } else if cells.iter().all(|cell| cell.spec.dataset.validation <= 0.0) {
        Err(Untuned::NoValidation)
    } else if findings.study.conditions.iter().any(stops) {
        Err(Untuned::StopsAtTarget)
    } else {
        Ok(())
    }
}

/// In the order of the plan: conditions, and arms within each.
fn searches<'s, 'a>(findings: &'s Findings<'a>, searched: &BTreeSet<String>) -> Vec<Search<'s, 'a>> {
    let mut all: Vec<Search<'s, 'a>> = Vec::new();
    for placed in findings.study.arm_cells().filter(|placed| !placed.cell.runs.is_empty()) {
        let arm = placed.cell.arm;
        let condition = condition(&findings.rows().plan.cells[placed.cell.index], searched);
        match all.iter_mut().find(|search| search.arm == arm && search.condition == condition) {
            Some(search) => search.cells.push(placed),
            None => all.push(Search { condition, arm, cells: vec![placed] }),
        }
    }
    all
}

fn emptied(rows: &SweepRows) -> SweepRows {
    let mut plan = rows.plan.clone();
    (plan.cells, plan.runs) = (Vec::new(), Vec::new());
    plan.report.prices.cells.clear();
    SweepRows { plan, runs: Vec::new(), ..rows.clone() }
}

/// The paths that are searched over: axes of conditions with more than one value.
fn searched(cells: &[Cell]) -> BTreeSet<String> {
    let mut values: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for axis in cells.iter().filter(|cell| cell.excluded.is_none()).flat_map(|cell| &cell.axes) {
        values.entry(&axis.path).or_default().insert(&axis.text);
    }
    let varied = values.into_iter().filter(|(path, values)| values.len() > 1 && is_searched(path));
    varied.map(|(path, _)| path.to_owned()).collect()
}

/// The name of a condition without the axes that are searched over: `workers=4`.
fn condition(cell: &Cell, searched: &BTreeSet<String>) -> String {
    let mut words = format!(" {} ", cell.condition);
    for axis in cell.axes.iter().filter(|axis| searched.contains(&axis.path)) {
        // Two axes with the same short name are labelled by their paths.
        for name in [axis.short(), &axis.path] {
            words = words.replacen(&format!(" {name}={} ", axis.text), " ", 1);
        }
    }
    words.trim().to_owned()
}

fn metric(findings: &Findings) -> Option<Metric> {
    let measured = |metric: &Metric| {
        let mut runs = findings.study.arm_cells().flat_map(|placed| placed.cell.sound_runs());
        runs.any(|judged| judged.last(*metric).is_some_and(f64::is_finite))
    };
    CHOSEN_BY.into_iter().find(measured)
}

/// The fewest repeats that judge: fewer settle nothing.
const FEWEST_JUDGES: usize = 3;

/// Of five repeats or more, at most two in five choose.
fn choosers(repeats: usize) -> u32 {
    let choosers = repeats * 2 / 5;
    if repeats - choosers >= FEWEST_JUDGES && repeats >= 5 { choosers as u32 } else { 0 }
}

/// The mean of a metric at the end of the runs that choose, or of all where none judges; a run that diverged has the worst value there is.
fn score(cell: &ArmCell, metric: Metric, repeats: u32) -> f64 {
    let worst = if metric.higher_is_better() { f64::NEG_INFINITY } else { f64::INFINITY };
    let value = |judged: &JudgedRun<'_>| match judged.last(metric) {
        Some(value) if !value.is_nan() && !judged.has_diverged() => value,
        Some(_) | None => worst,
    };
    let values: Vec<f64> = cell.runs.iter().filter(|judged| judged.run.repeat < repeats).map(value).collect();
    if values.is_empty() { worst } else { values.iter().sum::<f64>() / values.len() as f64 }
}

fn better(metric: Metric, one: f64, other: f64) -> bool {
    if metric.higher_is_better() { one > other } else { one < other }
}

/// Whether a value is the smallest or the largest that was tried.
pub(crate) fn edge(value: &AxisValue, all: &[Vec<AxisValue>]) -> Option<(String, &'static str)> {
    let own = value.number?;
    let numbers = all.iter().flatten().filter(|other| other.path == value.path).map(|other| other.number);
    let numbers: Vec<f64> = numbers.collect::<Option<_>>()?;
    let name = value.short().to_owned();
    let (least, most) =
        numbers.iter().fold((own, own), |(least, most), other| (least.min(*other), most.max(*other)));
    match (own <= least, own >= most) {
        (true, false) => Some((name, "smallest")),
        (false, true) => Some((name, "largest")),
        (true, true) | (false, false) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;
    use crate::sample::{GridAxis, Sample, on_grid};
    use store::{MetricRow, RunState};

    const LR: &str = "train.optimizer.lr";

    fn hold_out(cell: &mut Cell) {
        cell.spec.dataset.validation = 0.1;
    }

    /// Two arms, three rates, two numbers of workers: ps-sync is best at 0.1, d-sync at 0.4 where it has a second worker.
    fn searched_sweep() -> SweepRows {
        let axes = [GridAxis::new("nodes.workers", &[2.0, 4.0]), GridAxis::new(LR, &[0.1, 0.2, 0.4])];
        let mut rows = on_grid(&Sample::duel().rows(), &axes, |arm, _| if arm == 0 { 0.012 } else { 0.008 });
        rows.plan.cells.iter_mut().for_each(hold_out);
        let cells = rows.plan.cells.clone();
        for run in &mut rows.runs {
            let cell = &cells[run.cell];
            let number =
                |path: &str| cell.axes.iter().find(|axis| axis.path == path).unwrap().number.unwrap();
            let best = match (cell.arm, number("nodes.workers") as u32) {
                (0, _) => 0.1,
                (_, 2) => 0.4,
                _ => 0.2,
            };
            let score = 0.9 - (number(LR) / best).ln().abs() / 100.0 + f64::from(run.repeat) * 1e-4;
            let attempt = run.attempt.as_mut().unwrap();
            let last = attempt.metrics.last().unwrap().clone();
            attempt.metrics.push(MetricRow { metric: Metric::ValidationAccuracy, value: score, ..last });
        }
        rows
    }

    fn chosen(rows: &SweepRows) -> Vec<(usize, String, String)> {
        let findings = Findings::of(rows, &Options::default()).unwrap();
        let tuned = Tuned::of(&findings).ok().unwrap();
        let text = |choice: &Choice| {
            choice.values.iter().map(|value| value.text.clone()).collect::<Vec<_>>().join(" ")
        };
        tuned.choices.iter().map(|choice| (choice.arm, choice.condition.clone(), text(choice))).collect()
    }

    #[test]
    fn each_arm_chooses_for_itself_under_each_condition() {
        let rows = searched_sweep();
        let wanted = [
            (0, "workers=2", "0.1"),
            (1, "workers=2", "0.4"),
            (0, "workers=4", "0.1"),
            (1, "workers=4", "0.2"),
        ];
        let wanted = wanted.map(|(arm, condition, text)| (arm, condition.to_owned(), text.to_owned()));
        assert_eq!(chosen(&rows), wanted);
        let findings = Findings::of(&rows, &Options::default()).unwrap();
        let tuned = Tuned::of(&findings).ok().unwrap();
        assert!(tuned.choices.iter().all(|choice| choice.tried == 3));
        let edges: Vec<_> =
            tuned.choices.iter().map(|choice| choice.at_edge.first().map(|edge| edge.1)).collect();
        assert_eq!(edges, [Some("smallest"), Some("largest"), Some("smallest"), None]);
        // The rows have one condition per number of workers, and the runs of the chosen cells.
        let left = Findings::of(&tuned.rows, &Options::default()).unwrap();
        let conditions: Vec<&str> = left.study.conditions.iter().map(|condition| condition.name).collect();
        assert_eq!(conditions, ["workers=2", "workers=4"]);
        let sum: usize = left.study.arm_cells().map(|placed| placed.cell.runs.len()).sum();
        // Two of five repeats chose.
        assert_eq!(sum, 12);
        let first =
            rows.plan.cells.iter().position(|cell| cell.arm == 1 && cell.condition == "workers=2 lr=0.4");
        let ids = |rows: &SweepRows, cell: usize| -> Vec<String> {
            rows.runs
                .iter()
                .filter(|run| run.cell == cell && run.repeat >= 2)
                .map(|run| run.id.clone())
                .collect()
        };
        assert_eq!(ids(&tuned.rows, 1), ids(&rows, first.unwrap()));
        assert_eq!([1, 3, 4, 5, 6, 10].map(choosers), [0, 0, 0, 2, 2, 4]);
    }

    #[test]
    fn a_condition_keeps_what_is_not_searched_over() {
        let searched: BTreeSet<String> = [LR, "train.lr-schedule.warmup"].map(str::to_owned).into();
        let mut cell = searched_sweep().plan.cells[0].clone();
        let axis =
            |path: &str, text: &str| AxisValue { path: path.to_owned(), text: text.to_owned(), number: None };
        cell.axes =
            vec![axis(LR, "0.1"), axis("train.lr-schedule.warmup", "0 epochs"), axis("dataset.seed", "1")];
        cell.condition = "workers=2 lr=0.1 warmup=0 epochs dataset.seed=1".to_owned();
        assert_eq!(condition(&cell, &searched), "workers=2 dataset.seed=1");
        cell.condition = "train.optimizer.lr=0.1 warmup=0 epochs".to_owned();
        assert_eq!(condition(&cell, &searched), "");
    }

    #[test]
    fn a_rate_at_which_a_run_diverged_is_not_the_best() {
        let mut rows = searched_sweep();
        let cell =
            rows.plan.cells.iter().position(|cell| cell.arm == 1 && cell.condition == "workers=2 lr=0.4");
        let run = |rows: &SweepRows, repeat: u32| {
            rows.runs.iter().position(|run| Some(run.cell) == cell && run.repeat == repeat).unwrap()
        };
        // A run that judges has no part in the choice.
        let place = run(&rows, 3);
        rows.runs[place].state = RunState::Diverged;
        assert_eq!(chosen(&rows)[1].2, "0.4");
        let place = run(&rows, 0);
        rows.runs[place].state = RunState::Diverged;
        assert_eq!(chosen(&rows)[1].2, "0.2");
    }

    #[test]
    fn without_a_search_or_a_validation_split_nothing_is_chosen() {
        let why = |rows: &SweepRows| {
            let findings = Findings::of(rows, &Options::default()).unwrap();
            Tuned::of(&findings).err()
        };
        let workers = [GridAxis::new("nodes.workers", &[2.0, 4.0])];
        assert_eq!(
            why(&on_grid(&Sample::duel().rows(), &workers, |_, _| 0.01)),
            Some(Untuned::NothingSearched)
        );
        let rates = [GridAxis::new(LR, &[0.1, 0.2])];
        let unheld = on_grid(&Sample::duel().rows(), &rates, |_, _| 0.01);
        assert_eq!(why(&unheld), Some(Untuned::NoValidation));
        let mut held = unheld.clone();
        held.plan.cells.iter_mut().for_each(hold_out);
        assert_eq!(why(&held), Some(Untuned::NothingMeasured));
    }
}
