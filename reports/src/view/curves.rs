//! Curves over training: every run thin, the median thick, the range as a band.

use crate::chart::{self, Area, Frame, Path, Scale, coordinate, marker};
use crate::number_format::{self, Unit};
use crate::statistics;
use crate::study::{ArmCell, Condition, JudgedRun};
use crate::verdict;
use recipe::{Metric, Target};
use serde::Serialize;

/// Largest number of points of a run; more are thinned evenly, the ends kept.
pub(crate) const MOST_POINTS: usize = 60;

/// The quantity of a chart.
#[derive(Clone, Copy)]
pub(crate) enum Series {
    /// Evaluations of snapshots.
    Metric(Metric),
    /// The mean training loss of steps.
    TrainingLoss,
}

/// A value with its place on each axis.
#[derive(Clone, Copy)]
pub(crate) struct Point {
    pub(crate) seconds: f64,
    pub(crate) epochs: f64,
    pub(crate) samples: f64,
    pub(crate) value: f64,
}

impl Series {
    /// All values of a run, by time; not finite if it diverged.
    pub(crate) fn values(self, judged: &JudgedRun) -> Vec<Point> {
        let attempt = judged.attempt;
        match self {
            Self::Metric(metric) => {
                // No model is judged by its distance from others.
                let apart = metric == Metric::ConsensusDistance;
                let rows = if apart { &attempt.beside } else { &attempt.metrics };
                let rows = rows.iter().filter(|row| row.metric == metric);
                let point = |row: &store::MetricRow| Point {
                    seconds: row.at.seconds(),
                    epochs: row.epoch,
                    samples: row.samples as f64,
                    value: row.value,
                };
                rows.map(point).collect()
            }
            Self::TrainingLoss => {
                let point = |row: &store::LossRow| Point {
                    seconds: row.at.seconds(),
                    epochs: f64::NAN,
                    samples: row.samples as f64,
                    value: row.loss,
                };
                attempt.losses.iter().map(point).collect()
            }
        }
    }

    pub(crate) fn words(self) -> String {
        match self {
            Self::Metric(metric) => verdict::metric_words(metric),
            Self::TrainingLoss => "training loss".to_owned(),
        }
    }

    pub(crate) fn unit(self) -> Unit {
        match self {
            Self::Metric(metric) => Unit::of_metric(metric),
            Self::TrainingLoss => Unit { name: "nats", factor: 1.0 },
        }
    }

    pub(crate) fn higher_is_better(self) -> bool {
        matches!(self, Self::Metric(metric) if metric.higher_is_better())
    }

    /// The axes that it has values for; steps have no epochs.
    pub(crate) fn axes(self) -> &'static [Axis] {
        match self {
            Self::Metric(_) => &[Axis::Wall, Axis::Epochs, Axis::Samples],
            Self::TrainingLoss => &[Axis::Wall, Axis::Samples],
        }
    }

    /// The target, if it is one of this series.
    fn target(self, condition: &Condition) -> Option<Target> {
        condition.target.filter(|target| matches!(self, Self::Metric(metric) if metric == target.metric))
    }

    fn drawn(self, judged: &JudgedRun, axis: Axis) -> Vec<(f64, f64)> {
        let places = self.values(judged).into_iter().map(|point| (axis.place(&point), point.value));
        let points: Vec<(f64, f64)> = places.filter(|(x, y)| x.is_finite() && y.is_finite()).collect();
        if points.len() <= MOST_POINTS {
            return points;
        }
        let last = points.len() - 1;
        (0..MOST_POINTS).map(|place| points[place * last / (MOST_POINTS - 1)]).collect()
    }
}

/// The horizontal axis.
#[derive(Clone, Copy)]
pub(crate) enum Axis {
    Wall,
    Epochs,
    Samples,
}

