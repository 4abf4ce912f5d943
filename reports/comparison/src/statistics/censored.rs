//! Differences of which some are known only to lie beyond a bound, because one side of the pair never reached the target.
//!
//! Model: with probability π a side can never reach it; otherwise the difference is normal. A pair whose side did not reach
//! is therefore either one of the first kind, which says nothing about the speed of the others, or a difference beyond the
//! bound. Fitted by expectation and maximisation: Boag, J. W. (1949), "Maximum likelihood estimates of the proportion of
//! patients cured by cancer therapy", for the mixture; Dempster, Laird and Rubin (1977), section 4.1, for censored normal
//! values. A missed run so costs precision, and more the nearer it was watched to the values of the others.

use super::interval::{Summary, average};
use super::student_quantile;
use statrs::distribution::{Continuous, ContinuousCDF, Normal};

/// The difference of one pair.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Difference {
    /// Both sides reached the target.
    Exact(f64),
    /// The minuend did not: at least this much.
    AtLeast(f64),
    /// The subtrahend did not: at most this much.
    AtMost(f64),
    /// The minuend cannot reach it: it diverged. At least this much, as long as it was watched.
    MinuendNever(f64),
    /// The subtrahend cannot reach it.
    SubtrahendNever(f64),
}

impl Difference {
    /// The difference with something added to it, or to its bound.
    pub(crate) fn shifted(self, by: f64) -> Self {
        match self {
            Self::Exact(value) => Self::Exact(value + by),
            Self::AtLeast(value) => Self::AtLeast(value + by),
            Self::AtMost(value) => Self::AtMost(value + by),
            Self::MinuendNever(value) => Self::MinuendNever(value + by),
            Self::SubtrahendNever(value) => Self::SubtrahendNever(value + by),
        }
    }
}

/// Exact differences below this number give no fit.
pub(crate) const FEWEST: usize = 3;

const ITERATIONS: usize = 500;
const PRECISION: f64 = 1e-10;

/// The fit of the model; `None` with fewer than [`FEWEST_PAIRS`](crate::FEWEST_PAIRS) exact differences.
pub fn fit(differences: &[Difference]) -> Option<Summary> {
    let exact: Vec<f64> = differences.iter().filter_map(exactly).collect();
    let start = Summary::of(&exact).filter(|_| exact.len() >= FEWEST)?;
    let bounded: Vec<Bounded> = differences.iter().filter_map(Bounded::of).collect();
    if bounded.is_empty() || start.variance == 0.0 {
        return Some(start);
    }
    let never = Side::ALL.map(|side| differences.iter().filter(|found| side.is_never(found)).count() as f64);
    let model = Model { mean: start.mean, deviation: start.variance.sqrt(), never: [0.5; 2] };
    let model = model.converged(|model| model.improved(&exact, &bounded, never));
    Some(model.summary(exact.len(), &bounded))
}

/// The differences with each bound in the place of a value. Where only minuends missed, their mean is at most the true one.
pub(crate) fn with_bounds(differences: &[Difference]) -> Vec<f64> {
    let value = |difference: &Difference| match difference {
        Difference::Exact(value)
        | Difference::AtLeast(value)
        | Difference::AtMost(value)
        | Difference::MinuendNever(value)
        | Difference::SubtrahendNever(value) => *value,
    };
    differences.iter().map(value).collect()
}

/// The probability with which values predict one more. With less, fewer bounds count where the values lie close together by
/// chance, and up to 6.5 % of sweeps claim something false where an arm, or the baseline, that spreads three to five times as much
/// as the others is watched until one run in six to three is late.
const PREDICTED: f64 = 0.99;

/// The fit to the exact differences and to the bounds near them of one side, as if that side could not fail to reach the target for good;
/// `None` if none of its bounds is near, or with fewer than two exact differences. `least_variance` is that of reading the differences
/// on a grid.
///
/// A bound is near if it does not lie beyond what the exact differences predict of one more. Behind a near one is a run that may just
/// have been slow: to leave it out favours the side that missed. A bound says little of the spread, whose degrees of freedom are those
/// of the exact differences.
pub(crate) fn fit_near(differences: &[Difference], side: Side, least_variance: f64) -> Option<Summary> {
    let values: Vec<f64> = differences.iter().filter_map(exactly).collect();
    let exact = Summary::of(&values)?;
    let variance = exact.variance.max(least_variance);
    if variance == 0.0 {
        return None;
    }
    let reach = student_quantile(0.5 + PREDICTED / 2.0, exact.freedom)?
        * (variance * (1.0 + exact.size.recip())).sqrt();
    let is_near = |bound: &Bounded| bound.side == side && (bound.at - exact.mean).abs() <= reach;
    let bounded: Vec<Bounded> = differences.iter().filter_map(Bounded::of).filter(is_near).collect();
    if bounded.is_empty() {
        return None;
    }
    let start = Model { mean: exact.mean, deviation: variance.sqrt(), never: [0.0; 2] };
    let model =
        start.converged(|model| Model { never: [0.0; 2], ..model.improved(&values, &bounded, [0.0; 2]) });
    Some(Summary { freedom: exact.freedom, ..model.summary(values.len(), &bounded) })
}

