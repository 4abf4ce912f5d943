//! Means and their differences, with intervals.

use super::{BOOTSTRAP_FROM, bootstrap};
use statrs::distribution::{ContinuousCDF, StudentsT};

/// A value with its confidence interval, if there are enough values for one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Estimate {
    pub(crate) value: f64,
    pub(crate) interval: Option<(f64, f64)>,
}

impl Estimate {
    /// Half the width of the interval.
    pub(crate) fn uncertainty(&self) -> Option<f64> {
        self.interval.map(|(low, high)| (high - low) / 2.0)
    }

    /// The estimate of a growing function of the value; of a falling one, the interval's ends change places.
    pub(crate) fn map(self, function: impl Fn(f64) -> f64) -> Self {
        let interval = self.interval.map(|(low, high)| {
            let low = function(low);
            let high = function(high);
            (low.min(high), low.max(high))
        });
        Self { value: function(self.value), interval }
    }
}

/// Quantile of Student's t distribution; that of the normal distribution is its limit.
pub(crate) fn student_quantile(probability: f64, freedom: f64) -> Option<f64> {
    let known = probability > 0.0 && probability < 1.0 && freedom.is_finite() && freedom > 0.0;
    let distribution = known.then(|| StudentsT::new(0.0, 1.0, freedom).ok())??;
    Some(distribution.inverse_cdf(probability))
}

/// The mean with its interval: from the t distribution for few values, bootstrapped for many.
pub(crate) fn mean(values: &[f64], confidence: f64) -> Option<Estimate> {
    let value = average(values)?;
    if values.len() >= BOOTSTRAP_FROM {
        return Some(Estimate { value, interval: Some(bootstrap::mean_interval(values, confidence)) });
    }
    let freedom = values.len() as f64 - 1.0;
    let error = (variance(values, value) / values.len() as f64).sqrt();
    let interval = student_quantile(0.5 + confidence / 2.0, freedom)
        .map(|quantile| (value - quantile * error, value + quantile * error));
    Some(Estimate { value, interval })
}

/// mean(left) - mean(right) with its interval: Welch's for few values, bootstrapped for many.
///
/// Welch, B. L. (1947), "The generalization of Student's problem when several different population variances
/// are involved".
pub(crate) fn difference(left: &[f64], right: &[f64], confidence: f64) -> Option<Estimate> {
    let left_mean = average(left)?;
    let right_mean = average(right)?;
    let value = left_mean - right_mean;
    if left.len().min(right.len()) >= BOOTSTRAP_FROM {
        let interval = bootstrap::difference_interval(left, right, confidence);
        return Some(Estimate { value, interval: Some(interval) });
    }
    if left.len() < 2 || right.len() < 2 {
        return Some(Estimate { value, interval: None });
    }
    let left_part = variance(left, left_mean) / left.len() as f64;
    let right_part = variance(right, right_mean) / right.len() as f64;
    let error = (left_part + right_part).sqrt();
    if error == 0.0 {
        return Some(Estimate { value, interval: Some((value, value)) });
    }
    let freedom = (left_part + right_part).powi(2)
        / (left_part.powi(2) / (left.len() as f64 - 1.0) + right_part.powi(2) / (right.len() as f64 - 1.0));
    let interval = student_quantile(0.5 + confidence / 2.0, freedom)
        .map(|quantile| (value - quantile * error, value + quantile * error));
    Some(Estimate { value, interval })
}

/// The sample variance around a known mean.
pub(crate) fn variance(values: &[f64], mean: f64) -> f64 {
    if values.len() < 2 {
        return 0.0;
    }
    values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (values.len() as f64 - 1.0)
}

pub(crate) fn average(values: &[f64]) -> Option<f64> {
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
    fn quantiles_of_the_tables() {
        // Two-sided 95 % and 99 % points as printed in every table of the t distribution.
        for (freedom, ninety_five, ninety_nine) in [
            (1.0, 12.706, 63.657),
            (2.0, 4.303, 9.925),
            (4.0, 2.776, 4.604),
            (8.0, 2.306, 3.355),
            (30.0, 2.042, 2.750),
            (100.0, 1.984, 2.626),
        ] {
            close(student_quantile(0.975, freedom).unwrap(), ninety_five, 5e-4);
            close(student_quantile(0.995, freedom).unwrap(), ninety_nine, 5e-4);
        }
        assert_eq!(student_quantile(0.975, 0.0), None);
        assert_eq!(student_quantile(1.0, 3.0), None);
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
    fn one_value_has_no_interval_and_none_has_no_mean() {
        assert_eq!(mean(&[3.0], 0.95), Some(Estimate { value: 3.0, interval: None }));
        assert_eq!(mean(&[], 0.95), None);
        assert_eq!(mean(&[1.0, f64::NAN], 0.95), None);
        assert_eq!(difference(&[3.0], &[1.0, 2.0], 0.95), Some(Estimate { value: 1.5, interval: None }));
    }

    #[test]
    fn welch_by_hand() {
        // Variances 1 and 4 over three values each: error sqrt(5/3), freedom (5/3)^2 / ((1/9 + 16/9) / 2).
        let estimate = difference(&[1.0, 2.0, 3.0], &[4.0, 6.0, 8.0], 0.95).unwrap();
        let (low, high) = estimate.interval.unwrap();
        let freedom = (25.0 / 9.0) / (17.0 / 18.0);
        let half = student_quantile(0.975, freedom).unwrap() * (5.0_f64 / 3.0).sqrt();
        close(estimate.value, -4.0, 1e-12);
        close(high, -4.0 + half, 1e-12);
        close(low, -4.0 - half, 1e-12);
    }

    #[test]
    fn equal_values_give_a_point() {
        let estimate = difference(&[2.0, 2.0], &[1.0, 1.0], 0.95).unwrap();
        assert_eq!(estimate.interval, Some((1.0, 1.0)));
    }

    #[test]
    fn a_falling_function_swaps_the_ends() {
        let estimate = Estimate { value: 0.0, interval: Some((-1.0, 2.0)) }.map(|x| -x);
        assert_eq!(estimate.interval, Some((-2.0, 1.0)));
    }
}
