//! Each arm at its own best settings: what is left to compare when every arm was tuned with the same budget.
//!
//! Rates and schedules under `train` are searched over; the workload (workers, network, data, batch) is not. Each arm chooses for
//! itself, by the mean of the validation metric at the end of some repeats, and is judged by the others: the run that made a
//! setting the best of many was lucky, in every metric and in time, and would be again if it were judged.

use crate::findings::Findings;
use crate::study::{ArmCell, JudgedRun, PlacedCell};
use recipe::{AxisValue, Cell, Metric, Run};
use std::collections::{BTreeMap, BTreeSet};
use store::{RunRow, SweepRows};

/// What is searched over, by the beginning of its path.
const SEARCHED: [&str; 2] = ["train.optimizer", "train.lr-schedule"];

/// Metrics that settings are chosen by, the first that any run has.
const CHOSEN_BY: [Metric; 3] =
    [Metric::ValidationAccuracy, Metric::ValidationLoss, Metric::ValidationPerplexity];

/// The sweep that is left when each arm keeps its best settings.
pub(crate) struct Tuned {
    pub(crate) rows: SweepRows,
    /// In the order of the cells of `rows`.
    pub(crate) choices: Vec<Choice>,
    pub(crate) metric: Metric,
    /// Number of repeats that choose; the others judge. 0 where there are too few to divide.
    pub(crate) choosers: u32,
}

/// What an arm has chosen under a condition.
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

impl Tuned {
    pub(crate) fn of(findings: &Findings) -> Result<Self, Untuned> {
        let rows = findings.rows();
        let searched = searched(&rows.plan.cells);
        if searched.is_empty() {
            return Err(Untuned::NothingSearched);
        }
        if findings
            .study
            .arm_cells()
            .all(|placed| rows.plan.cells[placed.cell.index].spec.dataset.validation <= 0.0)
        {
            return Err(Untuned::NoValidation);
        }
        if findings
            .study
            .conditions
            .iter()
            .any(|condition| condition.target.is_some_and(|target| target.stop))
        {
            return Err(Untuned::StopsAtTarget);
        }
        let metric = metric(findings).ok_or(Untuned::NothingMeasured)?;
        let choosers = choosers(findings.study.repeats());
        // In the order of the plan: conditions, and arms within each.
        let mut groups: Vec<((String, usize), Vec<PlacedCell<'_, '_>>)> = Vec::new();
        for placed in findings.study.arm_cells().filter(|placed| !placed.cell.runs.is_empty()) {
            let key = (condition(&rows.plan.cells[placed.cell.index], &searched), placed.cell.arm);
            match groups.iter_mut().find(|(other, _)| *other == key) {
                Some((_, cells)) => cells.push(placed),
                None => groups.push((key, vec![placed])),
            }
        }
        let chosen = groups.into_iter().map(|((condition, arm), cells)| {
            let scored = cells.iter().map(|placed| (placed.cell, score(placed.cell, metric, choosers)));
            let best =
                scored.reduce(|best, other| if better(metric, other.1, best.1) { other } else { best });
            (condition, arm, cells.clone(), best)
        });
        let mut tuned = Self { rows: emptied(rows), choices: Vec::new(), metric, choosers };
        for (condition, arm, cells, best) in chosen {
            // Where each setting has a run that diverged, none is the best.
            let Some((best, score)) = best.filter(|(_, score)| score.is_finite()) else { continue };
            let own = |cell: &ArmCell| -> Vec<AxisValue> {
                let axes = rows.plan.cells[cell.index].axes.iter();
                axes.filter(|axis| searched.contains(axis.path.as_str())).cloned().collect()
            };
            let all: Vec<Vec<AxisValue>> = cells.iter().map(|placed| own(placed.cell)).collect();
            let values = own(best);
            let at_edge = values.iter().filter_map(|value| edge(value, &all)).collect();
            tuned.add(rows, best, &condition);
            let missing =
                cells.iter().map(|placed| placed.cell.planned.saturating_sub(placed.cell.runs.len())).max();
            let (tried, missing) = (cells.len(), missing.unwrap_or_default());
            tuned.choices.push(Choice { arm, condition, values, score, tried, missing, at_edge });
        }
        // Settings that move in lockstep with something else leave nothing to choose from.
        if tuned.choices.iter().all(|choice| choice.tried < 2) {
            Err(Untuned::NothingSearched)
        } else {
            Ok(tuned)
        }
    }

