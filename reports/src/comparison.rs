//! An arm against the baseline under one condition: ratio, tests, grade.

use crate::statistics::{self, Estimate};
use crate::study::{ArmCell, Condition, Measure};

/// Below this many runs on either side a difference is never called clear.
const CLEAR_FROM: usize = 4;

/// The largest estimate of the repeats that would settle a question; beyond it, only "more than" is said.
const MOST_REPEATS: usize = 200;

/// How sure a comparison is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Grade {
    /// The interval of the ratio lies beyond the smallest effect that matters, and the exact test agrees.
    Clear,
    /// The interval of the ratio lies within the smallest effect that matters.
    WithinNoise,
    /// Neither of both.
    NotEnoughEvidence,
    /// Fewer than half of the runs reached the target.
    DidNotReach,
}

impl Grade {
    /// The name on the page and in the terminal.
    pub fn name(self) -> &'static str {
        match self {
            Self::Clear => "clear",
            Self::WithinNoise => "within noise",
            Self::NotEnoughEvidence => "not enough evidence",
            Self::DidNotReach => "did not reach",
        }
    }
}

/// Thresholds of the grades, from the recipe.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Thresholds {
    pub(crate) min_effect: f64,
    pub(crate) confidence: f64,
}

/// One arm against the baseline.
#[derive(Clone, Debug)]
pub(crate) struct Comparison {
    /// Index of the arm.
    pub(crate) arm: usize,
    /// Baseline over arm: above 1 the arm is faster.
    pub(crate) ratio: Option<Estimate>,
    /// Of the exact unpaired test, uncorrected.
    pub(crate) p: Option<f64>,
    /// The same after Holm's correction over the arms of the condition.
    pub(crate) p_holm: Option<f64>,
    /// Of the sign-flip test over repeats with equal seeds.
    pub(crate) paired_p: Option<f64>,
    /// The ratio over repeats with equal seeds.
    pub(crate) paired_ratio: Option<Estimate>,
    /// Pairs of equal repeats.
    pub(crate) pairs: usize,
    pub(crate) grade: Grade,
    /// The number of repeats that would settle it, if it is open and the spread is known.
    pub(crate) repeats_needed: Option<RepeatsNeeded>,
    /// A ratio that is only a lower bound, because the baseline did not reach the target.
    pub(crate) at_least: Option<f64>,
}

impl Comparison {
    /// Whether the arm is faster, by its ratio or its lower bound.
    pub(crate) fn is_faster(&self) -> bool {
        self.at_least.is_some() || self.ratio.is_some_and(|ratio| ratio.value > 1.0)
    }
}

/// The number of repeats that would settle a comparison at the observed spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RepeatsNeeded {
    /// About this number.
    About(usize),
    /// More than this number.
    MoreThan(usize),
}

/// Compares each arm of the condition with the baseline; empty if the condition has no baseline.
pub(crate) fn compare(condition: &Condition, baseline: usize, thresholds: Thresholds) -> Vec<Comparison> {
    let Some(base) = condition.cell(baseline) else { return Vec::new() };
    let measure = condition.measure();
    let mut comparisons: Vec<Comparison> = condition
        .cells
        .iter()
        .filter(|cell| cell.arm != baseline)
        .map(|cell| measured(cell, base, measure, thresholds))
        .collect();
    let p_values: Vec<Option<f64>> = comparisons.iter().map(|comparison| comparison.p).collect();
    let arms = comparisons.len();
    for (comparison, p_holm) in comparisons.iter_mut().zip(statistics::holm(&p_values)) {
        comparison.p_holm = p_holm;
        if let Some(cell) = condition.cell(comparison.arm) {
            let sides = Sides { cell, base, measure };
            comparison.grade = sides.grade(comparison, thresholds);
            if comparison.grade == Grade::NotEnoughEvidence {
                comparison.repeats_needed = sides.repeats_needed(thresholds, arms);
            }
        }
    }
    comparisons
}

