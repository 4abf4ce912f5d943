//! Variances shared between many small samples.
//!
//! Each variance is taken as drawn from one distribution whose parameters all samples estimate together; what a sample says
//! of its own variance is then combined with it. Where the variances are alike, three repeats under four conditions are
//! worth six or seven; where they are not, almost nothing is shared. Smyth, G. K. (2004), "Linear models and empirical Bayes
//! methods for assessing differential expression in microarray experiments", equations in section 6.2.

use super::interval::Summary;
use statrs::distribution::{ContinuousCDF, FisherSnedecor};
use statrs::function::gamma::digamma;
use std::collections::{BTreeMap, BTreeSet};

/// Samples below this number share nothing: three variances cannot tell how much variances differ.
const FEWEST: usize = 4;

/// The part of the estimated degrees of freedom that a sample borrows: few variances cannot tell how much variances differ, and
/// with all of them a sample that spreads three times as much as the others would be called sure too often.
const BORROWED: f64 = 0.5;

/// A sample, and the number of the condition that it is of.
pub(crate) struct PlacedSummary<'a> {
    /// Its variance is replaced.
    pub(crate) summary: &'a mut Summary,
    /// Samples of one condition have their runs in common.
    pub(crate) condition: usize,
}

/// Replaces variance and degrees of freedom of each sample by the moderated ones. Samples without spread, whose
/// logarithm is not finite, take no part.
pub(crate) fn moderate(samples: &mut [PlacedSummary<'_>]) {
    let usable =
        |sample: &Summary| sample.variance > 0.0 && sample.variance.is_finite() && sample.freedom >= 1.0;
    let mut usable: Vec<&mut PlacedSummary<'_>> =
        samples.iter_mut().filter(|sample| usable(sample.summary)).collect();
    let known: Vec<Summary> = usable.iter().map(|sample| *sample.summary).collect();
    if known.len() < FEWEST {
        return;
    }
    let conditions: Vec<usize> = usable.iter().map(|sample| sample.condition).collect();
    let terms: Vec<Term> = known.iter().map(Term::of).collect();
    let prior = Prior::of(&terms);
    let odd_conditions = odd_conditions(&known, &terms, &conditions, &prior);
    let pools = Pools::of(&known, &conditions);
    for (place, sample) in usable.iter_mut().enumerate() {
        if odd_conditions.contains(&sample.condition) || is_odd(&known[place], &terms, place, &prior) {
            continue;
        }
        let sample_condition = sample.condition;
        let sample = &mut *sample.summary;
        let own = sample.freedom;
        let borrowed = prior.freedom.min(pools.beside(own, sample_condition)) * BORROWED;
        sample.variance = (borrowed * prior.variance + own * sample.variance) / (own + borrowed);
        sample.freedom = own + borrowed;
    }
}

/// A variance that is exceeded with less than this probability is too large for what the others say. A smaller one lets more
/// false claims pass where one condition spreads more than the others; a larger one gives away what equal spreads lend.
const ODD: f64 = 0.5;

/// The same of the mean variance of a condition with several samples.
const ODD_CONDITION: f64 = 0.25;

/// From this number of samples, or conditions, on, one of them hardly moves the prior.
const MANY: usize = 200;

/// The conditions that spread more than the others let expect. Their samples share the runs of a baseline, so that some of them are
/// small by chance and would not be odd on their own: all of them keep to themselves.
fn odd_conditions(samples: &[Summary], terms: &[Term], conditions: &[usize], all: &Prior) -> BTreeSet<usize> {
    let mut by_condition: BTreeMap<usize, Vec<Summary>> = BTreeMap::new();
    for (sample, condition) in samples.iter().zip(conditions) {
        by_condition.entry(*condition).or_default().push(*sample);
    }
    let many = by_condition.len() >= MANY;
    let of_others = |condition: usize| {
        let placed = terms.iter().zip(conditions).filter(|(_, own)| **own != condition);
        let others: Vec<Term> = placed.map(|(term, _)| *term).collect();
        (others.len() >= FEWEST).then(|| Prior::of(&others))
    };
    let odd = by_condition.into_iter().filter(|(condition, own)| {
        let prior = if many { Some(*all) } else { of_others(*condition) };
        own.len() > 1 && prior.is_some_and(|prior| is_odd_together(own, prior))
    });
    odd.map(|(condition, _)| condition).collect()
}

/// Exponent: k samples of one condition tell as much of the spread as k to this power would on their own. Counted as k,
/// they pretend to know a baseline that spreads five times as much as the arms; as the square root, nine arms of three
/// repeats lose a third of their power.
const SHARED: f64 = 0.75;

/// The degrees of freedom of all samples. Those of a condition share the runs of a baseline, and count as fewer.
struct Pools {
    /// Of each condition the sum, and what a degree of freedom counts there.
    of_condition: BTreeMap<usize, (f64, f64)>,
}

impl Pools {
    fn of(samples: &[Summary], conditions: &[usize]) -> Self {
        let mut by_condition: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
        for (sample, condition) in samples.iter().zip(conditions) {
            by_condition.entry(*condition).or_default().push(sample.freedom);
        }
        let pool = |own: Vec<f64>| (own.iter().sum(), (own.len() as f64).powf(SHARED - 1.0));
        Self {
            of_condition: by_condition.into_iter().map(|(condition, own)| (condition, pool(own))).collect(),
        }
    }

    /// Those of all samples but one with `own` degrees of freedom under `condition`.
    fn beside(&self, own: f64, condition: usize) -> f64 {
        let counted = self.of_condition.iter().map(|(number, (sum, weight))| {
            let rest = if *number == condition { sum - own } else { *sum };
            rest.max(0.0) * weight
        });
        counted.sum()
    }
}

/// k samples with a baseline in common tell of their variance what the square root of k would alone; simulated.
fn is_odd_together(samples: &[Summary], prior: Prior) -> bool {
    let count = samples.len() as f64;
    let mean = |of: fn(&Summary) -> f64| samples.iter().map(of).sum::<f64>() / count;
    let freedom = mean(|sample| sample.freedom) * count.sqrt();
    let ratio = mean(|sample| sample.variance) / prior.variance;
    FisherSnedecor::new(freedom, prior.freedom.min(1e6))
        .is_ok_and(|expected| expected.sf(ratio) < ODD_CONDITION)
}

/// Whether a sample spreads more than the others let expect: s^2 over the prior variance has the F distribution. It keeps its
/// own variance, as the hypervariable genes of Phipson et al. (2016), "Robust hyperparameter estimation protects against
/// hypervariable genes", do.
fn is_odd(own: &Summary, terms: &[Term], place: usize, all: &Prior) -> bool {
    let prior = if terms.len() < MANY {
        let others: Vec<Term> =
            terms.iter().enumerate().filter(|(other, _)| *other != place).map(|(_, other)| *other).collect();
        Prior::of(&others)
    } else {
        *all
    };
    let ratio = own.variance / prior.variance;
    FisherSnedecor::new(own.freedom, prior.freedom.min(1e6)).is_ok_and(|expected| expected.sf(ratio) < ODD)
}

/// The distribution that variances are drawn from: `freedom` degrees of freedom around `variance`.
#[derive(Clone, Copy, Debug)]
struct Prior {
    variance: f64,
    /// Infinite if the variances differ by no more than chance.
    freedom: f64,
}

/// A sample's terms of the two sums that the prior is estimated from.
#[derive(Clone, Copy, Debug)]
struct Term {
    /// The logarithm of its variance, less its expectation at a prior variance of one.
    centred: f64,
    /// How much that logarithm varies by chance.
    chance: f64,
}

impl Term {
    fn of(sample: &Summary) -> Self {
        let half = sample.freedom / 2.0;
        Self { centred: sample.variance.ln() - digamma(half) + half.ln(), chance: trigamma(half) }
    }
}

impl Prior {
    fn of(terms: &[Term]) -> Self {
        let count = terms.len() as f64;
        let mean = terms.iter().map(|term| term.centred).sum::<f64>() / count;
        let scatter = terms.iter().map(|term| (term.centred - mean).powi(2)).sum::<f64>() / (count - 1.0);
        let chance = terms.iter().map(|term| term.chance).sum::<f64>() / count;
        let excess = scatter - chance;
        if excess <= 0.0 {
            return Self { variance: mean.exp(), freedom: f64::INFINITY };
        }
        let half = inverse_trigamma(excess);
        Self { variance: (mean + digamma(half) - half.ln()).exp(), freedom: 2.0 * half }
    }
}

/// The derivative of the digamma function, for positive arguments: recurrence up to 10, then the asymptotic series
/// (Abramowitz and Stegun 6.4.6 and 6.4.12).
fn trigamma(value: f64) -> f64 {
    let mut shifted = value;
    let mut sum = 0.0;
    while shifted < 10.0 {
        sum += shifted.powi(-2);
        shifted += 1.0;
    }
    let inverse = shifted.recip();
    let square = inverse * inverse;
    sum + inverse
        * (1.0
            + inverse / 2.0
            + square * (1.0 / 6.0 - square * (1.0 / 30.0 - square * (1.0 / 42.0 - square / 30.0))))
}

/// The argument at which the trigamma function has this positive value. It falls from infinity to zero, so that halving an
/// interval of logarithms finds it.
fn inverse_trigamma(value: f64) -> f64 {
    let mut low: f64 = -20.0;
    let mut high: f64 = 20.0;
    loop {
        let middle = low.midpoint(high);
        // No number lies between the two.
        if middle <= low || middle >= high {
            return middle.exp();
        }
        if trigamma(middle.exp()) > value {
            low = middle;
        } else {
            high = middle;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: f64, wanted: f64, tolerance: f64) {
        assert!((found - wanted).abs() < tolerance, "{found} is not {wanted}");
    }

    fn sample(variance: f64) -> Summary {
        Summary { mean: 0.0, variance, freedom: 2.0, size: 3.0 }
    }

    fn moderated(variances: &[f64]) -> Vec<Summary> {
        let conditions: Vec<usize> = (0..variances.len()).collect();
        moderated_under(variances, &conditions)
    }

    fn moderated_under(variances: &[f64], conditions: &[usize]) -> Vec<Summary> {
        let mut samples: Vec<Summary> = variances.iter().map(|variance| sample(*variance)).collect();
        let placed = samples.iter_mut().zip(conditions);
        let mut placed: Vec<PlacedSummary<'_>> =
            placed.map(|(summary, condition)| PlacedSummary { summary, condition: *condition }).collect();
        moderate(&mut placed);
        drop(placed);
        samples
    }

    #[test]
    fn values_of_the_trigamma_function() {
        // π²/6, π²/6 - 1 and π²/2 exactly.
        let sixth = std::f64::consts::PI.powi(2) / 6.0;
        close(trigamma(1.0), sixth, 1e-9);
        close(trigamma(2.0), sixth - 1.0, 1e-9);
        close(trigamma(0.5), 3.0 * sixth, 1e-9);
        for value in [0.01, 0.3, 1.0, 7.5, 200.0] {
            close(inverse_trigamma(trigamma(value)) / value, 1.0, 1e-7);
        }
    }

    #[test]
    fn equal_variances_are_pooled() {
        // With two degrees of freedom, E ln s² = ln σ² + ψ(1) - ln 1: the factor is e^0.5772.
        // Each has two degrees of freedom of its own, and borrows half of the six of the others.
        let found = moderated(&[4.0, 4.0, 4.0, 4.0]);
        for sample in found {
            close(sample.variance, (3.0 * 4.0 * 0.577_215_66_f64.exp() + 2.0 * 4.0) / 5.0, 1e-6);
            close(sample.freedom, 5.0, 1e-12);
        }
    }

    /// With two degrees of freedom, ln s² less its expectation is ln s² + γ, and varies by ψ'(1) = π²/6. Where it varies by twice as much,
    /// the prior has two degrees of freedom too, and its variance is e^(γ - γ).
    #[test]
    fn a_prior_of_two_degrees_of_freedom_is_found() {
        let count = 8.0_f64;
        let apart = (std::f64::consts::PI.powi(2) / 3.0 * (count - 1.0) / count).sqrt();
        let terms: Vec<Term> = (0..8)
            .map(|number| Term::of(&sample(if number < 4 { apart.exp() } else { (-apart).exp() })))
            .collect();
        let prior = Prior::of(&terms);
        close(prior.freedom, 2.0, 1e-6);
        close(prior.variance, 1.0, 1e-6);
    }

    /// Four equal samples have a prior variance of e^γ, and the F distribution with 2 and endless degrees of freedom exceeds r with
    /// probability e^-r: a fifth is odd from e^γ ln 2 = 1.23 on. With itself among them it would be from 1.30 on.
    #[test]
    fn a_sample_is_odd_by_what_the_others_say() {
        let keeps_to_itself = |variance: f64| {
            let found = moderated(&[1.0, 1.0, 1.0, 1.0, variance]);
            found[4] == sample(variance)
        };
        assert!(keeps_to_itself(1.27) && !keeps_to_itself(1.2));
    }

    #[test]
    fn those_of_one_condition_count_as_fewer() {
        // 16 to the power of -1/4 is 1/2: of the 30 degrees of freedom of the others, 15 count, and half of them are borrowed.
        let found = moderated_under(&[4.0; 16], &[0; 16]);
        close(found[0].freedom, 2.0 + 15.0 / 2.0, 1e-12);
        let found = moderated_under(&[4.0; 32], &[[0; 16], [1; 16]].concat());
        close(found[0].freedom, 2.0 + 31.0 / 2.0, 1e-12);
    }

    /// One sample with many values beside few that spread much: what it borrows is never less than nothing.
    #[test]
    fn a_sample_that_is_longer_than_all_others_keeps_at_least_its_own() {
        let mut samples = [40.0, 41.0, 42.0, 1.0].map(sample);
        samples[3] = Summary { freedom: 23.0, size: 24.0, ..samples[3] };
        let placed = samples.iter_mut().map(|summary| PlacedSummary { summary, condition: 0 });
        let mut placed: Vec<PlacedSummary<'_>> = placed.collect();
        moderate(&mut placed);
        drop(placed);
        assert!(samples[3].freedom >= 23.0 && samples[3].variance >= 1.0, "{:?}", samples[3]);
    }

    #[test]
    fn variances_far_apart_keep_to_themselves() {
        let found = moderated(&[1e-6, 1.0, 1e6, 1e-3, 1e3]);
        for (found, own) in found.iter().zip([1e-6_f64, 1.0, 1e6, 1e-3, 1e3]) {
            assert!((found.variance / own).ln().abs() < (own.ln().abs() + 1.0) * 0.4, "{found:?} {own}");
            assert!(found.freedom < 2.5, "{found:?}");
        }
    }

    #[test]
    fn one_that_spreads_more_than_the_others_keeps_to_itself() {
        let found = moderated(&[1.0, 1.2, 0.8, 1.1, 0.9, 9.0]);
        assert_eq!(found[5], sample(9.0));
        assert!(found[0].freedom > 4.0, "{:?}", found[0]);
    }

    /// The small one among four of a condition that spreads three times as much shares nothing either.
    #[test]
    fn a_condition_that_spreads_more_than_the_others_keeps_to_itself() {
        let variances = [1.0, 1.2, 0.8, 1.1, 0.9, 1.0, 1.3, 0.7, 9.0, 12.0, 8.0, 0.9];
        let conditions = [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2];
        let found = moderated_under(&variances, &conditions);
        assert_eq!(found[8..], [9.0, 12.0, 8.0, 0.9].map(sample));
        assert!(moderated(&variances)[11].freedom > 2.5, "alone it would");
        assert!(found[0].freedom > 2.5);
    }

    #[test]
    fn three_samples_share_nothing_and_neither_do_those_without_spread() {
        assert_eq!(moderated(&[1.0, 2.0, 2.0]), [sample(1.0), sample(2.0), sample(2.0)]);
        let found = moderated(&[0.0, 2.0, 2.0, 2.0, 2.0]);
        assert_eq!(found[0], sample(0.0));
        close(found[1].freedom, 5.0, 1e-12);
    }
}
