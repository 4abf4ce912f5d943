//! The noise of a machine, from a sweep that trained the same arm under two names: the smallest difference it can show.
//!
//! d_i is the logarithm of the ratio of the two mean step times in repeat i. The paired t test on n repeats finds a
//! difference with probability P(|T| > t), where t is the quantile of Student's distribution with n - 1 degrees of freedom
//! and T has the noncentral one, with noncentrality sqrt(n) |difference| / standard deviation (N. L. Johnson, S. Kotz,
//! N. Balakrishnan, "Continuous Univariate Distributions", vol. 2, 1995, chapter 31). The smallest difference is the one that
//! is found with a probability of 80 %. The deviation is estimated from the sweep; its interval is that of the chi-squared
//! distribution.

use crate::statistics::{Summary, student_quantile};
use crate::study::is_judged;
use record::Nanos;
use serde::Serialize;
use statrs::distribution::{ChiSquared, ContinuousCDF, Normal};
use store::{RunRow, RunState, SweepRows};

/// Probability with which a difference is to be found.
pub const POWER: f64 = 0.8;

/// Points at which a distribution is integrated; each has the same probability.
const POINTS: usize = 2_000;

/// The noise of a machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NoiseFloor {
    /// Number of repeats with a result under both names.
    pub pairs: usize,
    /// Confidence of all intervals, and of the test that the differences are for.
    pub confidence: f64,
    /// Probability with which the smallest differences are found.
    pub power: f64,
    /// By how much the second name's step time exceeds the first's, as a share; it is noise.
    pub difference: Range,
    /// Standard deviation of the paired differences, as a share.
    pub deviation: Range,
    /// The smallest differences, by number of repeats.
    pub smallest: Vec<Smallest>,
}

/// An estimate with its confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Range {
    /// Estimated value, in the same unit as both ends.
    pub value: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

/// The smallest difference that a number of repeats shows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Smallest {
    /// Number of repeats of each arm.
    pub repeats: u32,
    /// The difference of step times, as a share; its interval is that of the deviation.
    pub difference: Range,
}

impl Range {
    fn map(self, function: impl Fn(f64) -> f64) -> Self {
        Self { value: function(self.value), low: function(self.low), high: function(self.high) }
    }
}

/// The noise that a sweep with two arms shows, and the smallest differences for these numbers of repeats, which are at least
/// two. `None` if fewer than two repeats have a result in both arms.
pub fn noise_floor(rows: &SweepRows, repeats: &[u32]) -> Option<NoiseFloor> {
    let confidence = rows.plan.report.confidence;
    let differences = differences(rows);
    let Summary { mean, variance, freedom, .. } = Summary::of(&differences)?;
    let deviation = variance.sqrt();
    let pairs = differences.len();
    let half = student_quantile(0.5 + confidence / 2.0, freedom)? * deviation / (pairs as f64).sqrt();
    let chi = ChiSquared::new(freedom).ok()?;
    let end = |probability: f64| deviation * (freedom / chi.inverse_cdf(probability)).sqrt();
    let deviation =
        Range { value: deviation, low: end(0.5 + confidence / 2.0), high: end(0.5 - confidence / 2.0) };
    let smallest = |repeats: u32| {
        let times = smallest_in_deviations(repeats, confidence)?;
        Some(Smallest { repeats, difference: deviation.map(|deviation| (times * deviation).exp_m1()) })
    };
    Some(NoiseFloor {
        pairs,
        confidence,
        power: POWER,
        difference: Range { value: mean, low: mean - half, high: mean + half }.map(f64::exp_m1),
        deviation,
        smallest: repeats.iter().filter_map(|repeats| smallest(*repeats)).collect(),
    })
}

/// Logarithms of the ratio of the second arm's step time to the first's, repeat by repeat.
fn differences(rows: &SweepRows) -> Vec<f64> {
    let step = |run: &RunRow| {
        let attempt = run.attempt.as_ref().filter(|_| is_judged(run) && run.state != RunState::Diverged)?;
        attempt.mean_step_time.or(attempt.step_time).map(Nanos::seconds).filter(|step| *step > 0.0)
    };
    let of = |cell: usize, repeat: u32| {
        rows.runs.iter().find(|run| run.cell == cell && run.repeat == repeat).and_then(step)
    };
    let repeats = rows.runs.iter().filter(|run| run.cell == 0).map(|run| run.repeat);
    repeats.filter_map(|repeat| Some((of(1, repeat)? / of(0, repeat)?).ln())).collect()
}

