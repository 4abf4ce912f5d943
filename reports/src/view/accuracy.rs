//! The section on training: the metric and the training loss of each condition, and the times to the target.

use super::condition_title;
use super::curves::{self, Panel};
use super::described;
use super::folding::are_folded;
use super::reach::{self, Reach};
use super::rise::Rise;
use super::series::{MOST_POINTS, Point, Series, points_of_each};
use super::spread::{Together, together};
use crate::chart::{Figure, Key, Table};
use crate::findings::Findings;
use crate::number_format;
use comparison::study::Condition;
use recipe::Metric;
use serde::Serialize;

/// Largest number of rows of one arm's training loss.
const LOSS_ROWS: usize = 12;

/// Largest number of rows of a table.
const MOST_ROWS: usize = 200;

/// The same where there is a table for each of many conditions.
const MOST_ROWS_FOLDED: usize = 100;

/// Beyond this number of conditions each curve is drawn over one horizontal axis, the first: the page would be too large.
const MOST_WITH_ALL_AXES: usize = 24;

/// The charts of one condition.
#[derive(Debug, Serialize)]
pub(crate) struct Accuracy {
    pub(crate) condition: String,
    pub(crate) legend: Vec<Key>,
    pub(crate) charts: Vec<Chart>,
    pub(crate) reach: Option<Reach>,
}

/// One series over each of its axes.
#[derive(Debug, Serialize)]
pub(crate) struct Chart {
    pub(crate) name: String,
    pub(crate) figure: Figure,
    /// Names of the horizontal axes to choose from.
    pub(crate) axes: Vec<&'static str>,
    /// Names of the vertical axes to choose from.
    pub(crate) rises: Vec<&'static str>,
    /// One for each pair of axes.
    pub(crate) panels: Vec<Panel>,
}

pub(crate) fn all(findings: &Findings) -> Vec<Accuracy> {
    let conditions = findings.study.conditions.iter().enumerate();
    conditions.filter_map(|(number, condition)| of(findings, number, condition)).collect()
}

/// The charts of the condition with this number; `None` if no run has a value.
pub(crate) fn of(findings: &Findings, number: usize, condition: &Condition) -> Option<Accuracy> {
    let series = condition.metric.map(Series::Metric).into_iter().chain([Series::TrainingLoss]);
    let charts: Vec<Chart> = series.filter_map(|series| chart(findings, number, condition, series)).collect();
    let key = |arm| Key::of_arm(arm, findings.study.arm_name(arm));
    (!charts.is_empty()).then(|| Accuracy {
        condition: condition_title(condition),
        legend: condition.cells.iter().map(|cell| key(cell.arm)).collect(),
        charts,
        reach: reach::of(findings, number, condition),
    })
}

/// The chart of a series; `None` if no run has a value.
fn chart(findings: &Findings, number: usize, condition: &Condition, series: Series) -> Option<Chart> {
    let (id, reading) = match series {
        Series::Metric(metric) => (format!("accuracy-{number}"), metric_reading(metric, condition)),
        Series::TrainingLoss => (format!("loss-{number}"), loss_reading(condition)),
    };
    drawn(findings, condition, series, id, reading)
}

/// A chart of a metric that arms are not judged by.
pub(crate) struct MetricChart {
    pub(crate) id: String,
    /// How to read it.
    pub(crate) reading: String,
    pub(crate) metric: Metric,
}

pub(crate) fn metric_chart(findings: &Findings, condition: &Condition, chart: MetricChart) -> Option<Chart> {
    let MetricChart { id, reading, metric } = chart;
    drawn(findings, condition, Series::Metric(metric), id, reading)
}

