//! The metric against wall time, epochs and samples: every run thin, the median thick, the range as a band.

use super::condition_title;
use super::reach::{self, Reach};
use crate::chart::{self, Area, Figure, Frame, Key, Path, Scale, Table, coordinate, marker};
use crate::digits::{self, Unit};
use crate::findings::Findings;
use crate::statistics;
use crate::study::{Condition, Entry, Trial};
use crate::verdict;
use recipe::Metric;
use serde::Serialize;
use store::MetricRow;

/// Points of a run that are drawn; more are thinned evenly, the ends kept.
const MOST_POINTS: usize = 60;

/// The charts of one condition.
#[derive(Debug, Serialize)]
pub(crate) struct Accuracy {
    pub(crate) condition: String,
    pub(crate) figure: Figure,
    pub(crate) legend: Vec<Key>,
    pub(crate) panels: Vec<Panel>,
    pub(crate) reach: Option<Reach>,
}

/// One choice of the horizontal axis.
#[derive(Debug, Serialize)]
pub(crate) struct Panel {
    pub(crate) axis: String,
    pub(crate) frame: Frame,
    pub(crate) curves: Vec<Curve>,
    pub(crate) target: Option<TargetLine>,
}

#[derive(Debug, Serialize)]
pub(crate) struct TargetLine {
    pub(crate) y: String,
    pub(crate) label_y: String,
    pub(crate) label: String,
}

/// The curves of one arm.
#[derive(Debug, Serialize)]
pub(crate) struct Curve {
    pub(crate) style: String,
    pub(crate) runs: Vec<String>,
    pub(crate) band: String,
    pub(crate) median: String,
    pub(crate) marks: Vec<Mark>,
}

/// The end of a run: filled where it reached the target, hollow where it stopped short.
#[derive(Debug, Serialize)]
pub(crate) struct Mark {
    pub(crate) shape: String,
    pub(crate) hollow: bool,
    pub(crate) title: String,
}

#[derive(Clone, Copy)]
enum Axis {
    Wall,
    Epochs,
    Samples,
}

impl Axis {
    const ALL: [Self; 3] = [Self::Wall, Self::Epochs, Self::Samples];

    fn name(self) -> &'static str {
        match self {
            Self::Wall => "wall time",
            Self::Epochs => "epochs",
            Self::Samples => "samples",
        }
    }

    fn value(self, row: &MetricRow) -> f64 {
        match self {
            Self::Wall => row.at.seconds(),
            Self::Epochs => row.epoch,
            Self::Samples => row.samples as f64,
        }
    }

    fn unit(self, largest: f64) -> Unit {
        match self {
            Self::Wall => Unit::of_seconds(largest),
            Self::Samples if largest >= 1e6 => Unit { name: "million", factor: 1e-6 },
            Self::Samples if largest >= 1e4 => Unit { name: "thousand", factor: 1e-3 },
            Self::Epochs | Self::Samples => Unit::BARE,
        }
    }
}

pub(crate) fn all(findings: &Findings) -> Vec<Accuracy> {
    let conditions = findings.study.conditions.iter().enumerate();
    conditions.filter_map(|(number, condition)| accuracy(findings, number, condition)).collect()
}

fn accuracy(findings: &Findings, number: usize, condition: &Condition) -> Option<Accuracy> {
    let metric = condition.metric?;
    let words = verdict::metric_words(metric);
    let plotted = condition
        .entries
        .iter()
        .any(|entry| entry.trials.iter().any(|t| !points(t, metric, Axis::Wall).is_empty()));
    if !plotted {
        return None;
    }
    let title = format!("{words}, {}", condition_title(condition));
    Some(Accuracy {
        condition: condition_title(condition),
        figure: Figure {
            id: format!("accuracy-{number}"),
            description: format!(
                "Line chart of {words} for {}. The table below holds the medians.",
                digits::plural(condition.entries.len(), "arm")
            ),
            title,
            reading: reading(metric, condition),
            table: table(findings, condition, metric),
        },
        legend: legend(findings, condition),
        panels: Axis::ALL.into_iter().map(|axis| panel(condition, metric, axis)).collect(),
        reach: reach::of(findings, number, condition),
    })
}

fn reading(metric: Metric, condition: &Condition) -> String {
    let better = if metric.higher_is_better() { "higher" } else { "lower" };
    let target = if condition.target.is_some() {
        " A filled mark is where a run reached the target, a hollow one where it ended without."
    } else {
        " A hollow mark is where a run ended."
    };
    format!(
        "Each thin line is one run, the thick line the median over repeats, the band their range; further left and \
         {better} is better. By wall time the whole cost shows; by epochs or samples only how well each sample is used.{target}"
    )
}

