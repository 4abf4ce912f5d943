//! The table of arms: the same cells for the page and for the terminal.

use crate::comparison::{Comparison, Grade};
use crate::digits::{self, Unit};
use crate::findings::Findings;
use crate::statistics::{self, Estimate};
use crate::study::{Condition, Entry, Measure};
use crate::verdict;
use recipe::Role;
use record::{Category, Nanos};
use serde::Serialize;
use store::AttemptRow;

/// A table of plain text: the arms under one condition, one row each.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ArmTable {
    /// The condition; empty where there is only one.
    pub condition: String,
    /// Names of the columns.
    pub columns: Vec<String>,
    /// One row for each arm; as many cells as there are columns.
    pub rows: Vec<Vec<String>>,
}

/// One column of the scoreboard before it is known whether it varies.
pub(crate) struct Column {
    pub(crate) name: &'static str,
    /// What the column holds, for a reader who points at its name.
    pub(crate) meaning: String,
    /// One cell for each entry.
    pub(crate) cells: Vec<Cell>,
    /// Whether it stays even where all cells are equal.
    pub(crate) always: bool,
}

/// A cell: text, and what it sorts by.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    pub(crate) text: String,
    pub(crate) sort: f64,
}

impl Cell {
    fn missing() -> Self {
        Self { text: "–".to_owned(), sort: f64::INFINITY }
    }

    fn of(value: Option<f64>, text: impl Fn(f64) -> String) -> Self {
        value.map_or_else(Self::missing, |value| Self { text: text(value), sort: value })
    }
}

/// The tables of all conditions with the columns that vary, and the grade.
pub(crate) fn tables(findings: &Findings) -> Vec<ArmTable> {
    findings
        .conditions()
        .map(|(condition, comparisons)| {
            let columns = columns(findings, condition, comparisons);
            let mut names = vec!["arm".to_owned()];
            names.extend(columns.iter().map(|column| column.name.to_owned()));
            names.push("verdict".to_owned());
            let rows = condition.entries.iter().enumerate().map(|(place, entry)| {
                let mut row = vec![findings.study.arm_name(entry.arm).to_owned()];
                row.extend(columns.iter().map(|column| column.cells[place].text.clone()));
                row.push(grade_name(findings, entry, comparisons).to_owned());
                row
            });
            ArmTable { condition: condition.name.to_owned(), rows: rows.collect(), columns: names }
        })
        .collect()
}

/// The grade of an entry, or what stands in its place.
pub(crate) fn grade_name(findings: &Findings, entry: &Entry, comparisons: &[Comparison]) -> &'static str {
    if entry.arm == findings.study.baseline {
        return "baseline";
    }
    comparisons
        .iter()
        .find(|comparison| comparison.arm == entry.arm)
        .map_or("–", |found| found.grade.name())
}

/// The columns that vary between the arms of a condition, and those that are always shown.
pub(crate) fn columns(findings: &Findings, condition: &Condition, comparisons: &[Comparison]) -> Vec<Column> {
    let mut columns = Vec::new();
    if condition.target.is_some() {
        columns.extend(target_columns(findings, condition));
    }
    columns.push(ratio_column(condition, comparisons));
    columns.extend(step_columns(findings, condition));
    columns.push(final_column(findings, condition));
    columns.push(fastest_column(condition));
    columns.retain(|column| column.always || varies(column));
    columns
}

fn varies(column: &Column) -> bool {
    column.cells.iter().any(|cell| cell.text != column.cells[0].text)
}

fn target_columns(findings: &Findings, condition: &Condition) -> Vec<Column> {
    let confidence = findings.thresholds.confidence;
    let reaching = condition.entries.iter().map(|entry| {
        let values = entry.values(Measure::TimeToTarget);
        verdict::typical(&values, confidence).filter(|_| !entry.mostly_missed())
    });
    let time = aligned(&reaching.collect::<Vec<_>>(), Unit::of_seconds);
    let steps = per_entry(condition, |entry| {
        let values: Vec<f64> = entry
            .trials
            .iter()
            .map(|trial| trial.hit.map_or(f64::INFINITY, |row| row.samples as f64))
            .map(|samples| samples / f64::from(findings.batch(entry)))
            .collect();
        let middle = statistics::median(&values).filter(|value| value.is_finite() && !entry.mostly_missed());
        Cell::of(middle, |steps| digits::count(steps.round() as u64))
    });
    let reached = per_entry(condition, |entry| Cell {
        text: format!("{} of {}", entry.reached(), entry.trials.len()),
        sort: -(entry.reached() as f64),
    });
    vec![
        Column {
            name: "time to target",
            meaning: "geometric mean; the median where some runs did not reach".to_owned(),
            cells: time,
            always: true,
        },
        Column {
            name: "steps to target",
            meaning: "median of samples at the target, divided by the global batch".to_owned(),
            cells: steps,
            always: false,
        },
        Column {
            name: "reached",
            meaning: "runs that reached the target, of those judged".to_owned(),
            cells: reached,
            always: false,
        },
    ]
}

