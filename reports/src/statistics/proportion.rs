//! Shares of few runs.

use statrs::distribution::{Beta, ContinuousCDF};

/// The interval of a share of `hits` in `count`: Clopper, C. and Pearson, E. S. (1934), "The use of confidence or fiducial
/// limits illustrated in the case of the binomial", exact, and so never too narrow.
pub(crate) fn share_interval(hits: usize, count: usize, confidence: f64) -> (f64, f64) {
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

#[cfg(test)]
mod tests {
    use super::*;

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
