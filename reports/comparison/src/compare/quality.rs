//! The final metric of an arm against the baseline's.

use super::grade::Quality;
use super::{Comparison, Thresholds};
use crate::statistics::{self, Estimate, Summary, student_below};
use crate::study::{ArmCell, Condition};
use recipe::Metric;
use std::collections::BTreeMap;
use std::num::NonZeroU64;

/// The difference of the final metric: arm less baseline, in the metric's unit.
#[derive(Clone, Debug)]
pub struct QualityGap {
    /// Metric that is compared at the end of the runs.
    pub metric: Metric,
    /// Arm less baseline, with its interval.
    pub gap: Estimate,
    /// The difference that does not matter, in the metric's unit.
    pub margin: f64,
    /// Pairs of runs that both ended as planned, of the judged runs of the arm that has more.
    pub pairs: Share,
    mean: Option<Summary>,
    /// Corrected for the number of arms.
    pub grade: Quality,
}

/// A count, and the count of all that it is a part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    pub part: usize,
    pub whole: usize,
}

/// Below this number of pairs nothing is settled.
const FEWEST: f64 = 3.0;

impl QualityGap {
    /// `None` where runs stop at the target, or where a side has no final value.
    pub fn of(
        condition: &Condition,
        cell: &ArmCell,
        base: &ArmCell,
        equal: bool,
        thresholds: Thresholds,
    ) -> Option<Self> {
        let metric = condition.metric?;
        if condition.target.is_some_and(|target| target.stop) {
            return None;
        }
        let own: BTreeMap<u32, f64> = cell.final_values(metric).into_iter().collect();
        let other: BTreeMap<u32, f64> = base.final_values(metric).into_iter().collect();
        let gaps: Vec<f64> =
            own.iter().filter_map(|(repeat, value)| Some(value - other.get(repeat)?)).collect();
        let pairs = Share { part: gaps.len(), whole: due(cell, base) };
        let level = statistics::average(&other.into_values().collect::<Vec<_>>())?;
        let margin = if metric.higher_is_better() {
            thresholds.min_quality
        } else {
            thresholds.min_effect * level.abs()
        };
        if equal {
            let gap = Estimate { value: 0.0, interval: Some((0.0, 0.0)) };
            return Some(Self { metric, gap, margin, pairs, mean: None, grade: Quality::SameWeights });
        }
        let mean = Summary::of(&gaps).map(|mean| resolved(mean, cell.classified(metric)));
        let gap = match mean {
            Some(mean) => mean.estimate(1.0 - thresholds.level()),
            None => statistics::mean(&gaps, 1.0 - thresholds.level())?,
        };
        // Shares of the same samples differ by one at most.
        let widest = if cell.classified(metric).is_some() { 1.0 } else { f64::INFINITY };
        let gap = gap.map(|end| end.clamp(-widest, widest));
        Some(Self { metric, gap, margin, pairs, mean, grade: Quality::Open })
    }

    /// One with these words, for tests of sentences.
    #[doc(hidden)]
    pub fn sample(metric: Metric, gap: Estimate, margin: f64, grade: Quality) -> Self {
        Self { metric, gap, margin, pairs: Share { part: 5, whole: 5 }, mean: None, grade }
    }

    /// One-sided p that the arm is better than the baseline by more than `edge`, and that it is worse than by `edge`.
    fn sides(&self, edge: f64) -> [f64; 2] {
        let sign = if self.metric.higher_is_better() { 1.0 } else { -1.0 };
        let Some(mean) = self.mean.filter(|mean| mean.size >= FEWEST) else { return [1.0; 2] };
        let distance = sign * mean.mean - edge;
        // Differences of shares are not exact: one of the margin itself is not beyond it.
        let distance = if distance.abs() < 1e-9 { 0.0 } else { distance };
        let standard = match (mean.error(), distance) {
            (_, 0.0) => 0.0,
            (0.0, distance) => f64::INFINITY.copysign(distance),
            (error, distance) => distance / error,
        };
        let below = student_below(standard, mean.freedom).unwrap_or(0.5);
        [1.0 - below, below]
    }
}

/// The number of runs that could make pairs: where one side was settled with fewer repeats, those.
fn due(cell: &ArmCell, base: &ArmCell) -> usize {
    cell.runs
        .len()
        .max(base.runs.len())
        .min(cell.planned.min(base.planned).max(cell.runs.len().min(base.runs.len())))
}

/// The mean of differences of accuracies, with at least the variance that two classifiers have which differ by it on `samples`: few
/// seeds that happen to give equal differences must not make them certain. Other means stay as they are.
///
/// After McNemar, Q. (1947), "Note on the sampling error of the difference between correlated proportions or percentages": where `b` and `c`
/// of n samples are right with one classifier only, the variance of their difference d = (b - c) / n is ((b + c) / n - d^2) / n. It is
/// least where c = 0: (|d| - d^2) / n. A difference of nothing may be one of half a sample to either side.
fn resolved(mean: Summary, samples: Option<NonZeroU64>) -> Summary {
    let Some(samples) = samples else { return mean };
    let samples = samples.get() as f64;
    let distance = mean.mean.abs().clamp(0.5 / samples, 1.0);
    Summary { variance: mean.variance.max((distance - distance.powi(2)) / samples), ..mean }
}

