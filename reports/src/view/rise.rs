//! The vertical axes of curves: their stretch and their range.

use super::series::{Axis, Series};
use crate::chart::{Area, Scale, Stretch};
use comparison::statistics;
use comparison::study::Condition;
use recipe::Metric;

/// One choice of the vertical axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rise {
    Linear,
    /// For losses and distances.
    Logarithm,
    /// The error rate, one less the accuracy, on a logarithmic scale.
    Error,
}

impl Rise {
    /// The choices that a series has; the first is shown first.
    pub(crate) fn of(series: Series) -> &'static [Self] {
        if series.higher_is_better() {
            &[Self::Linear, Self::Error]
        } else {
            &[Self::Linear, Self::Logarithm]
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Linear => "linear",
            Self::Logarithm => "logarithmic",
            Self::Error => "by error rate",
        }
    }

    /// Words that an axis adds to its name; empty for an evenly divided one.
    pub(crate) fn aside(self) -> &'static str {
        match self {
            Self::Linear => "",
            Self::Logarithm => ", logarithmic axis",
            Self::Error => ", logarithmic in the error rate",
        }
    }

    pub(crate) fn stretch(self) -> Stretch {
        match self {
            Self::Linear => Stretch::Linear,
            Self::Logarithm => Stretch::Logarithm,
            Self::Error => Stretch::Error,
        }
    }
}

/// The scale of a condition's values in an area.
pub(crate) fn vertical_scale(condition: &Condition, series: Series, rise: Rise, area: &Area) -> Scale {
    let values = Values::of(condition, series);
    let [low, high] = match rise {
        Rise::Linear => values.linear(series),
        Rise::Logarithm => values.logarithmic(),
        Rise::Error => values.by_error(),
    };
    let scale = Scale::new(low..=high, area.bottom..=area.top, series.unit().factor);
    match rise {
        Rise::Linear => scale.rounded(6),
        Rise::Logarithm | Rise::Error => scale.stretched(rise.stretch()),
    }
}

/// Values that the range of an axis is made from.
struct Values {
    /// Values of trained models, with the target: the untrained model would flatten everything else.
    trained: Vec<f64>,
    /// Value beyond which a run explodes and leaves the chart: the others would be a line at its bottom.
    most: f64,
}

impl Values {
    fn of(condition: &Condition, series: Series) -> Self {
        let runs = || condition.cells.iter().flat_map(|cell| &cell.runs);
        let points =
            || runs().flat_map(|judged| series.values(judged)).filter(|point| point.value.is_finite());
        // By samples: the evaluation of the untrained model has a wall time.
        let mut trained: Vec<f64> =
            points().filter(|point| point.samples > 0.0).map(|point| point.value).collect();
        if trained.is_empty() {
            trained = points().map(|point| point.value).collect();
        }
        trained.extend(series.target(condition).map(|target| target.threshold));
        let most = match series {
            Series::TrainingLoss => {
                let first: Vec<f64> = runs()
                    .filter_map(|judged| series.places(judged, Axis::Wall).first().copied())
                    .map(|(_, y)| y)
                    .collect();
                statistics::median(&first).map_or(f64::INFINITY, |first| first * 1.5)
            }
            Series::Metric(metric) if metric.higher_is_better() => f64::INFINITY,
            Series::Metric(Metric::ConsensusDistance) => usual(condition, series) * FAR,
            Series::Metric(_) => {
                let untrained: Vec<f64> =
                    points().filter(|point| point.samples <= 0.0).map(|point| point.value).collect();
                statistics::median(&untrained).unwrap_or_else(|| usual(condition, series)) * EXPLODED
            }
        };
        Self { trained, most }
    }

    fn least(&self) -> f64 {
        self.trained.iter().copied().fold(f64::INFINITY, f64::min)
    }

    fn largest(&self) -> f64 {
        let sound = self.trained.iter().copied().filter(|value| *value <= self.most);
        sound.reduce(f64::max).unwrap_or(self.most)
    }