    fn add(&mut self, rows: &SweepRows, best: &ArmCell, condition: &str) {
        let number = self.rows.plan.cells.len();
        let cell = &rows.plan.cells[best.index];
        self.rows.plan.cells.push(Cell { condition: condition.to_owned(), axes: Vec::new(), ..cell.clone() });
        let judging = |run: &&RunRow| run.cell == best.index && run.repeat >= self.choosers;
        for run in rows.runs.iter().filter(judging).collect::<Vec<_>>() {
            let index = self.rows.runs.len();
            self.rows.plan.runs.push(Run { cell: number, repeat: run.repeat, seed: run.seed });
            self.rows.runs.push(RunRow { index, cell: number, ..run.clone() });
        }
    }
}

fn emptied(rows: &SweepRows) -> SweepRows {
    let mut plan = rows.plan.clone();
    (plan.cells, plan.runs) = (Vec::new(), Vec::new());
    SweepRows { plan, runs: Vec::new(), ..rows.clone() }
}

/// The paths that are searched over: axes of conditions with more than one value.
fn searched(cells: &[Cell]) -> BTreeSet<String> {
    let mut values: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for axis in cells.iter().filter(|cell| cell.excluded.is_none()).flat_map(|cell| &cell.axes) {
        values.entry(&axis.path).or_default().insert(&axis.text);
    }
    let varied = values.into_iter().filter(|(path, values)| {
        values.len() > 1
            && SEARCHED.iter().any(|key| {
                path.strip_prefix(key).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            })
    });
    varied.map(|(path, _)| path.to_owned()).collect()
}

/// The axes of a condition that are not searched over: `workers=4`.
fn condition(cell: &Cell, searched: &BTreeSet<String>) -> String {
    // The values of the arm's own axes are part of its name.
    let own = |axis: &&AxisValue| !axis.path.starts_with("strategy.") && !searched.contains(&axis.path);
    let word = |axis: &AxisValue| {
        let name = axis.path.strip_suffix(".kind").unwrap_or(&axis.path);
        format!("{}={}", name.rsplit('.').next().unwrap_or(name), axis.text)
    };
    let words = cell
        .axes
        .iter()
        .filter(own)
        .map(word)
        .filter(|word| cell.condition.split(' ').any(|own| own == word));
    words.collect::<Vec<_>>().join(" ")
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
fn score(cell: &ArmCell, metric: Metric, choosers: u32) -> f64 {
    let worst = if metric.higher_is_better() { f64::NEG_INFINITY } else { f64::INFINITY };
    let value = |judged: &JudgedRun<'_>| {
        let last = judged.last(metric).filter(|value| !value.is_nan() && !judged.has_diverged());
        last.unwrap_or(worst)
    };
    let values: Vec<f64> =
        cell.runs.iter().filter(|judged| choosers == 0 || judged.run.repeat < choosers).map(value).collect();
    if values.is_empty() { worst } else { values.iter().sum::<f64>() / values.len() as f64 }
}

fn better(metric: Metric, one: f64, other: f64) -> bool {
    if metric.higher_is_better() { one > other } else { one < other }
}

/// Whether a value is the smallest or the largest that was tried.
fn edge(value: &AxisValue, all: &[Vec<AxisValue>]) -> Option<(String, &'static str)> {
    let own = value.number?;
    let numbers = all.iter().flatten().filter(|other| other.path == value.path).map(|other| other.number);
    let numbers: Vec<f64> = numbers.collect::<Option<_>>()?;
    let name = value.path.rsplit('.').next().unwrap_or(&value.path).to_owned();
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
        // What is left is a sweep of one condition per number of workers, with the runs of the chosen cells.
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
