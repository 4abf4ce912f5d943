//! Lines of parallel coordinates: every arm under every condition, and which axis changes the time most.

use crate::axes::Axes;
use crate::findings::Findings;
use comparison::statistics;
use comparison::study::{Condition, Lost, SpeedMeasure};
use recipe::Metric;
use std::collections::BTreeMap;

/// Values of an axis up to which every two are compared; of more, the first and the last.
const MOST_COMPARED: usize = 24;

/// Measures that the ends of lines are compared by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Compared {
    pub(super) measure: SpeedMeasure,
    /// Final metric, of runs that do not stop at their target: those that do all end with the same.
    pub(super) metric: Option<Metric>,
}

/// An arm under a condition.
#[derive(Clone, Debug)]
pub(super) struct Way {
    pub(super) arm: usize,
    pub(super) condition: usize,
    /// The index of its value on each axis.
    pub(super) places: Vec<usize>,
    /// `None` if it is lost.
    pub(super) seconds: Option<f64>,
    pub(super) quality: Option<f64>,
    pub(super) lost: Option<Lost>,
    /// Whether it is lost, or another arm of its condition is better in one and not worse in the other, by what matters
    /// of the metric.
    pub(super) beaten: bool,
}

/// All that have a time, or are known to have none.
pub(super) fn ways(findings: &Findings, axes: &Axes, compared: Compared) -> Vec<Way> {
    let mut all = Vec::new();
    for ((number, condition), places) in findings.study.conditions.iter().enumerate().zip(&axes.places) {
        let mut own: Vec<Way> = Vec::new();
        for cell in &condition.cells {
            let diverged_alone =
                |lost: &Lost| compared.measure == SpeedMeasure::TimeToTarget || *lost == Lost::Diverged;
            let lost = condition.lost(cell).filter(diverged_alone);
            let confidence = findings.thresholds.confidence;
            let sound = |value: &f64| value.is_finite() && *value > 0.0;
            let time =
                condition.time(cell, compared.measure, confidence).map(|time| time.value).filter(sound);
            let seconds = time.filter(|_| lost.is_none());
            let metric =
                compared.metric.filter(|metric| condition.metric == Some(*metric) && !stops(condition));
            let quality = metric.and_then(|metric| condition.final_metric(cell, metric, confidence));
            let quality = quality.map(|quality| quality.value).filter(|value| value.is_finite());
            if seconds.is_some() || lost.is_some() {
                let places = places.clone();
                own.push(Way {
                    arm: cell.arm,
                    condition: number,
                    places,
                    seconds,
                    quality,
                    lost,
                    beaten: false,
                });
            }
        }
        let margin = margin(findings, &own, compared.metric);
        let is_beaten = |way: &Way| own.iter().any(|other| is_beaten(way, other, compared.metric, margin));
        let beaten: Vec<bool> = own.iter().map(is_beaten).collect();
        all.extend(own.into_iter().zip(beaten).map(|(way, beaten)| Way { beaten, ..way }));
    }
    all
}

/// Whether runs end at their target.
pub(super) fn stops(condition: &Condition) -> bool {
    condition.target.is_some_and(|target| target.stop)
}

/// `margin` is the smallest difference of the metric that matters.
fn is_beaten(own: &Way, other: &Way, metric: Option<Metric>, margin: f64) -> bool {
    let Some(others) = other.seconds else { return false };
    let Some(seconds) = own.seconds else { return true };
    let higher = metric.is_none_or(Metric::higher_is_better);
    let gain = match (own.quality, other.quality) {
        (Some(own), Some(other)) if higher => other - own,
        (Some(own), Some(other)) => own - other,
        _ => 0.0,
    };
    others <= seconds && gain >= -margin && (others < seconds || gain > margin)
}

/// The smallest difference of a metric that matters.
fn margin(findings: &Findings, own: &[Way], metric: Option<Metric>) -> f64 {
    let qualities: Vec<f64> = own.iter().filter_map(|way| way.quality).collect();
    match metric {
        Some(metric) if !metric.higher_is_better() => {
            let level = statistics::average(&qualities).unwrap_or_default();
            findings.thresholds.min_effect * level.abs()
        }
        _ => findings.thresholds.min_quality,
    }
}

/// How much longer a step or a training takes at one value of an axis than at another.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Effect {
    pub(super) axis: usize,
    /// The value with less time, then that with more.
    pub(super) values: [usize; 2],
    pub(super) times: f64,
}

/// The axis that changes the time most: by the geometric mean over lines that differ in its value alone, so that a plan with holes compares
/// like with like. `None` where no two lines do.
pub(super) fn strongest(ways: &[Way], axes: &Axes) -> Option<Effect> {
    let effects = (0..axes.ordered.len()).filter_map(|axis| effect(ways, axes, axis));
    effects.reduce(|most, next| if next.times > most.times { next } else { most })
}

