//! The quantities that curves show, and the axes that they are shown over.

use crate::chart::{CurvePoint, thinned};
use crate::number_format::Unit;
use crate::verdict;
use comparison::study::{Condition, JudgedRun};
use recipe::{Metric, Target};

/// Largest number of points of a run's line; more are thinned, the extremes kept.
pub(crate) const MOST_POINTS: usize = 60;

/// Points of all runs of a page together, on one pair of axes; many runs share them, as their lines cover each other.
const SHARED_POINTS: usize = 4_200;

/// Fewer points do not show the form of a curve.
const FEWEST_POINTS: usize = 12;

/// Points of each line on a page of `runs` runs.
pub(crate) fn points_of_each(runs: usize) -> usize {
    (SHARED_POINTS / runs.max(1)).clamp(FEWEST_POINTS, MOST_POINTS)
}

/// The quantity of a chart.
#[derive(Clone, Copy)]
pub(crate) enum Series {
    /// A metric, by the evaluations of snapshots.
    Metric(Metric),
    /// The mean training loss of steps.
    TrainingLoss,
}

/// A value with its place on each axis.
#[derive(Clone, Copy, Debug, PartialEq)]
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
    pub(crate) fn target(self, condition: &Condition) -> Option<Target> {
        condition.target.filter(|target| matches!(self, Self::Metric(metric) if metric == target.metric))
    }

    /// The finite values of a run.
    pub(crate) fn points(self, judged: &JudgedRun) -> Vec<Point> {
        let finite =
            |point: &Point| [point.seconds, point.samples, point.value].iter().all(|one| one.is_finite());
        self.values(judged).into_iter().filter(finite).collect()
    }

    /// The places of all finite values of a run on an axis.
    pub(crate) fn places(self, judged: &JudgedRun, axis: Axis) -> Vec<CurvePoint> {
        let places = self.values(judged).into_iter().map(|point| (axis.place(&point), point.value));
        places.filter(|(x, y)| x.is_finite() && y.is_finite()).collect()
    }

    /// The places drawn of a run: at most `most`, the extremes among them.
    pub(crate) fn drawn(self, judged: &JudgedRun, axis: Axis, most: usize) -> Vec<CurvePoint> {
        thinned(self.places(judged, axis), most)
    }
}

/// Quantity of the horizontal axis.
#[derive(Clone, Copy)]
pub(crate) enum Axis {
    Wall,
    Epochs,
    Samples,
}

impl Axis {
    pub(crate) fn name(self) -> &'static str {
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

    pub(crate) fn unit(self, largest: f64) -> Unit {
        match self {
            Self::Wall => Unit::of_seconds(largest),
            Self::Samples if largest >= 1e6 => Unit { name: "million", factor: 1e-6 },
            Self::Samples if largest >= 1e4 => Unit { name: "thousand", factor: 1e-3 },
            Self::Epochs | Self::Samples => Unit::BARE,
        }
    }

    pub(crate) fn label(self, unit: Unit) -> String {
        if unit.name.is_empty() { self.name().to_owned() } else { format!("{} ({})", self.name(), unit.name) }
    }
}