fn drawn(
    findings: &Findings,
    condition: &Condition,
    series: Series,
    id: String,
    reading: String,
) -> Option<Chart> {
    let mut runs = condition.cells.iter().flat_map(|cell| &cell.runs);
    if !runs.any(|judged| series.values(judged).iter().any(|point| point.value.is_finite())) {
        return None;
    }
    let words = series.words();
    let crowded = findings.study.conditions.len() > MOST_WITH_ALL_AXES;
    let axes = if crowded { 1 } else { series.axes().len() };
    let points = points_of_each(findings.rows().runs.len());
    let names = |arm| findings.study.arm_name(arm).to_owned();
    Some(Chart {
        figure: Figure {
            id,
            title: format!("{words}, {}", condition_title(condition)),
            description: described::curves(condition, series, &names),
            reading,
            table: table(findings, condition, series),
        },
        axes: series.axes().iter().take(axes).map(|axis| axis.name()).collect(),
        rises: Rise::of(series).iter().map(|rise| rise.name()).collect(),
        panels: curves::panels(
            condition,
            curves::choices(series, points).filter(|choice| choice.axis < axes),
            &names,
        ),
        name: words,
    })
}

/// The names of a series' vertical axes.
pub(crate) fn rise_names(series: Series) -> Vec<&'static str> {
    Rise::of(series).iter().map(|rise| rise.name()).collect()
}

/// A series over one choice of its axes, horizontal and vertical, on the sheet of the findings.
pub(crate) fn alone(
    findings: &Findings,
    condition: &Condition,
    series: Series,
    choice: [usize; 2],
) -> Option<(Figure, Panel)> {
    let chart = chart(findings, 0, condition, series)?;
    let names = |arm| findings.study.arm_name(arm).to_owned();
    let [axis, rise] = choice;
    let choice = curves::Choice { series, axis, rise, points: MOST_POINTS, sheet: findings.sheet };
    Some((chart.figure, curves::alone(condition, choice, &names)))
}

fn metric_reading(metric: Metric, condition: &Condition) -> String {
    let better = if metric.higher_is_better() { "higher" } else { "lower" };
    let target = if condition.target.is_some() {
        " A filled mark shows where a run reached the target, a hollow one where it ended without reaching it."
    } else {
        " A hollow mark shows where a run ended."
    };
    format!(
        "Each thin line is one run, the thick line the median over repeats, the band their range, both after equally many samples and \
         at the median of their times; further left and {better} is better. The axis of wall time shows the whole cost, those of epochs and samples only how well each sample is used.{target}"
    )
}

fn loss_reading(condition: &Condition) -> String {
    let heads = if condition.cells.iter().any(|cell| cell.auxiliary_heads) {
        " It includes the weighted losses of the model's auxiliary heads, which no evaluation does."
    } else {
        ""
    };
    format!(
        "The mean loss of a step over all workers, drawn in the same way: lower is better, and a line that leaves the chart \
         at the top diverges. By samples, the lines of arms with the same arithmetic coincide.{heads}"
    )
}

fn table(findings: &Findings, condition: &Condition, series: Series) -> Table {
    let columns = ["arm", "point", "epochs", "samples", "wall time", "median", "lowest", "highest", "runs"];
    let mut table = Table::new(columns);
    // Every arm has its rows: a cut would lose the last ones.
    let most_rows = if are_folded(&findings.study) { MOST_ROWS_FOLDED } else { MOST_ROWS };
    let each = (most_rows / condition.cells.len().max(1)).clamp(2, MOST_POINTS);
    let most = if matches!(series, Series::TrainingLoss) { LOSS_ROWS.min(each) } else { each };
    for cell in &condition.cells {
        let runs: Vec<Vec<Point>> = cell.runs.iter().map(|judged| series.points(judged)).collect();
        for all in together(&runs, most) {
            let mut row = vec![findings.study.arm_name(cell.arm).to_owned(), all.place.to_string()];
            row.extend(table_cells(series, &all));
            table.rows.push(row);
        }
    }
    table.cut(most_rows);
    table
}

fn table_cells(series: Series, all: &Together) -> [String; 7] {
    let unit = series.unit();
    let decimals = if series.higher_is_better() { 2 } else { 4 };
    let Point { seconds, epochs, samples, value } = all.middle;
    let shown = |value: f64| unit.number(value, decimals);
    [
        if epochs.is_finite() { number_format::fixed(epochs, 2) } else { "–".to_owned() },
        number_format::count(samples as u64),
        number_format::seconds(seconds),
        shown(value),
        shown(all.low),
        shown(all.high),
        all.runs.to_string(),
    ]
}