fn measured(cell: &ArmCell, base: &ArmCell, measure: Measure, thresholds: Thresholds) -> Comparison {
    let arm_values = cell.values(measure);
    let base_values = base.values(measure);
    let confidence = thresholds.confidence;
    let logs = logarithms(&arm_values).zip(logarithms(&base_values));
    let (ratio, p) = match &logs {
        Some((arm, base)) => (
            statistics::difference(base, arm, confidence).map(|estimate| estimate.map(f64::exp)),
            statistics::unpaired(base, arm),
        ),
        None => censored(&arm_values, &base_values),
    };
    let pairs = paired_logs(cell, base, measure);
    Comparison {
        arm: cell.arm,
        ratio,
        p,
        p_holm: None,
        paired_p: statistics::sign_flip(&pairs),
        paired_ratio: statistics::mean(&pairs, confidence).map(|estimate| estimate.map(f64::exp)),
        pairs: pairs.len(),
        grade: Grade::NotEnoughEvidence,
        repeats_needed: None,
        at_least: at_least(cell, base, measure),
    }
}

/// If some runs did not reach the target: the ratio of the medians without an interval, and the exact test on ranks, in
/// which these runs rank last.
fn censored(arm: &[f64], base: &[f64]) -> (Option<Estimate>, Option<f64>) {
    let medians = statistics::median(base).zip(statistics::median(arm));
    let ratio = medians
        .filter(|(base, arm)| base.is_finite() && arm.is_finite() && *arm > 0.0)
        .map(|(base, arm)| Estimate { value: base / arm, interval: None });
    let pooled: Vec<f64> = base.iter().chain(arm).copied().collect();
    let ranks = statistics::mid_ranks(&pooled);
    let (base_ranks, arm_ranks) = ranks.split_at(base.len());
    (ratio, statistics::unpaired(base_ranks, arm_ranks))
}

/// The smallest ratio that is consistent with a baseline of which no run reached the target within its time.
fn at_least(cell: &ArmCell, base: &ArmCell, measure: Measure) -> Option<f64> {
    let bounded = measure == Measure::TimeToTarget && base.reached() == 0 && !base.runs.is_empty();
    let slowest = cell.values(measure).into_iter().fold(0.0_f64, f64::max);
    let watched = base.runs.iter().map(|judged| judged.watched).fold(f64::INFINITY, f64::min);
    (bounded && slowest > 0.0 && slowest.is_finite()).then(|| watched / slowest)
}

/// Logarithms of positive and finite values; `None` if one is not, or without values.
fn logarithms(values: &[f64]) -> Option<Vec<f64>> {
    let usable = !values.is_empty() && values.iter().all(|value| value.is_finite() && *value > 0.0);
    usable.then(|| values.iter().map(|value| value.ln()).collect())
}

/// log(baseline / arm) for each repeat that both sides have with a finite value.
fn paired_logs(cell: &ArmCell, base: &ArmCell, measure: Measure) -> Vec<f64> {
    let value = |judged: &crate::study::JudgedRun| match measure {
        Measure::TimeToTarget => judged.time_to_target(),
        Measure::StepTime => judged.attempt.step_time.map_or(f64::NAN, record::Nanos::seconds),
    };
    let mut logs = Vec::new();
    for judged in &cell.runs {
        if let Some(other) = base.runs.iter().find(|other| other.run.seed == judged.run.seed) {
            let log = (value(other) / value(judged)).ln();
            if log.is_finite() {
                logs.push(log);
            }
        }
    }
    logs
}

struct Sides<'a> {
    cell: &'a ArmCell<'a>,
    base: &'a ArmCell<'a>,
    measure: Measure,
}

