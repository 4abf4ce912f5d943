//! Shares of few runs.

use statrs::distribution::{Beta, ContinuousCDF, DiscreteCDF, Hypergeometric};

/// The interval of a share of `hits` in `count`: Clopper, C. and Pearson, E. S. (1934), "The use of confidence or fiducial
/// limits illustrated in the case of the binomial", exact, and so never too narrow.
pub fn share_interval(hits: usize, count: usize, confidence: f64) -> (f64, f64) {
    let quantile = |hits: f64, misses: f64, probability: f64| {
        Beta::new(hits, misses).ok().map(|distribution| distribution.inverse_cdf(probability))
    };
    let tail = (1.0 - confidence) / 2.0;
    let misses = count.saturating_sub(hits) as f64;
    let hits = hits as f64;
    let low = if hits > 0.0 { quantile(hits, misses + 1.0, tail) } else { None };
    let high = if misses > 0.0 { quantile(hits + 1.0, misses, 1.0 - tail) } else { None };
    (low.unwrap_or(0.0), high.unwrap_or(1.0))
}

/// The probability that so few of `count` hit if both sides hit alike: Fisher's exact test, one-sided, given the hits of both together.
pub fn fewer_by_chance(hits: usize, count: usize, other_hits: usize, other_count: usize) -> f64 {
    let all = (count + other_count) as u64;
    let distribution = Hypergeometric::new(all, (hits + other_hits) as u64, count as u64);
    distribution.map_or(1.0, |distribution| distribution.cdf(hits as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_hits_by_chance_as_counted() {
        // Of the 252 ways to give five of ten runs to one side: those with as many of the hits or fewer.
        for (hits, other, ways) in [(0, 5, 1.0), (1, 4, 26.0), (2, 3, 126.0), (5, 5, 252.0)] {
            let found = fewer_by_chance(hits, 5, other, 5);
            assert!((found - ways / 252.0).abs() < 1e-12, "{hits} {other}: {found}");
        }
        // 2 of 5 beside 5 of 5: C(7,2) of C(10,5) are not all; 1 + ... counted as C(3,3) C(7,2) = 21 ways.
        assert!((fewer_by_chance(2, 5, 5, 5) - 21.0 / 252.0).abs() < 1e-12);
    }

    #[test]
    fn shares_of_the_tables() {
        for (hits, count, low, high) in [
            (4, 5, 0.2836, 0.9949),
            (5, 5, 0.4782, 1.0),
            (0, 5, 0.0, 0.5218),
            (9, 10, 0.5550, 0.9975),
            (0, 0, 0.0, 1.0),
        ] {
            let found = share_interval(hits, count, 0.95);
            assert!(
                (found.0 - low).abs() < 5e-4 && (found.1 - high).abs() < 5e-4,
                "{hits} of {count}: {found:?}"
            );
        }
        // All of n: the lower end is the n-th root of 2.5 %.
        assert!((share_interval(7, 7, 0.95).0 - 0.025_f64.powf(1.0 / 7.0)).abs() < 1e-6);
    }
}
