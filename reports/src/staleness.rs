//! How stale gradients were: a histogram over all judged runs of an arm.

use comparison::study::ArmCell;
use std::collections::BTreeMap;

/// Gradients by their staleness.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Histogram(BTreeMap<u64, u64>);

/// A bar: gradients whose staleness lies in a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bucket {
    pub(crate) from: u64,
    /// The largest staleness in it; `None` for the tail.
    pub(crate) to: Option<u64>,
    pub(crate) count: u64,
}

/// Bars of a histogram beside its tail.
const MOST_BARS: u64 = 20;

/// The share of gradients that the bars cover before the tail begins.
const BODY: f64 = 0.99;

impl Histogram {
    pub(crate) fn add(&mut self, staleness: u64, count: u64) {
        *self.0.entry(staleness).or_default() += count;
    }

    /// Number of gradients of any staleness.
    pub(crate) fn total(&self) -> u64 {
        self.0.values().sum()
    }

    pub(crate) fn mean(&self) -> Option<f64> {
        let sum: f64 = self.0.iter().map(|(staleness, count)| *staleness as f64 * *count as f64).sum();
        (!self.0.is_empty()).then(|| sum / self.total() as f64)
    }

    pub(crate) fn max(&self) -> Option<u64> {
        self.0.keys().next_back().copied()
    }

    /// The smallest staleness that at least `share` of the gradients do not exceed.
    pub(crate) fn quantile(&self, share: f64) -> Option<u64> {
        let wanted = share * self.total() as f64;
        let mut seen = 0;
        let mut found = None;
        for (staleness, count) in &self.0 {
            found = Some(*staleness);
            seen += count;
            if seen as f64 >= wanted {
                break;
            }
        }
        found
    }

    /// Bars of equal width from 0 on, and a tail if needed. Every gradient is in one bar.
    pub(crate) fn buckets(&self) -> Vec<Bucket> {
        let (Some(body), Some(max)) = (self.quantile(BODY), self.max()) else { return Vec::new() };
        let width = width_for(body.saturating_add(1));
        let bars = (body / width + 1).max(1);
        let mut buckets: Vec<Bucket> = (0..bars)
            .map(|bar| Bucket {
                from: bar * width,
                to: Some((bar + 1).saturating_mul(width).saturating_sub(1)),
                count: 0,
            })
            .collect();
        let beyond = bars.saturating_mul(width);
        if max >= beyond {
            buckets.push(Bucket { from: beyond, to: None, count: 0 });
        }
        for (staleness, count) in &self.0 {
            let place = (staleness / width).min(buckets.len() as u64 - 1);
            buckets[place as usize].count += count;
        }
        buckets
    }
}

/// The roundest width with which `values` values fit into the bars.
fn width_for(values: u64) -> u64 {
    let mut power = 1;
    loop {
        for times in [1, 2, 5] {
            let width = times * power;
            if values.div_ceil(width) <= MOST_BARS {
                return width;
            }
        }
        power = match u64::checked_mul(power, 10) {
            Some(power) if power < u64::MAX / 10 => power,
            _ => return u64::MAX / MOST_BARS,
        };
    }
}

/// The gradients of an arm's judged runs: all, and those of each worker at each server.
pub(crate) struct Staleness {
    pub(crate) all: Histogram,
    pub(crate) by_worker: BTreeMap<(u32, u32), Histogram>,
    /// Number of runs with any.
    pub(crate) runs: usize,
}

/// The staleness of an arm's gradients; `None` unless servers apply gradients as they arrive.
pub(crate) fn of(cell: &ArmCell) -> Option<Staleness> {
    let mut found = Staleness { all: Histogram::default(), by_worker: BTreeMap::new(), runs: 0 };
    for judged in cell.sound_runs().filter(|judged| !judged.attempt.staleness.is_empty()) {
        found.runs += 1;
        for row in &judged.attempt.staleness {
            found.all.add(row.staleness, row.count);
            found.by_worker.entry((row.worker.0, row.server.0)).or_default().add(row.staleness, row.count);
        }
    }
    (found.all.total() > 0).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn histogram(counts: &[(u64, u64)]) -> Histogram {
        let mut histogram = Histogram::default();
        for (staleness, count) in counts {
            histogram.add(*staleness, *count);
        }
        histogram
    }

    #[test]
    fn moments_and_quantiles_are_exact() {
        let found = histogram(&[(0, 10), (1, 20), (3, 60), (9, 9), (40, 1)]);
        assert_eq!((found.total(), found.max()), (100, Some(40)));
        assert!((found.mean().unwrap() - 3.21).abs() < 1e-12);
        assert_eq!(
            [0.0, 0.1, 0.11, 0.3, 0.5, 0.95, 0.99, 1.0].map(|share| found.quantile(share).unwrap()),
            [0, 0, 1, 1, 3, 9, 9, 40]
        );
        assert_eq!((Histogram::default().mean(), Histogram::default().buckets()), (None, vec![]));
    }

    #[test]
    fn a_long_tail_is_one_bar() {
        let found = histogram(&[(0, 10), (1, 20), (3, 60), (9, 9), (40, 1)]).buckets();
        assert_eq!(found.len(), 11);
        assert_eq!(found[3], Bucket { from: 3, to: Some(3), count: 60 });
        assert_eq!(found[10], Bucket { from: 10, to: None, count: 1 });
        let wide = histogram(&[(60, 50), (70, 50)]).buckets();
        assert_eq!(wide.last(), Some(&Bucket { from: 70, to: Some(74), count: 50 }));
        assert_eq!(histogram(&[(u64::MAX, 3)]).buckets().iter().map(|bar| bar.count).sum::<u64>(), 3);
    }

    proptest! {
        #[test]
        fn every_gradient_is_in_one_bar_and_shares_sum_to_one(
            counts in prop::collection::vec((0..300_u64, 1..1000_u64), 1..60)
        ) {
            let found = histogram(&counts);
            let buckets = found.buckets();
            prop_assert!(buckets.len() as u64 <= MOST_BARS + 1);
            prop_assert_eq!(buckets.iter().map(|bar| bar.count).sum::<u64>(), found.total());
            let shares: f64 = buckets.iter().map(|bar| bar.count as f64 / found.total() as f64).sum();
            prop_assert!((shares - 1.0).abs() < 1e-12);
            for pair in buckets.windows(2) {
                prop_assert_eq!(pair[0].to.unwrap() + 1, pair[1].from);
            }
        }
    }
}
