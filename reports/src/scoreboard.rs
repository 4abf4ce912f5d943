//! The table of arms, for the page and for the terminal.

use crate::findings::Findings;
use crate::number_format::{self, Unit};
use crate::tuned::setting_words;
use crate::verdict;
use comparison::Comparison;
use comparison::statistics::Estimate;
use comparison::study::{ArmCell, Condition, SpeedMeasure};
use recipe::{Metric, Role};
use record::{Category, Nanos};
use serde::Serialize;
use store::AttemptRow;

/// The arms under one condition, one row each, as plain text.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ArmTable {
    /// Empty if there is only one condition.
    pub condition: String,
    /// Names of the columns.
    pub columns: Vec<String>,
    /// One row per arm, one text per column.
    pub rows: Vec<Vec<String>>,
}

/// A column of the scoreboard.
pub(crate) struct Column {
    pub(crate) name: &'static str,
    /// The tooltip of its name.
    pub(crate) meaning: String,
    /// One text for each arm.
    pub(crate) cells: Vec<TextCell>,
    /// Whether it is shown even if all its texts are equal.
    pub(crate) always: bool,
}

/// A text of the table, and the number that it sorts by.
#[derive(Clone, Debug)]
pub(crate) struct TextCell {
    pub(crate) text: String,
    pub(crate) sort: f64,
}

impl TextCell {
    pub(crate) fn missing() -> Self {
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
            let rows = condition.cells.iter().enumerate().map(|(place, cell)| {
                let mut row = vec![findings.study.arm_name(cell.arm).to_owned()];
                row.extend(columns.iter().map(|column| column.cells[place].text.clone()));
                row.push(grade_label(findings, cell, comparisons));
                row
            });
            ArmTable { condition: condition.name.to_owned(), rows: rows.collect(), columns: names }
        })
        .collect()
}

/// The grade of a cell with the loss of quality; `baseline` for the baseline.
pub(crate) fn grade_label(findings: &Findings, cell: &ArmCell, comparisons: &[Comparison]) -> String {
    if cell.arm == findings.study.baseline {
        return "baseline".to_owned();
    }
    let found = comparisons.iter().find(|comparison| comparison.arm == cell.arm);
    found.map_or_else(
        || "–".to_owned(),
        |found| found.grade.label(found.quality.as_ref().map(|gap| gap.grade)),
    )
}

/// The columns that vary between the arms of a condition, and those that are always shown.
pub(crate) fn columns(findings: &Findings, condition: &Condition, comparisons: &[Comparison]) -> Vec<Column> {
    let mut columns = Vec::new();
    columns.extend(setting_column(findings, condition));
    if condition.target.is_some() {
        columns.extend(target_columns(findings, condition));
    }
    columns.push(ratio_column(condition, comparisons));
    columns.push(sure_column(findings, condition, comparisons));
    columns.extend(step_columns(findings, condition));
    columns.extend(diverged_column(condition));
    columns.extend(final_columns(findings, condition));
    columns.retain(|column| column.always || varies(column));
    columns
}

fn varies(column: &Column) -> bool {
    column.cells.iter().any(|cell| cell.text != column.cells[0].text)
}

/// Column of the setting that each arm found for itself; `None` without a search.
fn setting_column(findings: &Findings, condition: &Condition) -> Option<Column> {
    let search = findings.rows().plan.search.as_ref()?;
    let cells = per_entry(condition, |cell| {
        let trial = search.trial_of(cell.index).filter(|_| !cell.runs.is_empty());
        let sort = trial.and_then(|trial| trial.setting.first()?.number);
        TextCell {
            text: trial.map_or_else(|| "–".to_owned(), |trial| setting_words(&trial.setting)),
            sort: sort.unwrap_or(f64::INFINITY),
        }
    });
    let meaning = "what the arm found best, by its short trainings".to_owned();
    Some(Column { name: "setting", meaning, cells, always: true })
}