    fn linear(&self, series: Series) -> [f64; 2] {
        let least = self.least();
        let largest = self.largest();
        let low = least - (largest - least) * 0.02;
        let high = largest + (largest - least) * 0.04;
        [low.max(0.0), if series.higher_is_better() { high.min(1.0) } else { high }]
    }

    /// From the least positive value; other values lie at the lower edge.
    fn logarithmic(&self) -> [f64; 2] {
        let positive = self.trained.iter().copied().filter(|value| *value > 0.0);
        let low = positive.reduce(f64::min).unwrap_or(1e-3);
        [low / 1.06, self.largest().max(low) * 1.06]
    }

    /// Up to half of the least error that is above zero; a model without errors lies at the upper edge.
    fn by_error(&self) -> [f64; 2] {
        let errors: Vec<f64> = self.trained.iter().map(|value| (1.0 - value).clamp(0.0, 1.0)).collect();
        let least = errors.iter().copied().filter(|error| *error > 0.0).reduce(f64::min).unwrap_or(0.01);
        let perfect = errors.contains(&0.0);
        let most = errors.iter().copied().fold(least, f64::max);
        let least = if perfect { least / 2.0 } else { least / 1.06 };
        [1.0 - (most * 1.06).min(1.0), 1.0 - least]
    }
}

/// A test loss this many times that of the untrained model exploded: what guesses loses no more than it.
const EXPLODED: f64 = 4.0;

/// A distance between weights this many times as large as usual exploded: distances of sound arms lie far apart.
const FAR: f64 = 1e6;

/// The largest value of an arm, the lower one of the two in the middle; infinite without a positive one.
fn usual(condition: &Condition, series: Series) -> f64 {
    let of_cell = |cell: &comparison::study::ArmCell| {
        let values = cell.runs.iter().flat_map(|judged| series.values(judged)).map(|point| point.value);
        values.filter(|value| value.is_finite() && *value > 0.0).reduce(f64::max)
    };
    let mut largest: Vec<f64> = condition.cells.iter().filter_map(of_cell).collect();
    largest.sort_by(f64::total_cmp);
    largest.get(largest.len().saturating_sub(1) / 2).copied().unwrap_or(f64::INFINITY)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Sample;
    use comparison::study::Study;

    fn scale_of(change: impl Fn(&mut store::MetricRow), rise: Rise) -> Scale {
        let mut rows = Sample { repeats: 1, ..Sample::duel() }.rows();
        for run in &mut rows.runs {
            run.attempt.as_mut().unwrap().metrics.iter_mut().for_each(&change);
        }
        let study = Study::new(&rows, None).unwrap();
        let series = Series::Metric(Metric::TestAccuracy);
        vertical_scale(&study.conditions[0], series, rise, &Area::wide(400.0))
    }

    #[test]
    fn the_untrained_model_is_out_of_the_range_though_its_evaluation_took_time() {
        let slow = |row: &mut store::MetricRow| {
            let untrained = row.samples == 0;
            row.value = if untrained { 0.1 } else { 0.9 + row.samples as f64 / 1e6 };
            row.at.0 += 3_700_000;
        };
        assert!(scale_of(slow, Rise::Linear).low() >= 0.88);
        assert!(scale_of(slow, Rise::Error).low() >= 0.88);
        // Without any training there is nothing else to show.
        let none = |row: &mut store::MetricRow| (row.samples, row.value) = (0, 0.1);
        assert!(scale_of(none, Rise::Linear).low() <= 0.1);
    }

    #[test]
    fn models_without_errors_have_a_place() {
        let perfect = scale_of(|row| row.value = 1.0, Rise::Error);
        let area = Area::wide(400.0);
        assert!((perfect.at(1.0) - area.top).abs() < 1e-9, "{}", perfect.at(1.0));
        assert!(perfect.at(0.97) > area.top);
    }
}
