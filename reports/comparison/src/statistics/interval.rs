//! Means and their differences, with intervals of Student's t distribution.

use super::{median, student_quantile};

/// A value with its confidence interval, if there are enough values for one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// In the unit of the sample.
    pub value: f64,
    /// Lower and upper end.
    pub interval: Option<(f64, f64)>,
}

impl Estimate {
    /// Half the width of the interval.
    pub fn uncertainty(&self) -> Option<f64> {
        self.interval.map(|(low, high)| (high - low) / 2.0)
    }

    /// The estimate of a growing function of the value; of a falling one, the interval's ends change places.
    #[must_use]
    pub fn map(self, function: impl Fn(f64) -> f64) -> Self {
        let interval = self.interval.map(|(low, high)| {
            let low = function(low);
            let high = function(high);
            (low.min(high), low.max(high))
        });
        Self { value: function(self.value), interval }
    }
}

/// A sample in three numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// Arithmetic mean of the values.
    pub mean: f64,
    /// Variance of one value, not of the mean.
    pub variance: f64,
    /// Degrees of freedom of the variance.
    pub freedom: f64,
    /// Number of values that the mean is worth.
    pub size: f64,
}

impl Summary {
    /// `None` for fewer than two values, or if one is not finite.
    pub fn of(values: &[f64]) -> Option<Self> {
        let mean = average(values).filter(|_| values.len() > 1)?;
        let size = values.len() as f64;
        Some(Self { mean, variance: variance(values, mean), freedom: size - 1.0, size })
    }

    /// Standard error of the mean.
    pub fn error(&self) -> f64 {
        (self.variance / self.size).sqrt()
    }

    /// The mean with its interval.
    pub fn estimate(&self, confidence: f64) -> Estimate {
        let half = student_quantile(0.5 + confidence / 2.0, self.freedom).map(|t| t * self.error());
        Estimate { value: self.mean, interval: half.map(|half| (self.mean - half, self.mean + half)) }
    }
}

/// The mean with its interval; one value has none.
pub fn mean(values: &[f64], confidence: f64) -> Option<Estimate> {
    let value = average(values)?;
    let summary = Summary::of(values);
    Some(summary.map_or(Estimate { value, interval: None }, |summary| summary.estimate(confidence)))
}

/// mean(left) - mean(right), as Welch takes it; `None` if a sample has fewer than two values.
///
/// Welch, B. L. (1947), "The generalization of Student's problem when several different population variances
/// are involved".
pub fn difference(left: &[f64], right: &[f64]) -> Option<Summary> {
    let right = Summary::of(right)?;
    Some(sum(Summary::of(left)?, Summary { mean: -right.mean, ..right }))
}

/// The sum of two independent means, as [`difference`] takes it.
pub fn sum(left: Summary, right: Summary) -> Summary {
    let left_part = left.variance / left.size;
    let right_part = right.variance / right.size;
    let parts = left_part.powi(2) / left.freedom + right_part.powi(2) / right.freedom;
    let whole = left_part + right_part;
    let freedom = if parts > 0.0 { whole.powi(2) / parts } else { left.freedom + right.freedom };
    // As if of pairs: the number that both samples are worth, and the variance of one.
    let size = 2.0 / (left.size.recip() + right.size.recip());
    Summary { mean: left.mean + right.mean, variance: whole * size, freedom, size }
}

/// The geometric mean with its interval; the median if a value is infinite.
pub fn typical(values: &[f64], confidence: f64) -> Option<Estimate> {
    if values.iter().all(|value| value.is_finite() && *value > 0.0) {
        let logs: Vec<f64> = values.iter().map(|value| value.ln()).collect();
        return Some(mean(&logs, confidence)?.map(f64::exp));
    }
    median(values).filter(|value| value.is_finite()).map(|value| Estimate { value, interval: None })
}

/// The sample variance around a known mean.
pub(super) fn variance(values: &[f64], mean: f64) -> f64 {
    if values.len() < 2 {
        return 0.0;
    }
    values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (values.len() as f64 - 1.0)
}

/// The arithmetic mean; `None` of no value, or where one is not finite.
pub fn average(values: &[f64]) -> Option<f64> {
    let finite = !values.is_empty() && values.iter().all(|value| value.is_finite());
    finite.then(|| values.iter().sum::<f64>() / values.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: f64, wanted: f64, tolerance: f64) {
        assert!((found - wanted).abs() < tolerance, "{found} is not {wanted}");
    }

    #[test]
    fn a_mean_of_five() {
        let estimate = mean(&[10.0, 11.0, 12.0, 13.0, 14.0], 0.95).unwrap();
        let (low, high) = estimate.interval.unwrap();
        close(estimate.value, 12.0, 1e-12);
        close(high - 12.0, 2.776_445 * (2.5_f64 / 5.0).sqrt(), 1e-4);
        close(12.0 - low, high - 12.0, 1e-9);
    }

    #[test]
    fn the_interval_is_of_the_same_kind_for_any_number_of_values() {
        // t of 11 degrees of freedom is 2.201; the variance of 1 to 12 is 13.
        let values: Vec<f64> = (1..=12).map(f64::from).collect();
        let (low, high) = mean(&values, 0.95).unwrap().interval.unwrap();
        close(high - low, 2.0 * 2.200_985 * (13.0_f64 / 12.0).sqrt(), 1e-4);
    }

    #[test]
    fn one_value_has_no_interval_and_none_has_no_mean() {
        assert_eq!(mean(&[3.0], 0.95), Some(Estimate { value: 3.0, interval: None }));
        assert_eq!(mean(&[], 0.95), None);
        assert_eq!(mean(&[1.0, f64::NAN], 0.95), None);
        assert_eq!(difference(&[3.0], &[1.0, 2.0]), None);
    }

    #[test]
    fn welch_by_hand() {
        // Variances 1 and 4 over three values each: error sqrt(5/3), freedom (5/3)^2 / ((1/9 + 16/9) / 2).
        let found = difference(&[1.0, 2.0, 3.0], &[4.0, 6.0, 8.0]).unwrap();
        close(found.mean, -4.0, 1e-12);
        close(found.error(), (5.0_f64 / 3.0).sqrt(), 1e-12);
        close(found.freedom, (25.0 / 9.0) / (17.0 / 18.0), 1e-12);
    }

    #[test]
    fn equal_values_give_a_point() {
        let estimate = difference(&[2.0, 2.0], &[1.0, 1.0]).unwrap().estimate(0.95);
        assert_eq!(estimate.interval, Some((1.0, 1.0)));
    }

    #[test]
    fn a_falling_function_swaps_the_ends() {
        let estimate = Estimate { value: 0.0, interval: Some((-1.0, 2.0)) }.map(|x| -x);
        assert_eq!(estimate.interval, Some((-2.0, 1.0)));
    }
}