/// Grades the differences of one condition, corrected by Holm's method over its arms.
pub(super) fn grade_family(comparisons: &mut [Comparison], thresholds: Thresholds) {
    let level = thresholds.level() / 2.0;
    let corrected = |p: &dyn Fn(&QualityGap) -> f64| {
        let open = |gap: &&QualityGap| gap.grade != Quality::SameWeights;
        let values: Vec<Option<f64>> =
            comparisons.iter().map(|comparison| comparison.quality.as_ref().filter(open).map(p)).collect();
        statistics::holm(&values)
    };
    let better = corrected(&|gap| gap.sides(gap.margin)[0]);
    let not_worse = corrected(&|gap| gap.sides(-gap.margin)[0]);
    let lower = corrected(&|gap| gap.sides(0.0)[1]);
    let worse = corrected(&|gap| gap.sides(-gap.margin)[1]);
    let passes = |p: Option<f64>| p.is_some_and(|p| p < level - 1e-12);
    for (place, comparison) in comparisons.iter_mut().enumerate() {
        let Some(gap) = comparison.quality.as_mut().filter(|gap| gap.grade != Quality::SameWeights) else {
            continue;
        };
        gap.grade = match (passes(worse[place]), passes(lower[place]), passes(not_worse[place])) {
            (true, _, _) => Quality::Worse,
            (false, true, true) => Quality::WorseSmall,
            (false, true, false) => Quality::WorseOpen,
            (false, false, true) if passes(better[place]) => Quality::Better,
            (false, false, true) => Quality::NotWorse,
            (false, false, false) => Quality::Open,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graded(metric: Metric, gaps: &[f64], margin: f64) -> Quality {
        let mean = Summary::of(gaps);
        let gap = QualityGap {
            metric,
            gap: statistics::mean(gaps, 0.95).unwrap(),
            margin,
            pairs: Share { part: gaps.len(), whole: gaps.len() },
            mean,
            grade: Quality::Open,
        };
        let thresholds = Thresholds { min_effect: 0.05, min_quality: margin, confidence: 0.95, looks: 1 };
        // The same rule as a whole comparison.
        let mut comparison = crate::compare::tests::any_comparison();
        comparison.quality = Some(gap.clone());
        let mut family = [comparison];
        grade_family(&mut family, thresholds);
        family[0].quality.as_ref().unwrap().grade
    }

    #[test]
    fn a_difference_of_exactly_the_margin_is_not_beyond_it() {
        assert_eq!(graded(Metric::TestAccuracy, &[0.96 - 0.97; 3], 0.01), Quality::WorseOpen);
    }

    /// 40 of 1,000 samples right with one classifier only: the variance is at least (0.04 - 0.04^2) / 1000.
    #[test]
    fn equal_differences_are_not_more_certain_than_the_test_set_allows() {
        let equal = Summary::of(&[0.04; 3]).unwrap();
        let of = |mean, samples| resolved(mean, NonZeroU64::new(samples)).variance;
        assert!((of(equal, 1_000) - 0.0384 / 1_000.0).abs() < 1e-15);
        assert!((of(equal, 10_000) - 0.0384 / 10_000.0).abs() < 1e-15);
        assert!((of(equal, 0) - equal.variance).abs() < 1e-15, "no share of samples");
        let none = Summary::of(&[0.0; 3]).unwrap();
        assert!((of(none, 1_000) - (0.0005 - 0.0005_f64.powi(2)) / 1_000.0).abs() < 1e-15);
        // Seeds that differ by more speak for themselves.
        let spread = Summary::of(&[0.02, 0.04, 0.06]).unwrap();
        assert!((of(spread, 1_000) - spread.variance).abs() < 1e-15);
    }

    #[test]
    fn each_accuracy_is_the_share_of_the_samples_that_it_is_measured_on() {
        let mut rows = crate::sample::Sample::duel().rows();
        rows.plan.cells.iter_mut().for_each(|cell| cell.spec.dataset.validation = 0.1);
        let dataset = rows.plan.cells[0].spec.dataset.clone();
        let study = crate::study::Study::new(&rows, None).unwrap();
        let cell = study.arm_cells().next().unwrap().cell;
        let classified = |metric| cell.classified(metric).map(NonZeroU64::get);
        let test = Some(dataset.source.test_samples());
        let held_out = dataset.held_out();
        assert!(test > Some(0) && held_out > Some(0) && test != held_out);
        assert_eq!([Metric::TestAccuracy, Metric::TestTop5Accuracy].map(classified), [test; 2]);
        assert_eq!(
            [Metric::ValidationAccuracy, Metric::ValidationTop5Accuracy].map(classified),
            [held_out; 2]
        );
        assert_eq!(classified(Metric::TestLoss), None);
    }

    #[test]
    fn both_questions_are_answered() {
        let accuracy = |gaps: &[f64]| graded(Metric::TestAccuracy, gaps, 0.01);
        assert_eq!(accuracy(&[-0.001, 0.001, 0.0, 0.002, -0.002]), Quality::NotWorse);
        assert_eq!(accuracy(&[-0.004, -0.005, -0.004, -0.005]), Quality::WorseSmall);
        assert_eq!(accuracy(&[-0.012, -0.008, -0.010, -0.011]), Quality::WorseOpen);
        assert_eq!(accuracy(&[-0.031, -0.030, -0.029]), Quality::Worse);
        assert_eq!(accuracy(&[0.031, 0.030, 0.029]), Quality::Better);
        assert_eq!(accuracy(&[-0.06, 0.03, 0.01, -0.02]), Quality::Open);
        assert_eq!(accuracy(&[-0.031, -0.030]), Quality::Open);
        // A lower loss is better.
        assert_eq!(graded(Metric::TestLoss, &[-0.30, -0.31, -0.29], 0.02), Quality::Better);
        assert_eq!(graded(Metric::TestLoss, &[0.30, 0.31, 0.29], 0.02), Quality::Worse);
    }
}