fn target_columns(findings: &Findings, condition: &Condition) -> Vec<Column> {
    let confidence = findings.thresholds.confidence;
    let reaching = condition.cells.iter().map(|cell| {
        condition.time(cell, SpeedMeasure::TimeToTarget, confidence).filter(|_| !cell.mostly_missed())
    });
    let time = aligned(&reaching.collect::<Vec<_>>(), Unit::of_seconds);
    let steps = per_entry(condition, |cell| {
        let level =
            condition.time(cell, SpeedMeasure::StepsToTarget, confidence).filter(|_| !cell.mostly_missed());
        TextCell::of(level.map(|level| level.value), |steps| number_format::count(steps.round() as u64))
    });
    let reached = per_entry(condition, |cell| TextCell {
        text: format!("{} of {}", cell.reached(), cell.runs.len()),
        sort: -(cell.reached() as f64),
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
            meaning: "samples at the target, divided by the global batch: geometric mean, or the median where some runs did not reach".to_owned(),
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
    let cells = per_entry(condition, |cell| {
        let Some(comparison) = comparisons.iter().find(|comparison| comparison.arm == cell.arm) else {
            return TextCell { text: "1×".to_owned(), sort: -1.0 };
        };
        if !comparison.grade.compares() {
            return TextCell::missing();
        }
        let speed = comparison.speed();
        match (speed.ratio, speed.bound()) {
            (Some(ratio), _) => TextCell { text: number_format::times(ratio.value), sort: -ratio.value },
            (None, Some(least)) => {
                TextCell { text: format!("> {}", number_format::times(least)), sort: -least }
            }
            (None, None) => TextCell::missing(),
        }
    });
    let meaning = "time of the baseline divided by that of the arm";
    let equal = condition.target.is_some() && comparisons.iter().any(|found| found.same_weights.is_some());
    let aside = "; for an arm that ends with the weights of the baseline, bit for bit, their times per step in place of those to the target";
    Column {
        name: "speed-up",
        meaning: format!("{meaning}{}", if equal { aside } else { "" }),
        cells,
        always: !comparisons.is_empty(),
    }
}

/// How sure it is that an arm is faster than the baseline, or slower, by more than the smallest effect that matters.
fn sure_column(findings: &Findings, condition: &Condition, comparisons: &[Comparison]) -> Column {
    let cells = per_entry(condition, |cell| {
        let compared = comparisons.iter().find(|comparison| comparison.arm == cell.arm);
        let Some(comparison) = compared.filter(|found| found.grade.compares()) else {
            return TextCell::missing();
        };
        let Some(sure) = comparison.speed().sure else { return TextCell::missing() };
        let side = if comparison.speed().is_faster() { "faster" } else { "slower" };
        let text = verdict::sure_words(sure);
        let text = if sure < 0.5 { text } else { format!("{text} {side}") };
        TextCell { text, sort: -sure }
    });
    let meaning = format!(
        "how sure it is that the arm is faster than the baseline, or slower, by more than {}: one less the one-sided p, corrected for the number of arms",
        verdict::whole_percent(findings.thresholds.min_effect)
    );
    Column { name: "sure", meaning, cells, always: !comparisons.is_empty() }
}

fn step_columns(findings: &Findings, condition: &Condition) -> Vec<Column> {
    let confidence = findings.thresholds.confidence;
    let of = |estimate: &dyn Fn(&ArmCell) -> Option<Estimate>| {
        aligned(&condition.cells.iter().map(estimate).collect::<Vec<_>>(), Unit::of_seconds)
    };
    let step = of(&|cell| condition.time(cell, SpeedMeasure::StepTime, confidence));
    let typical_step = of(&|cell| condition.typical_step(cell, confidence));
    let tail =
        per_entry(condition, |cell| TextCell::of(tail(condition, cell, confidence), number_format::percent));
    let throughput = per_entry(condition, |cell| {
        TextCell::of(condition.throughput(cell, confidence), |value| {
            format!("{}/s", number_format::short(value))
        })
    });
    let sent = per_entry(condition, |cell| {
        TextCell::of(cell.mean_of(|attempt| cell.worker_bytes_per_step(attempt)), number_format::bytes)
    });
    let waiting = per_entry(condition, |cell| TextCell::of(cell.mean_of(wait_share), number_format::percent));
    vec![
        Column {
            name: "step time",
            meaning: "mean of all steady steps of the slowest worker; where workers step independently, the time in which \
                      all together use one global batch; geometric mean over runs"
                .to_owned(),
            cells: step,
            always: true,
        },
        Column {
            name: "typical step",
            meaning: "the same with each worker's median step".to_owned(),
            cells: typical_step,
            always: false,
        },
        Column {
            name: "tail",
            meaning: "by how much the mean step is longer than the typical one: what rare slow steps cost".to_owned(),
            cells: tail,
            always: false,
        },
        Column {
            name: "throughput",
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

/// The part of the mean step beyond the typical one, over all runs.
fn tail(condition: &Condition, cell: &ArmCell, confidence: f64) -> Option<f64> {
    let mean = condition.time(cell, SpeedMeasure::StepTime, confidence)?.value;
    let typical = condition.typical_step(cell, confidence)?.value;
    (typical > 0.0).then(|| (mean / typical - 1.0).max(0.0))
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

/// `None` if no run diverged.
fn diverged_column(condition: &Condition) -> Option<Column> {
    let cells = per_entry(condition, |cell| TextCell {
        text: format!("{} of {}{}", cell.diverged(), cell.runs.len(), diverged_after(cell)),
        sort: cell.diverged() as f64,
    });
    condition.cells.iter().any(|cell| cell.diverged() > 0).then(|| Column {
        name: "diverged",
        meaning: "runs whose loss left the finite numbers, of those judged, and the steps that they completed before".to_owned(),
        cells,
        always: true,
    })
}

/// ` after 17 steps`, ` after 17 to 40 steps`; nothing where no run diverged or the steps are not known.
fn diverged_after(cell: &ArmCell) -> String {
    let diverged = cell.runs.iter().filter(|judged| judged.has_diverged());
    let steps: Vec<u64> = diverged.map(|judged| judged.attempt.steps).filter(|steps| *steps > 0).collect();
    match (steps.iter().min(), steps.iter().max()) {
        (Some(first), Some(last)) if first < last => {
            format!(" after {} to {} steps", number_format::count(*first), number_format::count(*last))
        }
        (Some(only), _) => format!(" after {}", number_format::plural(*only as usize, "step")),
        (None, _) => String::new(),
    }
}

fn final_columns(findings: &Findings, condition: &Condition) -> Vec<Column> {
    let stops = condition.target.is_some_and(|target| target.stop);
    let Some(metric) = condition.metric.filter(|_| !stops) else { return Vec::new() };
    let top_5 = metric.top_5().filter(|top_5| condition.cells.iter().any(|cell| has_ends(cell, *top_5)));
    let column = |name, metric| final_column(findings, condition, name, metric);
    [Some(column("final metric", metric)), top_5.map(|top_5| column("final top-5", top_5))]
        .into_iter()
        .flatten()
        .collect()
}

fn has_ends(cell: &ArmCell, metric: Metric) -> bool {
    !cell.final_values(metric).is_empty()
}

fn final_column(findings: &Findings, condition: &Condition, name: &'static str, metric: Metric) -> Column {
    let unit = Unit::of_metric(metric);
    let confidence = findings.thresholds.confidence;
    let ends = condition.cells.iter().map(|cell| condition.final_metric(cell, metric, confidence));
    let mut cells = aligned(&ends.collect::<Vec<_>>(), |_| unit);
    if metric.higher_is_better() {
        cells.iter_mut().filter(|cell| cell.sort.is_finite()).for_each(|cell| cell.sort = -cell.sort);
    }
    let meaning = format!(
        "last {}, mean over runs, on the level of the baseline's repeats",
        verdict::metric_words(metric)
    );
    Column { name, meaning, cells, always: true }
}

/// Estimates in one unit, with the decimals that the uncertainty of the middle one supports.
pub(crate) fn aligned(estimates: &[Option<Estimate>], unit: impl Fn(f64) -> Unit) -> Vec<TextCell> {
    let known = || estimates.iter().flatten().filter(|estimate| estimate.value.is_finite());
    let unit = unit(known().map(|estimate| estimate.value).reduce(f64::min).unwrap_or(0.0));
    let mut decimals: Vec<usize> =
        known().map(|estimate| unit.decimals(estimate.value, estimate.uncertainty())).collect();
    decimals.sort_unstable();
    let decimals = decimals.get(decimals.len().saturating_sub(1) / 2).copied().unwrap_or(0);
    // Without an interval a value has the digits that the sentences give it.
    let own = |estimate: &Estimate| {
        if estimate.interval.is_some() { decimals } else { unit.decimals(estimate.value, None) }
    };
    let cell = |estimate: &Estimate| TextCell {
        text: unit.with(unit.number(estimate.value, own(estimate))),
        sort: estimate.value,
    };
    estimates.iter().map(|estimate| estimate.as_ref().map_or_else(TextCell::missing, cell)).collect()
}

fn per_entry(condition: &Condition, cell: impl Fn(&ArmCell) -> TextCell) -> Vec<TextCell> {
    condition.cells.iter().map(cell).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;
    use crate::sample::Sample;
    use store::{RunState, SweepRows};

    fn column(rows: &SweepRows, name: &str) -> Option<Vec<String>> {
        let table = tables(&Findings::of(rows, &Options::default()).unwrap()).remove(0);
        let place = table.columns.iter().position(|column| column == name)?;
        Some(table.rows.iter().map(|row| row[place].clone()).collect())
    }

    #[test]
    fn a_diverged_run_is_counted_and_lends_its_speed_to_no_mean() {
        let mut rows = Sample { target: None, ..Sample::duel() }.rows();
        assert_eq!(column(&rows, "diverged"), None);
        let throughput = column(&rows, "throughput");
        // It ended early: its throughput would be that of nothing.
        rows.runs[1].state = RunState::Diverged;
        rows.runs[1].attempt.as_mut().unwrap().samples = 1;
        rows.runs[1].attempt.as_mut().unwrap().steps = 17;
        assert_eq!(column(&rows, "diverged").unwrap(), ["0 of 5", "1 of 5 after 17 steps"]);
        let [before, after] =
            [throughput, column(&rows, "throughput")].map(|column| column.unwrap()[1].clone());
        let number =
            |text: &str| text.trim_end_matches("/s").replace(['\u{202f}', '\u{a0}', ' '], "").parse::<f64>();
        assert!((number(&before).unwrap() / number(&after).unwrap() - 1.0).abs() < 0.05, "{before} {after}");
    }

    /// Every twentieth step three times as long: what the median hides.
    #[test]
    fn the_tail_is_what_the_typical_step_leaves_out() {
        let mut rows = Sample { target: None, ..Sample::duel() }.rows();
        for run in rows.runs.iter_mut().filter(|run| run.cell == 1) {
            let attempt = run.attempt.as_mut().unwrap();
            let typical = attempt.step_time.unwrap();
            attempt.mean_step_time = Some(Nanos(typical.0 / 20 * 22));
        }
        let tail = column(&rows, "tail").unwrap()[1].replace('\u{a0}', " ");
        assert_eq!(tail, "10.00 %");
    }

    #[test]
    fn a_single_run_has_the_digits_of_its_sentence() {
        let rows = Sample { repeats: 1, target: None, ..Sample::duel() }.rows();
        let verdicts = crate::verdicts(&rows, &Options::default()).unwrap();
        for (text, verdict) in column(&rows, "step time").unwrap().iter().zip(&verdicts) {
            assert!(verdict.sentence.contains(&format!("took {text} (n")), "{text}: {}", verdict.sentence);
        }
    }

    #[test]
    fn where_runs_stop_at_the_target_the_last_metric_is_that_target() {
        let mut rows = Sample::duel().rows();
        assert!(column(&rows, "final metric").is_some());
        for cell in &mut rows.plan.cells {
            cell.spec.train.target.as_mut().unwrap().stop = true;
        }
        assert_eq!(column(&rows, "final metric"), None);
        assert_eq!(column(&rows, "final top-5"), None);
    }

    #[test]
    fn five_scores_have_a_column_where_they_were_measured() {
        let mut rows = Sample { repeats: 1, target: None, ..Sample::duel() }.rows();
        assert_eq!(column(&rows, "final top-5"), None);
        for (run, value) in rows.runs.iter_mut().zip([0.912, 0.934]) {
            let metrics = &mut run.attempt.as_mut().unwrap().metrics;
            let last = metrics.iter().rfind(|row| row.metric == Metric::TestAccuracy).unwrap().clone();
            metrics.push(store::MetricRow { metric: Metric::TestTop5Accuracy, value, ..last });
        }
        assert_eq!(column(&rows, "final top-5").unwrap(), ["91.2\u{a0}%", "93.4\u{a0}%"]);
        let findings = Findings::of(&rows, &Options::default()).unwrap();
        let (condition, comparisons) = findings.conditions().next().unwrap();
        let columns = columns(&findings, condition, comparisons);
        let cells = &columns.iter().find(|column| column.name == "final top-5").unwrap().cells;
        assert!(cells[1].sort < cells[0].sort, "the highest accuracy comes first");
    }
}
