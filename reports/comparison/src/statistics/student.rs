//! Student's t distribution.

use super::memo::Memo;
use statrs::distribution::{ChiSquared, ContinuousCDF, Normal, StudentsT};

thread_local! {
    // Each takes microseconds; all arms of a sweep ask for the same few.
    static STUDENT: Memo = Memo::default();
    static CHI_SQUARED: Memo = Memo::default();
}

/// From this number of degrees of freedom on, the normal distribution is used: their quantiles differ by less than 1e-4.
const NORMAL_FROM: f64 = 1e5;

/// Quantile of the t distribution; `None` outside of its domain.
pub fn student_quantile(probability: f64, freedom: f64) -> Option<f64> {
    let known = probability > 0.0 && probability < 1.0 && freedom > 0.0;
    if !known {
        return None;
    }
    if freedom >= NORMAL_FROM {
        return Some(Normal::standard().inverse_cdf(probability));
    }
    let compute = || Some(StudentsT::new(0.0, 1.0, freedom).ok()?.inverse_cdf(probability));
    STUDENT.with(|known| known.get((probability, freedom), compute))
}

/// Probability that a t variable lies below `value`; `None` without a degree of freedom.
pub(crate) fn student_below(value: f64, freedom: f64) -> Option<f64> {
    if freedom <= 0.0 || freedom.is_nan() || value.is_nan() {
        return None;
    }
    if value.is_infinite() {
        return Some(if value > 0.0 { 1.0 } else { 0.0 });
    }
    if freedom >= NORMAL_FROM {
        return Some(Normal::standard().cdf(value));
    }
    Some(StudentsT::new(0.0, 1.0, freedom).ok()?.cdf(value))
}

/// A lower bound of a standard deviation that was estimated with `freedom` degrees of freedom; zero if there is none. It
/// holds with the given probability: (n - 1) s² / σ² follows the chi-squared distribution.
pub(super) fn least_deviation(deviation: f64, freedom: f64, probability: f64) -> f64 {
    let compute = || Some(ChiSquared::new(freedom).ok()?.inverse_cdf(probability));
    let quantile = CHI_SQUARED.with(|known| known.get((probability, freedom), compute));
    quantile
        .filter(|quantile| *quantile > 0.0)
        .map_or(0.0, |quantile| deviation * (freedom / quantile).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: Option<f64>, wanted: f64, tolerance: f64) {
        assert!((found.unwrap() - wanted).abs() < tolerance, "{found:?} is not {wanted}");
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
            (f64::INFINITY, 1.960, 2.576),
        ] {
            close(student_quantile(0.975, freedom), ninety_five, 5e-4);
            close(student_quantile(0.995, freedom), ninety_nine, 5e-4);
            close(student_below(ninety_five, freedom), 0.975, 1e-4);
            close(student_below(-ninety_nine, freedom), 0.005, 1e-4);
        }
        assert_eq!(student_quantile(0.975, 0.0), None);
        assert_eq!(student_quantile(1.0, 3.0), None);
        assert_eq!(student_below(1.0, 0.0), None);
        assert_eq!(student_below(f64::INFINITY, 2.0), Some(1.0));
    }

    #[test]
    fn with_two_degrees_of_freedom_the_distribution_has_a_closed_form() {
        for value in [-3.0_f64, -0.4, 0.0, 1.0, 9.0] {
            close(student_below(value, 2.0), 0.5 + value / (2.0 * (2.0 + value * value).sqrt()), 1e-9);
        }
    }

    #[test]
    fn a_deviation_of_few_values_may_be_much_smaller() {
        // The chi-squared distribution with two degrees of freedom is exponential: its 95 % point is -2 ln 0.05.
        let wanted = (2.0 / (-2.0 * 0.05_f64.ln())).sqrt();
        assert!((least_deviation(1.0, 2.0, 0.95) - wanted).abs() < 1e-6);
        assert!(least_deviation(1.0, 100.0, 0.95) > 0.85);
        assert!(least_deviation(1.0, 0.0, 0.95).abs() < 1e-15);
    }
}