impl Sides<'_> {
    fn grade(&self, comparison: &Comparison, thresholds: Thresholds) -> Grade {
        let runs = self.cell.runs.len().min(self.base.runs.len());
        if self.measure == Measure::TimeToTarget && !self.cell.runs.is_empty() && self.cell.mostly_missed() {
            return Grade::DidNotReach;
        }
        let interval = comparison.ratio.and_then(|ratio| ratio.interval);
        let most = 1.0 + thresholds.min_effect;
        let interval = interval.or_else(|| comparison.at_least.map(|least| (least, f64::INFINITY)));
        let Some((low, high)) = interval else { return Grade::NotEnoughEvidence };
        if low >= 1.0 / most && high <= most {
            return Grade::WithinNoise;
        }
        let beyond = low > most || high < 1.0 / most;
        let tested = comparison.p_holm.is_some_and(|p| p < 1.0 - thresholds.confidence);
        if beyond && tested && runs >= CLEAR_FROM { Grade::Clear } else { Grade::NotEnoughEvidence }
    }

    /// The smallest number of repeats, at the spread seen so far, whose interval leaves the nearer edge of the
    /// smallest effect that matters and whose exact test can pass.
    fn repeats_needed(&self, thresholds: Thresholds, arms: usize) -> Option<RepeatsNeeded> {
        let arm = logarithms(&self.cell.values(self.measure))?;
        let base = logarithms(&self.base.values(self.measure))?;
        let arm_mean = statistics::average(&arm)?;
        let base_mean = statistics::average(&base)?;
        if arm.len() < 2 || base.len() < 2 {
            return None;
        }
        let spread =
            f64::midpoint(statistics::variance(&arm, arm_mean), statistics::variance(&base, base_mean));
        let gap = ((base_mean - arm_mean).abs() - (1.0 + thresholds.min_effect).ln()).abs();
        let alpha = 1.0 - thresholds.confidence;
        let settles = |repeats: &usize| {
            let quantile = statistics::student_quantile(
                0.5 + thresholds.confidence / 2.0,
                2.0 * (*repeats as f64 - 1.0),
            );
            let half = quantile.unwrap_or(f64::INFINITY) * (2.0 * spread / *repeats as f64).sqrt();
            half < gap && statistics::smallest_p(*repeats, *repeats) * (arms as f64) < alpha
        };
        let from = CLEAR_FROM.max(arm.len().min(base.len()) + 1);
        let found = (from..=MOST_REPEATS).find(settles);
        Some(found.map_or(RepeatsNeeded::MoreThan(MOST_REPEATS), RepeatsNeeded::About))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Sample;
    use crate::study::Study;
    use record::Nanos;
    use store::{RunState, SweepRows};

    const NEVER: f64 = f64::INFINITY;

    /// A sweep whose runs reach the target after these seconds; runs that never do are watched for 100 s.
    fn sweep(base: &[f64], arm: &[f64]) -> SweepRows {
        let sample = Sample { repeats: base.len().max(arm.len()) as u32, ..Sample::duel() };
        let mut rows = sample.rows();
        for run in &mut rows.runs {
            let times = if run.cell == 0 { base } else { arm };
            let Some(time) = times.get(run.repeat as usize) else {
                (run.state, run.attempt) = (RunState::Failed, None);
                continue;
            };
            if let Some(attempt) = &mut run.attempt {
                attempt.training = Some(Nanos((time.min(100.0) * 1e9) as u64));
                attempt.metrics.truncate(1);
                attempt.metrics[0].at = Nanos((time.min(100.0) * 1e9) as u64);
                attempt.metrics[0].value = if time.is_finite() { 0.98 } else { 0.5 };
            }
        }
        rows
    }

    fn compared(base: &[f64], arm: &[f64]) -> Comparison {
        let rows = sweep(base, arm);
        let study = Study::new(&rows, None).unwrap();
        let thresholds = Thresholds { min_effect: 0.05, confidence: 0.95 };
        compare(&study.conditions[0], study.baseline, thresholds).remove(0)
    }

    #[test]
    fn grades() {
        let slow = [20.0, 20.3, 19.8, 20.1, 20.2];
        for (base, arm, wanted) in [
            (&slow[..], &[10.0, 10.2, 9.9, 10.1, 9.8][..], Grade::Clear),
            (&[10.0, 10.2, 9.9, 10.1, 9.8], &slow, Grade::Clear),
            (&slow, &[20.1, 20.2, 19.9, 20.0, 20.3], Grade::WithinNoise),
            (&slow, &[18.0, 22.0, 16.0, 19.0, 23.0], Grade::NotEnoughEvidence),
            // Two or three runs are never clear, however far apart.
            (&slow[..3], &[1.0, 1.01, 0.99], Grade::NotEnoughEvidence),
            (&slow, &[1.0, 1.01, 0.99], Grade::NotEnoughEvidence),
            (&slow[..4], &[1.0, 1.01, 0.99, 1.02], Grade::Clear),
            (&slow[..1], &[1.0], Grade::NotEnoughEvidence),
            (&slow, &[], Grade::NotEnoughEvidence),
            (&[], &slow, Grade::NotEnoughEvidence),
            (&slow, &[NEVER; 5], Grade::DidNotReach),
            (&slow, &[1.0, 1.0, NEVER, NEVER, NEVER], Grade::DidNotReach),
            // Half or more reached, but not all: a ratio of medians has no interval.
            (&slow, &[1.0, 1.1, 1.2, NEVER, NEVER], Grade::NotEnoughEvidence),
            // The baseline never reached it in 100 s.
            (&[NEVER; 5], &[10.0, 10.2, 9.9, 10.1, 9.8], Grade::Clear),
            (&[NEVER; 5], &[98.0, 99.0, 99.5, 98.0, 99.0], Grade::NotEnoughEvidence),
            (&[NEVER; 3], &[1.0, 1.0, 1.0], Grade::NotEnoughEvidence),
        ] {
            assert_eq!(compared(base, arm).grade, wanted, "{base:?} {arm:?}");
        }
    }

    #[test]
    fn the_ratio_is_of_geometric_means_with_its_exact_p() {
        let comparison = compared(&[20.0, 40.0, 20.0, 40.0], &[10.0, 20.0, 10.0, 20.0]);
        let ratio = comparison.ratio.unwrap();
        assert!((ratio.value - 2.0).abs() < 1e-9);
        // By hand: deviation ln 2 / sqrt 3 on each side, 6 degrees of freedom, quantile 2.4469.
        assert!((ratio.interval.unwrap().0 - 1.0007).abs() < 1e-4);
        let separated = compared(&[20.0, 21.0, 22.0, 23.0, 24.0], &[10.0, 11.0, 12.0, 13.0, 14.0]);
        assert!((separated.p.unwrap() - 2.0 / 252.0).abs() < 1e-12);
        assert_eq!(separated.p, separated.p_holm);
        assert!((separated.paired_p.unwrap() - 0.0625).abs() < 1e-12);
        assert_eq!(separated.pairs, 5);
    }

    #[test]
    fn runs_that_never_reach_rank_last() {
        let comparison = compared(&[NEVER; 5], &[1.0, 2.0, 3.0, 4.0, 5.0]);
        assert!((comparison.p.unwrap() - 2.0 / 252.0).abs() < 1e-12);
        assert_eq!(comparison.ratio, None);
        assert!((comparison.at_least.unwrap() - 20.0).abs() < 1e-9);
        let partly = compared(&[20.0, 20.0, 20.0], &[10.0, 10.0, NEVER]);
        assert_eq!(partly.ratio, Some(Estimate { value: 2.0, interval: None }));
    }

    #[test]
    fn where_half_of_the_runs_reach_the_target_there_is_no_time_to_tell() {
        let rows = sweep(&[10.0, 11.0, 12.0, 13.0], &[10.0, 11.0, NEVER, NEVER]);
        let findings = crate::findings::Findings::of(&rows, &crate::Options::default()).unwrap();
        let verdicts = crate::verdict::all(&findings);
        let mut sentence =
            verdicts.iter().map(|verdict| verdict.sentence.replace(['\u{a0}', '\u{202f}'], " "));
        let sentence = sentence.next_back().unwrap();
        assert!(sentence.contains("in 2 of 4 runs") && !sentence.contains("needed"), "{sentence}");
    }

    #[test]
    fn more_spread_asks_for_more_repeats() {
        let needed = |arm: &[f64]| compared(&[20.0, 20.3, 19.8], arm).repeats_needed.unwrap();
        let little = needed(&[18.0, 18.3, 17.8]);
        let much = needed(&[15.0, 18.0, 21.5]);
        assert!(little < much, "{little:?} {much:?}");
        assert!(little >= RepeatsNeeded::About(CLEAR_FROM));
    }

    #[test]
    fn holm_counts_the_arms_of_the_condition() {
        let mut sample = Sample { repeats: 4, ..Sample::duel() };
        for copy in 1..4 {
            let arm = crate::sample::SampleArm { name: format!("copy-{copy}"), ..sample.arms[1].clone() };
            sample.arms.push(arm);
        }
        let rows = sample.rows();
        let study = Study::new(&rows, None).unwrap();
        let thresholds = Thresholds { min_effect: 0.05, confidence: 0.95 };
        for comparison in compare(&study.conditions[0], study.baseline, thresholds) {
            assert!(comparison.p_holm >= comparison.p);
            // Four against four cannot settle four arms at 5 %.
            assert_ne!(comparison.grade, Grade::Clear);
        }
    }
}