/// How the value of an axis decides whether there is a time.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TimesLost {
    pub(super) axis: usize,
    /// The value with times, then that without.
    pub(super) values: [usize; 2],
    /// Lines that have a time at the first and none at the second.
    pub(super) lost: usize,
    /// Lines that have one at the first, and are known at the second.
    pub(super) of: usize,
}

/// The axis that decides most often whether lines have a time: no ratio of times counts those that have none.
pub(super) fn most_lost(ways: &[Way], axes: &Axes) -> Option<TimesLost> {
    let lost_by_axis = (0..axes.ordered.len()).filter_map(|axis| {
        let alike = alike(ways, axis);
        let between = |[with, without]: [usize; 2]| {
            let at = |line: &BTreeMap<usize, Option<f64>>| {
                let has_time = |value| line.get(&value).map(Option::is_some);
                has_time(with).zip(has_time(without)).filter(|(with, _)| *with)
            };
            let known: Vec<(bool, bool)> = alike.values().filter_map(at).collect();
            let lost = known.iter().filter(|(_, without)| !without).count();
            (lost > 0).then_some(TimesLost { axis, values: [with, without], lost, of: known.len() })
        };
        let both = |pair: [usize; 2]| [pair, [pair[1], pair[0]]];
        pairs(axes, axis).into_iter().flat_map(both).filter_map(between).reduce(more)
    });
    lost_by_axis.reduce(more)
}

/// The one with more lines lost, of as many the one with the larger share of them.
fn more(most: TimesLost, next: TimesLost) -> TimesLost {
    let size = |times: &TimesLost| (times.lost, std::cmp::Reverse(times.of));
    if size(&next) > size(&most) { next } else { most }
}

/// The logarithms of the times of lines that differ in their value of an axis alone, by these values.
type Alike = BTreeMap<(usize, Vec<usize>), BTreeMap<usize, Option<f64>>>;

fn alike(ways: &[Way], axis: usize) -> Alike {
    let mut alike = Alike::new();
    for way in ways.iter().filter(|way| axis < way.places.len()) {
        let mut others = way.places.clone();
        let value = others.remove(axis);
        alike.entry((way.arm, others)).or_default().insert(value, way.seconds.map(f64::ln));
    }
    alike
}

/// The values of an axis that are compared.
fn pairs(axes: &Axes, axis: usize) -> Vec<[usize; 2]> {
    let number = axes.ordered.get(axis).map_or(0, |axis| axis.values.len());
    if number > MOST_COMPARED {
        vec![[0, number - 1]]
    } else {
        (0..number).flat_map(|one| (one + 1..number).map(move |other| [one, other])).collect()
    }
}

fn effect(ways: &[Way], axes: &Axes, axis: usize) -> Option<Effect> {
    let alike = alike(ways, axis);
    let between = |[one, other]: [usize; 2]| {
        let time = |line: &BTreeMap<usize, Option<f64>>, value| line.get(&value).copied().flatten();
        let found: Vec<f64> =
            alike.values().filter_map(|line| Some(time(line, other)? - time(line, one)?)).collect();
        let mean = found.iter().sum::<f64>() / found.len() as f64;
        let values = if mean < 0.0 { [other, one] } else { [one, other] };
        (!found.is_empty()).then(|| Effect { axis, values, times: mean.abs().exp() })
    };
    let found = pairs(axes, axis).into_iter().filter_map(between);
    found.reduce(|most, next| if next.times > most.times { next } else { most })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn way(arm: usize, seconds: f64, quality: f64) -> Way {
        let seconds = Some(seconds);
        let quality = Some(quality);
        Way { arm, condition: 0, places: vec![0], seconds, quality, lost: None, beaten: false }
    }

    #[test]
    fn a_line_is_beaten_by_one_that_is_better_in_one_and_not_worse_in_the_other() {
        let lost = Way { seconds: None, lost: Some(Lost::Missed), ..way(2, 1.0, 0.99) };
        let without = Way { quality: None, ..way(1, 0.9, 0.0) };
        for (other, metric, beaten) in [
            (way(1, 0.9, 0.95), Metric::TestAccuracy, true),
            (way(1, 1.0, 0.97), Metric::TestAccuracy, true),
            (way(1, 1.0, 0.955), Metric::TestAccuracy, false),
            (way(1, 1.0, 0.95), Metric::TestAccuracy, false),
            (way(1, 0.9, 0.945), Metric::TestAccuracy, true),
            (way(1, 0.9, 0.93), Metric::TestAccuracy, false),
            (way(1, 0.9, 0.93), Metric::TestLoss, true),
            (lost.clone(), Metric::TestAccuracy, false),
            (without, Metric::TestAccuracy, true),
        ] {
            assert_eq!(
                is_beaten(&way(0, 1.0, 0.95), &other, Some(metric), 0.01),
                beaten,
                "{other:?}, {metric:?}"
            );
        }
        assert!(!is_beaten(&lost, &lost, None, 0.01), "no arm has a time");
    }
}