fn legend(findings: &Findings, condition: &Condition) -> Vec<Key> {
    condition.entries.iter().map(|entry| Key::of_arm(entry.arm, findings.study.arm_name(entry.arm))).collect()
}

/// The finite evaluations of a run, by time, thinned.
fn points(trial: &Trial, metric: Metric, axis: Axis) -> Vec<(f64, f64)> {
    let rows = trial.attempt.metrics.iter().filter(|row| row.metric == metric && row.value.is_finite());
    let points: Vec<(f64, f64)> =
        rows.map(|row| (axis.value(row), row.value)).filter(|(x, _)| x.is_finite()).collect();
    if points.len() <= MOST_POINTS {
        return points;
    }
    let last = points.len() - 1;
    (0..MOST_POINTS).map(|place| points[place * last / (MOST_POINTS - 1)]).collect()
}

struct Canvas {
    x: Scale,
    y: Scale,
    metric: Metric,
    axis: Axis,
}

fn panel(condition: &Condition, metric: Metric, axis: Axis) -> Panel {
    let area = Area::wide(400.0);
    let everything: Vec<(f64, f64)> = condition
        .entries
        .iter()
        .flat_map(|e| &e.trials)
        .flat_map(|trial| points(trial, metric, axis))
        .collect();
    let largest = everything.iter().map(|(x, _)| *x).fold(0.0, f64::max);
    let x_unit = axis.unit(largest);
    let y_unit = Unit::of_metric(metric);
    let canvas = Canvas {
        x: Scale::new((0.0, largest * 1.02), (area.left, area.right), x_unit.factor),
        y: Scale::new(vertical_range(condition, metric, &everything), (area.bottom, area.top), y_unit.factor)
            .rounded(6),
        metric,
        axis,
    };
    let x_label = if x_unit.name.is_empty() {
        axis.name().to_owned()
    } else {
        format!("{} ({})", axis.name(), x_unit.name)
    };
    let labels = [x_label, format!("{} ({})", verdict::metric_words(metric), y_unit.name)];
    Panel {
        axis: axis.name().to_owned(),
        curves: condition.entries.iter().map(|entry| canvas.curve(entry)).collect(),
        target: condition.target.map(|target| {
            let y = canvas.y.at(target.threshold);
            let label_y = coordinate(if metric.higher_is_better() { y - 6.0 } else { y + 14.0 });
            TargetLine {
                y: coordinate(y),
                label_y,
                label: format!("target {}", verdict::threshold_words(target)),
            }
        }),
        frame: area.frame(&canvas.x, &canvas.y, labels),
    }
}

/// The range of what was trained: the model before the first step would flatten everything else.
fn vertical_range(condition: &Condition, metric: Metric, everything: &[(f64, f64)]) -> (f64, f64) {
    let trained: Vec<f64> = everything.iter().filter(|(x, _)| *x > 0.0).map(|(_, y)| *y).collect();
    let values = if trained.is_empty() { everything.iter().map(|(_, y)| *y).collect() } else { trained };
    let target = condition.target.map(|target| target.threshold);
    let low = values.iter().copied().chain(target).fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().chain(target).fold(f64::NEG_INFINITY, f64::max);
    let high = high + (high - low) * 0.04;
    let low = low - (high - low) * 0.02;
    if metric.higher_is_better() { (low.max(0.0), high.min(1.0)) } else { (low.max(0.0), high) }
}

impl Canvas {
    fn place(&self, (x, y): (f64, f64)) -> (f64, f64) {
        (self.x.at(x), self.y.at(y))
    }

    fn curve(&self, entry: &Entry) -> Curve {
        let runs: Vec<Vec<(f64, f64)>> =
            entry.trials.iter().map(|trial| points(trial, self.metric, self.axis)).collect();
        let grid = grid(&runs);
        let spread: Vec<(f64, [f64; 3])> =
            grid.iter().filter_map(|x| Some((*x, spread_at(&runs, *x)?))).collect();
        let upper = spread.iter().map(|(x, [_, _, high])| (*x, *high));
        let lower = spread.iter().rev().map(|(x, [low, _, _])| (*x, *low));
        let line =
            |points: &[(f64, f64)]| Path::through(points.iter().map(|point| self.place(*point))).finish();
        Curve {
            style: chart::arm_style(entry.arm),
            band: if runs.len() > 1 {
                Path::around(upper.chain(lower).map(|point| self.place(point))).finish()
            } else {
                String::new()
            },
            median: Path::through(spread.iter().map(|(x, [_, middle, _])| self.place((*x, *middle))))
                .finish(),
            runs: runs.iter().filter(|run| run.len() > 1).map(|run| line(run)).collect(),
            marks: entry.trials.iter().filter_map(|trial| self.mark(entry.arm, trial)).collect(),
        }
    }