impl Axis {
    fn name(self) -> &'static str {
        match self {
            Self::Wall => "wall time",
            Self::Epochs => "epochs",
            Self::Samples => "samples",
        }
    }

    pub(crate) fn place(self, point: &Point) -> f64 {
        match self {
            Self::Wall => point.seconds,
            Self::Epochs => point.epochs,
            Self::Samples => point.samples,
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

    fn label(self, unit: Unit) -> String {
        if unit.name.is_empty() { self.name().to_owned() } else { format!("{} ({})", self.name(), unit.name) }
    }
}

/// One choice of the horizontal axis.
#[derive(Debug, Serialize)]
pub(crate) struct Panel {
    pub(crate) axis: String,
    pub(crate) frame: Frame,
    pub(crate) curves: Vec<Curve>,
    pub(crate) target: Option<TargetLine>,
    pub(crate) readout: Readout,
}

/// Converts a pointer's position into values: value = offset + slope x position, for each direction.
#[derive(Debug, Serialize)]
pub(crate) struct Readout {
    pub(crate) x: String,
    pub(crate) y: String,
    pub(crate) x_unit: String,
    pub(crate) y_unit: String,
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
    pub(crate) name: String,
    pub(crate) runs: Vec<String>,
    pub(crate) band: String,
    pub(crate) median: String,
    pub(crate) marks: Vec<Mark>,
}

/// The end of a run: filled if it reached the target, otherwise hollow.
#[derive(Debug, Serialize)]
pub(crate) struct Mark {
    pub(crate) shape: String,
    pub(crate) hollow: bool,
    pub(crate) title: String,
}

struct Canvas {
    x: Scale,
    y: Scale,
    series: Series,
    axis: Axis,
    /// Whether the condition's target is one of this series.
    aims: bool,
}

/// The curves of all arms of a condition; `names` are the arms' by their place in the plan.
pub(crate) fn panel(
    condition: &Condition,
    series: Series,
    axis: Axis,
    names: &dyn Fn(usize) -> String,
) -> Panel {
    let area = Area::wide(400.0);
    let runs = condition.cells.iter().flat_map(|cell| &cell.runs);
    let runs: Vec<Vec<(f64, f64)>> = runs.map(|judged| series.drawn(judged, axis)).collect();
    let largest = runs.iter().flatten().map(|(x, _)| *x).fold(0.0, f64::max);
    let x_unit = axis.unit(largest);
    let y_unit = series.unit();
    let (low, high) = vertical_range(condition, series, &runs);
    let canvas = Canvas {
        x: Scale::new(0.0..=largest * 1.02, area.left..=area.right, x_unit.factor),
        y: Scale::new(low..=high, area.bottom..=area.top, y_unit.factor).rounded(6),
        series,
        axis,
        aims: series.target(condition).is_some(),
    };
    let unit = if y_unit.name.is_empty() { String::new() } else { format!(" ({})", y_unit.name) };
    let labels = [axis.label(x_unit), format!("{}{unit}", series.words())];
    Panel {
        axis: axis.name().to_owned(),
        curves: condition.cells.iter().map(|cell| canvas.curve(cell, names(cell.arm))).collect(),
        target: series.target(condition).map(|target| {
            let y = canvas.y.at(target.threshold);
            TargetLine {
                y: coordinate(y),
                label_y: coordinate(if series.higher_is_better() { y - 6.0 } else { y + 14.0 }),
                label: format!("target {}", verdict::threshold_words(target)),
            }
        }),
        readout: Readout {
            x: canvas.x.inverse(),
            y: canvas.y.inverse(),
            x_unit: if x_unit.name.is_empty() { axis.name() } else { x_unit.name }.to_owned(),
            y_unit: y_unit.name.to_owned(),
        },
        frame: area.frame(&canvas.x, &canvas.y, labels),
    }
}

/// The range of trained models: the untrained model would flatten everything else, and so would a loss that diverges.
fn vertical_range(condition: &Condition, series: Series, runs: &[Vec<(f64, f64)>]) -> (f64, f64) {
    let everything = || runs.iter().flatten();
    let trained: Vec<f64> = everything().filter(|(x, _)| *x > 0.0).map(|(_, y)| *y).collect();
    let values = if trained.is_empty() { everything().map(|(_, y)| *y).collect() } else { trained };
    let target = series.target(condition).map(|target| target.threshold);
    let low = values.iter().copied().chain(target).fold(f64::INFINITY, f64::min);
    let mut high = values.iter().copied().chain(target).fold(f64::NEG_INFINITY, f64::max);
    if matches!(series, Series::TrainingLoss) {
        let first: Vec<f64> = runs.iter().filter_map(|run| run.first()).map(|(_, y)| *y).collect();
        high = high.min(statistics::median(&first).map_or(high, |first| first * 1.5));
    }
    let (low, high) = (low - (high - low) * 0.02, high + (high - low) * 0.04);
    (low.max(0.0), if series.higher_is_better() { high.min(1.0) } else { high })
}

impl Canvas {
    fn place(&self, x: f64, y: f64) -> (f64, f64) {
        (self.x.at(x), self.y.at(y))
    }

    fn line(&self, points: impl Iterator<Item = (f64, f64)>) -> String {
        Path::through(points.map(|(x, y)| self.place(x, y))).finish()
    }

    fn curve(&self, cell: &ArmCell, name: String) -> Curve {
        let runs: Vec<Vec<(f64, f64)>> =
            cell.runs.iter().map(|judged| self.series.drawn(judged, self.axis)).collect();
        let spread: Vec<(f64, [f64; 3])> =
            grid(&runs).into_iter().filter_map(|x| Some((x, spread_at(&runs, x)?))).collect();
        let upper = spread.iter().map(|(x, [_, _, high])| (*x, *high));
        let lower = spread.iter().rev().map(|(x, [low, _, _])| (*x, *low));
        let band = Path::around(upper.chain(lower).map(|(x, y)| self.place(x, y))).finish();
        Curve {
            style: chart::arm_style(cell.arm),
            name,
            band: if runs.len() > 1 { band } else { String::new() },
            median: self.line(spread.iter().map(|(x, [_, middle, _])| (*x, *middle))),
            runs: runs.iter().filter(|run| run.len() > 1).map(|run| self.line(run.iter().copied())).collect(),
            marks: cell.runs.iter().filter_map(|judged| self.mark(cell.arm, judged)).collect(),
        }
    }

    fn mark(&self, arm: usize, judged: &JudgedRun) -> Option<Mark> {
        let hit = judged.hit.filter(|_| self.aims);
        let (point, what) = match hit {
            Some(row) => {
                let at = match self.axis {
                    Axis::Wall => row.at.seconds(),
                    Axis::Epochs => row.epoch,
                    Axis::Samples => row.samples as f64,
                };
                ((at, row.value), "reached the target at")
            }
            None => (*self.series.drawn(judged, self.axis).last()?, "ended at"),
        };
        let (x, y) = self.place(point.0, point.1);
        let unit = self.axis.unit(point.0);
        let title = format!(
            "repeat {} {what} {} {}: {}",
            judged.run.repeat + 1,
            number_format::short(point.0 * unit.factor),
            [unit.name, self.axis.name()].join(" ").trim(),
            self.series.unit().short(point.1)
        );
        Some(Mark { shape: marker(arm, x, y, 4.0), hollow: hit.is_none(), title })
    }
}

/// The positions of the median: the median position of the k-th point, for each k that half of the runs have.
fn grid(runs: &[Vec<(f64, f64)>]) -> Vec<f64> {
    let longest = runs.iter().map(Vec::len).max().unwrap_or(0);
    (0..longest)
        .filter_map(|place| {
            let places: Vec<f64> = runs.iter().filter_map(|run| run.get(place)).map(|(x, _)| *x).collect();
            (places.len() * 2 >= runs.len()).then(|| statistics::median(&places))?
        })
        .collect()
}

/// Lowest, median and highest value at `x` of the runs that have begun and not ended there; `None` if they are fewer than
/// half.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn between_points_lies_a_line_and_beyond_them_nothing() {
        let run = [(1.0, 10.0), (3.0, 20.0)];
        assert_eq!(interpolated(&run, 2.0), Some(15.0));
        assert_eq!(interpolated(&run, 1.0), Some(10.0));
        assert_eq!(interpolated(&run, 3.0), Some(20.0));
        assert_eq!(interpolated(&run, 0.5), None);
        assert_eq!(interpolated(&run, 3.5), None);
    }

    #[test]
    fn the_median_ends_where_half_of_the_runs_have_ended() {
        let run = |last: u32| (0..=last).map(|x| (f64::from(x), f64::from(last))).collect::<Vec<_>>();
        let runs = [run(2), run(4), run(6), run(8)];
        assert_eq!(grid(&runs).last(), Some(&6.0));
        assert_eq!(spread_at(&runs, 1.0), Some([2.0, 5.0, 8.0]));
        assert_eq!(spread_at(&runs, 5.0), Some([6.0, 7.0, 8.0]));
        assert_eq!(spread_at(&runs, 7.0), None);
    }
}