/// The smallest difference of paired values that differs from an edge with a chance of 80 %, in standard deviations of a pair;
/// `None` below two repeats.
pub fn smallest_in_deviations(repeats: u32, confidence: f64) -> Option<f64> {
    let freedom = f64::from(repeats.checked_sub(1)?);
    let quantile = student_quantile(0.5 + confidence / 2.0, freedom)?;
    let chi = ChiSquared::new(freedom).ok()?;
    let normal = Normal::new(0.0, 1.0).ok()?;
    // T is (Z + noncentrality) / U, and U the root of chi squared by its degrees of freedom.
    let limits: Vec<f64> = (0..POINTS)
        .map(|point| (point as f64 + 0.5) / POINTS as f64)
        .map(|probability| quantile * (chi.inverse_cdf(probability) / freedom).sqrt())
        .collect();
    let power = |noncentrality: f64| {
        let found = |limit: &f64| normal.sf(limit - noncentrality) + normal.cdf(-limit - noncentrality);
        limits.iter().map(found).sum::<f64>() / POINTS as f64
    };
    let mut low = 0.0;
    let mut high = 1.0;
    while power(high) < POWER {
        high *= 2.0;
    }
    // Halved until the ends are neighbours: enough for every digit that is shown.
    for _ in 0..40 {
        let middle = f64::midpoint(low, high);
        if power(middle) < POWER { low = middle } else { high = middle }
    }
    Some(high / f64::from(repeats).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Sample;

    /// A duel whose second arm exceeds the first by these shares.
    fn rows(shares: &[f64]) -> SweepRows {
        let mut rows = Sample { repeats: shares.len() as u32, ..Sample::duel() }.rows();
        for run in &mut rows.runs {
            let factor = if run.cell == 1 { 1.0 + shares[run.repeat as usize] } else { 1.0 };
            let time = (1e7 * f64::from(run.repeat + 1) * factor).round();
            run.attempt.as_mut().unwrap().mean_step_time = Some(Nanos(time as u64));
        }
        rows
    }

    #[test]
    fn effects_of_the_tables_of_the_paired_t_test() {
        // Cohen's d for a power of 0.8, two-sided at 0.05, simulated with 4 million draws each; n = 10 is 0.996 in every table.
        for (repeats, effect) in [(3, 3.26), (5, 1.68), (10, 0.996)] {
            let found = smallest_in_deviations(repeats, 0.95).unwrap();
            assert!((found / effect - 1.0).abs() < 5e-3, "{repeats}: {found}");
        }
        assert_eq!(smallest_in_deviations(1, 0.95), None);
        assert!(smallest_in_deviations(3, 0.99) > smallest_in_deviations(3, 0.95));
    }

    #[test]
    fn four_pairs_by_hand() {
        // Differences of logarithms -x, x, -x, x: mean 0, variance 4 x^2 / 3.
        let x = 0.01_f64;
        let less = (-x).exp_m1();
        let more = x.exp_m1();
        let floor = noise_floor(&rows(&[less, more, less, more]), &[3, 10]).unwrap();
        let deviation = x * (4.0_f64 / 3.0).sqrt();
        assert_eq!(floor.pairs, 4);
        assert!((floor.deviation.value - deviation).abs() < 1e-6, "{floor:?}");
        assert!(floor.difference.value.abs() < 1e-6, "{floor:?}");
        // The 97.5 % points of t and the 2.5 and 97.5 % points of chi squared with three degrees of freedom.
        let half = 3.182_446 * deviation / 2.0;
        assert!((floor.difference.high - half.exp_m1()).abs() < 1e-5, "{floor:?}");
        assert!((floor.deviation.low - deviation * (3.0_f64 / 9.348_404).sqrt()).abs() < 1e-5, "{floor:?}");
        assert!((floor.deviation.high - deviation * (3.0_f64 / 0.215_795).sqrt()).abs() < 1e-4, "{floor:?}");
        let smallest = &floor.smallest[1];
        assert_eq!(smallest.repeats, 10);
        assert!((smallest.difference.value - (0.996 * deviation).exp_m1()).abs() < 1e-4, "{smallest:?}");
        assert!(floor.smallest[0].difference.value > 3.0 * smallest.difference.value);
    }

    #[test]
    fn repeats_without_a_result_under_both_names_do_not_count() {
        let mut rows = rows(&[0.01, 0.02, 0.03]);
        rows.runs[1].state = RunState::Failed;
        assert_eq!(noise_floor(&rows, &[3]).unwrap().pairs, 2);
        rows.runs[2].state = RunState::Interrupted;
        assert_eq!(noise_floor(&rows, &[3]), None);
    }
}