fn exactly(difference: &Difference) -> Option<f64> {
    match difference {
        Difference::Exact(value) => Some(*value),
        _ => None,
    }
}

/// Which side of a pair missed the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The value that the other one is subtracted from.
    Minuend,
    /// The value that is subtracted.
    Subtrahend,
}

impl Side {
    /// Both, the minuend first.
    pub const ALL: [Self; 2] = [Self::Minuend, Self::Subtrahend];

    fn is_never(self, difference: &Difference) -> bool {
        match self {
            Self::Minuend => matches!(difference, Difference::MinuendNever(_)),
            Self::Subtrahend => matches!(difference, Difference::SubtrahendNever(_)),
        }
    }
}

/// A difference that is known to lie beyond `at`.
#[derive(Clone, Copy, Debug)]
struct Bounded {
    side: Side,
    at: f64,
}

impl Bounded {
    fn of(difference: &Difference) -> Option<Self> {
        match difference {
            Difference::AtLeast(at) => Some(Self { side: Side::Minuend, at: *at }),
            Difference::AtMost(at) => Some(Self { side: Side::Subtrahend, at: *at }),
            _ => None,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Model {
    mean: f64,
    deviation: f64,
    /// Of each side, the probability that it can never reach the target.
    never: [f64; 2],
}

/// Expectation of the model for a bounded difference.
struct Expected {
    /// Probability that it is a difference at all, and not a side that can never reach the target.
    real: f64,
    mean: f64,
    variance: f64,
}

impl Model {
    /// The model that `improved` no longer moves.
    fn converged(self, improved: impl Fn(&Self) -> Self) -> Self {
        let mut model = self;
        for _ in 0..ITERATIONS {
            let next = improved(&model);
            let moved = (next.mean - model.mean).abs() + (next.deviation - model.deviation).abs();
            model = next;
            if moved < PRECISION * model.deviation {
                break;
            }
        }
        model
    }

    fn expected(&self, bounded: &Bounded) -> Expected {
        let sign = if bounded.side == Side::Minuend { 1.0 } else { -1.0 };
        // On the scale on which the difference lies above `z`.
        let z = sign * (bounded.at - self.mean) / self.deviation;
        let beyond = Normal::standard().sf(z);
        let never = self.never[bounded.side as usize];
        let possible = (1.0 - never) * beyond;
        // Inverse of Mill's ratio; far in the tail it approaches z.
        let hazard = if beyond > 1e-12 { Normal::standard().pdf(z) / beyond } else { z.max(0.0) };
        Expected {
            real: match (never > 0.0, possible > 0.0) {
                (false, _) => 1.0,
                (true, true) => possible / (possible + never),
                (true, false) => 0.0,
            },
            mean: self.mean + sign * self.deviation * hazard,
            variance: self.deviation.powi(2) * (1.0 - hazard * (hazard - z)).clamp(0.0, 1.0),
        }
    }

    fn improved(&self, exact: &[f64], bounded: &[Bounded], never: [f64; 2]) -> Self {
        let expected: Vec<Expected> = bounded.iter().map(|bounded| self.expected(bounded)).collect();
        let weight = exact.len() as f64 + expected.iter().map(|found| found.real).sum::<f64>();
        let mean = (exact.iter().sum::<f64>()
            + expected.iter().map(|found| found.real * found.mean).sum::<f64>())
            / weight;
        let squares = exact.iter().map(|value| (value - mean).powi(2)).sum::<f64>()
            + expected
                .iter()
                .map(|found| found.real * ((found.mean - mean).powi(2) + found.variance))
                .sum::<f64>();
        let share = |side: Side| {
            let missed = || bounded.iter().zip(&expected).filter(|(bounded, _)| bounded.side == side);
            let impossible = missed().map(|(_, found)| 1.0 - found.real).sum::<f64>() + never[side as usize];
            impossible / (exact.len() as f64 + missed().count() as f64 + never[side as usize])
        };
        // Divided by the degrees of freedom, so that without bounds it is the sample's variance.
        let deviation = (squares / (weight - 1.0)).sqrt().max(f64::MIN_POSITIVE);
        Self { mean, deviation, never: Side::ALL.map(share) }
    }

    /// Each bounded difference is worth 1 - v / σ² of an exact one, where v is the variance that the bound leaves it: the
    /// missing information of Louis, T. A. (1982), "Finding the observed information matrix when using the EM algorithm".
    fn summary(&self, exact: usize, bounded: &[Bounded]) -> Summary {
        let worth = |bounded: &Bounded| {
            let expected = self.expected(bounded);
            expected.real * (1.0 - expected.variance / self.deviation.powi(2))
        };
        let size = exact as f64 + bounded.iter().map(worth).sum::<f64>();
        Summary { mean: self.mean, variance: self.deviation.powi(2), freedom: size - 1.0, size }
    }
}

/// The mean of the exact differences; `None` without one.
pub(crate) fn exact_mean(differences: &[Difference]) -> Option<f64> {
    average(&differences.iter().filter_map(exactly).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use Difference::{AtLeast, AtMost, Exact, MinuendNever, SubtrahendNever};

    fn close(found: f64, wanted: f64, tolerance: f64) {
        assert!((found - wanted).abs() < tolerance, "{found} is not {wanted}");
    }

    #[test]
    fn without_bounds_it_is_the_sample() {
        let found = fit(&[Exact(1.0), Exact(2.0), Exact(4.5)]).unwrap();
        assert_eq!(Some(found), Summary::of(&[1.0, 2.0, 4.5]));
        assert_eq!(fit(&[Exact(1.0), Exact(2.0), AtLeast(3.0)]), None);
    }

    #[test]
    fn a_bound_is_near_where_the_others_predict_values() {
        let both = |differences: &[Difference]| Side::ALL.map(|side| fit_near(differences, side, 0.0));
        let is_near = |bound| both(&[Exact(1.0), bound, Exact(1.2)]).map(|found| found.is_some());
        // 63.6567 * 0.1414 * sqrt(1.5) = 11.0257 around 1.1.
        for (bound, near) in [
            (AtLeast(12.12), [true, false]),
            (AtLeast(12.13), [false, false]),
            (AtMost(-9.92), [false, true]),
            (AtMost(-9.93), [false, false]),
            (MinuendNever(1.1), [false, false]),
        ] {
            assert_eq!(is_near(bound), near, "{bound:?}");
        }
        // 9.9248 * 0.1 * sqrt(4 / 3) = 1.1460 around 1.1.
        let exact = [1.0, 1.1, 1.2].map(Exact);
        let of = |bounds: &[Difference]| both(&[&exact[..], bounds].concat());
        assert_eq!(of(&[AtMost(-0.05), AtLeast(2.25)]), [None, None]);
        let [none, one] = of(&[AtMost(-0.04), AtLeast(2.25)]);
        assert_eq!((none, one), (None, of(&[AtMost(-0.04)])[1]));
        let one = one.unwrap();
        close(one.freedom, 2.0, 1e-12);
        assert!(one.mean < 0.9 && one.size > 3.0 && one.size < 4.0, "{one:?}");
        assert_eq!(both(&[Exact(1.0), AtMost(1.0)]), [None, None]);
        // One that is hardly near counts all the same.
        let [far, _] = both(&[Exact(1.0), AtLeast(12.12), Exact(1.2)]);
        assert!(far.unwrap().mean > 2.9, "{far:?}");
    }

    #[test]
    fn differences_that_agree_on_a_grid_have_its_variance() {
        let same = [Exact(1.0), Exact(1.0), AtLeast(1.0)];
        assert_eq!(fit_near(&same, Side::Minuend, 0.0), None);
        let found = fit_near(&same, Side::Minuend, 1e-4).unwrap();
        assert!(found.mean > 1.0 && found.size > 2.0, "{found:?}");
        let late = [Exact(1.0), Exact(1.0), AtLeast(1.3)];
        assert_eq!(fit_near(&late, Side::Minuend, 0.0), None);
        assert!(fit_near(&late, Side::Minuend, 1e-4).is_some());
    }

    #[test]
    fn near_bounds_pull_the_mean_as_the_likelihood_says() {
        // The same quantiles as below, without a side that never reaches.
        let quantile =
            |place: i32| Normal::new(2.0, 0.5).unwrap().inverse_cdf((f64::from(place) + 0.5) / 30.0);
        let values: Vec<f64> = (0..30).map(quantile).collect();
        let bounded = values.iter().map(|value| if *value < 2.2 { Exact(*value) } else { AtLeast(2.2) });
        let exact: Vec<f64> = values.iter().copied().filter(|value| *value < 2.2).collect();
        let found = fit_near(&bounded.collect::<Vec<_>>(), Side::Minuend, 0.0).unwrap();
        close(found.mean, brute_force(&exact, 2.2, values.len() - exact.len()), 0.02);
        close(found.freedom, exact.len() as f64 - 1.0, 1e-12);
        // Of the other side, the mirror image.
        let mirrored = values.iter().map(|value| if *value < 2.2 { Exact(-value) } else { AtMost(-2.2) });
        let mirrored = fit_near(&mirrored.collect::<Vec<_>>(), Side::Subtrahend, 0.0).unwrap();
        close(mirrored.mean, -found.mean, 1e-9);
    }

    #[test]
    fn a_bound_far_beyond_the_others_is_a_run_that_never_reaches() {
        let exact = [1.10, 1.12, 1.09, 1.11].map(Exact);
        let alone = fit(&exact).unwrap();
        for missed in [AtMost(-0.7), AtLeast(3.0), MinuendNever(1.5), SubtrahendNever(0.0)] {
            let found = fit(&[&exact[..], &[missed]].concat()).unwrap();
            close(found.mean, alone.mean, 1e-6);
            close(found.variance, alone.variance, 1e-6);
            close(found.size, 4.0, 1e-6);
        }
    }

    #[test]
    fn a_bound_that_all_keep_is_worth_almost_a_value() {
        // Known to be below 100: nothing is learnt, and nothing lost.
        let exact = [1.0, 2.0, 3.0, 4.0].map(Exact);
        let found = fit(&[&exact[..], &[AtMost(100.0)]].concat()).unwrap();
        close(found.mean, 2.5, 1e-4);
        assert!(found.size < 4.01, "{found:?}");
    }

    /// Maximises the likelihood on a grid, with the divisor n and no side that never reaches.
    fn brute_force(exact: &[f64], bound: f64, missed: usize) -> f64 {
        let likelihood = |mean: f64, deviation: f64| {
            let normal = Normal::new(mean, deviation).unwrap();
            exact.iter().map(|value| normal.ln_pdf(*value)).sum::<f64>()
                + missed as f64 * normal.sf(bound).max(1e-300).ln()
        };
        let mut best = (f64::NEG_INFINITY, 0.0);
        for mean in (0..400).map(|step| f64::from(step) * 0.01) {
            for deviation in (1..300).map(|step| f64::from(step) * 0.01) {
                let found = likelihood(mean, deviation);
                if found > best.0 {
                    best = (found, mean);
                }
            }
        }
        best.1
    }

    #[test]
    fn values_that_ran_out_of_time_pull_the_mean_as_the_likelihood_says() {
        // Thirty quantiles of the normal distribution of mean 2 and deviation 0.5, watched until 2.2.
        let quantile =
            |place: i32| Normal::new(2.0, 0.5).unwrap().inverse_cdf((f64::from(place) + 0.5) / 30.0);
        let (exact, late): (Vec<f64>, Vec<f64>) = (0..30).map(quantile).partition(|value| *value < 2.2);
        let model = Model { mean: 1.8, deviation: 0.3, never: [0.0; 2] };
        let bounded = vec![Bounded { side: Side::Minuend, at: 2.2 }; late.len()];
        let fitted = (0..2000)
            .fold(model, |model, _| Model { never: [0.0; 2], ..model.improved(&exact, &bounded, [0.0; 2]) });
        close(fitted.mean, brute_force(&exact, 2.2, late.len()), 0.02);
        close(fitted.mean, 2.0, 0.03);
        // The mean of those that arrived is far below.
        assert!(average(&exact).unwrap() < 1.85);
        // With the probability of never, the estimate lies between both.
        let differences: Vec<Difference> =
            exact.iter().map(|value| Exact(*value)).chain(late.iter().map(|_| AtLeast(2.2))).collect();
        let whole = fit(&differences).unwrap();
        assert!(whole.mean > average(&exact).unwrap() && whole.mean < 2.05, "{whole:?}");
        assert!(whole.size > exact.len() as f64 && whole.size < 30.0);
    }
}