fn ratio_column(condition: &Condition, comparisons: &[Comparison]) -> Column {
    let cells = per_entry(condition, |entry| {
        let Some(comparison) = comparisons.iter().find(|comparison| comparison.arm == entry.arm) else {
            return Cell { text: "1×".to_owned(), sort: -1.0 };
        };
        if comparison.grade == Grade::DidNotReach {
            return Cell::missing();
        }
        match (comparison.ratio, comparison.at_least) {
            (Some(ratio), _) => Cell { text: digits::times(ratio.value), sort: -ratio.value },
            (None, Some(least)) => Cell { text: format!("> {}", digits::times(least)), sort: -least },
            (None, None) => Cell::missing(),
        }
    });
    Column {
        name: "speed-up",
        meaning: "time of the baseline divided by that of the arm".to_owned(),
        cells,
        always: !comparisons.is_empty(),
    }
}

fn step_columns(findings: &Findings, condition: &Condition) -> Vec<Column> {
    let confidence = findings.thresholds.confidence;
    let steps = condition.entries.iter().map(|entry| verdict::typical(&entry.step_times(), confidence));
    let step = aligned(&steps.collect::<Vec<_>>(), Unit::of_seconds);
    let throughput = per_entry(condition, |entry| {
        let value = entry.mean_of(|attempt| {
            let training = attempt.training?.seconds();
            (training > 0.0).then(|| attempt.samples as f64 / training)
        });
        Cell::of(value, |value| format!("{}/s", digits::short(value)))
    });
    let sent = per_entry(condition, |entry| {
        Cell::of(entry.mean_of(|attempt| entry.worker_bytes_per_step(attempt)), digits::bytes)
    });
    let waiting = per_entry(condition, |entry| Cell::of(entry.mean_of(wait_share), digits::percent));
    vec![
        Column {
            name: "step time",
            meaning: "median steady step of the slowest worker; where workers go at their own pace, the time in which \
                      all together use one global batch; geometric mean over runs"
                .to_owned(),
            cells: step,
            always: true,
        },
        Column {
            name: "samples",
            meaning: "samples per second of training, all workers".to_owned(),
            cells: throughput,
            always: false,
        },
        Column {
            name: "sent/step",
            meaning: "bytes one worker sends per step".to_owned(),
            cells: sent,
            always: false,
        },
        Column {
            name: "waiting",
            meaning: "share of the workers' steady steps spent waiting".to_owned(),
            cells: waiting,
            always: false,
        },
    ]
}

fn wait_share(attempt: &AttemptRow) -> Option<f64> {
    let workers = || attempt.ranks.iter().filter(|rank| rank.role == Role::Worker);
    let total: f64 = workers().map(|rank| rank.steady.time.seconds()).sum();
    let waited: f64 = workers()
        .flat_map(|rank| &rank.phases)
        .filter(|row| row.lane == record::LaneId::Compute && row.phase.category() == Category::Waiting)
        .map(|row| Nanos::seconds(row.total))
        .sum();
    (total > 0.0).then(|| waited / total)
}

fn final_column(findings: &Findings, condition: &Condition) -> Column {
    let Some(metric) = condition.metric else {
        let cells = per_entry(condition, |_| Cell::missing());
        return Column { name: "final metric", meaning: String::new(), cells, always: false };
    };
    let unit = Unit::of_metric(metric);
    let confidence = findings.thresholds.confidence;
    let ends = condition.entries.iter().map(|entry| {
        let values: Vec<f64> = entry.final_values(metric).into_iter().map(|(_, value)| value).collect();
        statistics::mean(&values, confidence)
    });
    let mut cells = aligned(&ends.collect::<Vec<_>>(), |_| unit);
    if metric.higher_is_better() {
        cells.iter_mut().filter(|cell| cell.sort.is_finite()).for_each(|cell| cell.sort = -cell.sort);
    }
    let meaning = format!("last {}, mean over runs", verdict::metric_words(metric));
    Column { name: "final metric", meaning, cells, always: true }
}

fn fastest_column(condition: &Condition) -> Column {
    let measure = condition.measure();
    let samples: Vec<Vec<f64>> = condition.entries.iter().map(|entry| entry.values(measure)).collect();
    let usable = samples.len() > 1 && samples.iter().any(|values| values.len() > 1);
    let shares = statistics::share_of_smallest(&samples);
    let cells = shares
        .iter()
        .map(|share| Cell { text: format!("{} %", digits::fixed(share * 100.0, 0)), sort: -share })
        .collect();
    let meaning = "how often the arm is fastest when the runs are resampled".to_owned();
    Column { name: "fastest", meaning, cells, always: usable }
}

/// Estimates in one unit, with the decimals that the uncertainty of the middle one supports.
fn aligned(estimates: &[Option<Estimate>], unit: impl Fn(f64) -> Unit) -> Vec<Cell> {
    let known = || estimates.iter().flatten().filter(|estimate| estimate.value.is_finite());
    let unit = unit(known().map(|estimate| estimate.value).reduce(f64::min).unwrap_or(0.0));
    let mut decimals: Vec<usize> =
        known().map(|estimate| unit.decimals(estimate.value, estimate.uncertainty())).collect();
    decimals.sort_unstable();
    let decimals = decimals.get(decimals.len().saturating_sub(1) / 2).copied().unwrap_or(0);
    let cell = |estimate: &Estimate| Cell {
        text: unit.with(unit.number(estimate.value, decimals)),
        sort: estimate.value,
    };
    estimates.iter().map(|estimate| estimate.as_ref().map_or_else(Cell::missing, cell)).collect()
}

fn per_entry(condition: &Condition, cell: impl Fn(&Entry) -> Cell) -> Vec<Cell> {
    condition.entries.iter().map(cell).collect()
}