    fn mark(&self, arm: usize, trial: &Trial) -> Option<Mark> {
        let (point, hollow) = match trial.hit {
            Some(row) => ((self.axis.value(row), row.value), false),
            None => (*points(trial, self.metric, self.axis).last()?, true),
        };
        let (x, y) = self.place(point);
        let unit = Unit::of_metric(self.metric);
        let what = if hollow { "ended at" } else { "reached the target at" };
        let title = format!(
            "repeat {} {what} {} {}: {}",
            trial.run.repeat + 1,
            digits::short(point.0 * self.axis.unit(point.0).factor),
            [self.axis.unit(point.0).name, self.axis.name()].join(" ").trim(),
            unit.short(point.1)
        );
        Some(Mark { shape: marker(arm, x, y, 4.0), hollow, title })
    }
}

/// Where the median is drawn: the median place of the k-th evaluation, for each k that half of the runs have.
fn grid(runs: &[Vec<(f64, f64)>]) -> Vec<f64> {
    let longest = runs.iter().map(Vec::len).max().unwrap_or(0);
    (0..longest)
        .filter_map(|place| {
            let places: Vec<f64> = runs.iter().filter_map(|run| run.get(place)).map(|(x, _)| *x).collect();
            (places.len() * 2 >= runs.len()).then(|| statistics::median(&places))?
        })
        .collect()
}

/// Lowest, median and highest of the runs at `x`, of those that have begun and not ended there; `None` where
/// that is fewer than half of them.
fn spread_at(runs: &[Vec<(f64, f64)>], x: f64) -> Option<[f64; 3]> {
    let values: Vec<f64> = runs.iter().filter_map(|run| interpolated(run, x)).collect();
    if values.len() * 2 < runs.len() {
        return None;
    }
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    Some([low, statistics::median(&values)?, high])
}

fn interpolated(run: &[(f64, f64)], x: f64) -> Option<f64> {
    let after = run.iter().position(|(at, _)| *at >= x)?;
    let (right_x, right_y) = run[after];
    if after == 0 {
        return (right_x <= x).then_some(right_y);
    }
    let (left_x, left_y) = run[after - 1];
    Some(left_y + (right_y - left_y) * (x - left_x) / (right_x - left_x))
}

fn table(findings: &Findings, condition: &Condition, metric: Metric) -> Table {
    let unit = Unit::of_metric(metric);
    let mut table = Table::new([
        "arm",
        "evaluation",
        "epochs",
        "samples",
        "wall time",
        "median",
        "lowest",
        "highest",
        "runs",
    ]);
    for entry in &condition.entries {
        let runs: Vec<Vec<&MetricRow>> = entry
            .trials
            .iter()
            .map(|trial| trial.attempt.metrics.iter().filter(|row| row.metric == metric).collect())
            .collect();
        let longest = runs.iter().map(Vec::len).max().unwrap_or(0);
        let stride = longest.div_ceil(MOST_POINTS).max(1);
        for place in (0..longest).filter(|place| place % stride == 0 || place + 1 == longest) {
            let rows: Vec<&MetricRow> = runs.iter().filter_map(|run| run.get(place).copied()).collect();
            let values: Vec<f64> =
                rows.iter().map(|row| row.value).filter(|value| value.is_finite()).collect();
            let low = values.iter().copied().reduce(f64::min);
            let high = values.iter().copied().reduce(f64::max);
            let middle =
                |axis: Axis| statistics::median(&rows.iter().map(|row| axis.value(row)).collect::<Vec<_>>());
            let shown = |value: Option<f64>| value.map_or("–".to_owned(), |value| unit.number(value, 2));
            table.rows.push(vec![
                findings.study.arm_name(entry.arm).to_owned(),
                place.to_string(),
                middle(Axis::Epochs).map_or("–".to_owned(), |epochs| digits::fixed(epochs, 2)),
                middle(Axis::Samples).map_or("–".to_owned(), |samples| digits::count(samples as u64)),
                middle(Axis::Wall).map_or("–".to_owned(), digits::seconds),
                shown(statistics::median(&values)),
                shown(low),
                shown(high),
                rows.len().to_string(),
            ]);
        }
    }
    table.cut(200);
    table
}
