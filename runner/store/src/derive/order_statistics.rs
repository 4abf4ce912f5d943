//! Exact medians and percentiles of any number of values, in memory that does not grow with it.
//!
//! The values come in several passes. As long as there are few, they are kept; beyond that they are counted in cells whose
//! width is a fixed share of the value. After a pass only the cells that hold a wanted place are looked into again, with
//! cells of their own, until each holds few values or one. 16,384 values take one pass, millions take two or three.

use crate::derive::cells::{cell_of, range_of};
use record::Nanos;
use std::collections::BTreeMap;

/// Values that are kept as they are, of one window.
pub(crate) const FEW: usize = 1 << 14;
/// Cells per factor of two, as a power of two.
const BITS: u32 = 10;

/// The order statistics of one quantity.
#[derive(Clone, Debug)]
pub(crate) struct OrderStatistics {
    passes: u32,
    count: u64,
    total: u64,
    max: u64,
    windows: Vec<Window>,
}

/// The values from `low` to `high`.
#[derive(Clone, Debug)]
struct Window {
    low: u64,
    high: u64,
    /// Number of values below `low`.
    below: u64,
    seen: Seen,
}

#[derive(Clone, Debug)]
enum Seen {
    /// Sorted after the pass.
    Values(Vec<u64>),
    /// Number of values by cell.
    Cells(BTreeMap<u32, u64>),
    /// After the pass: nothing more is to be found out. All are equal to `low`.
    Equal(u64),
    /// As [`Seen::Values`], after the pass.
    Sorted(Vec<u64>),
}

impl Default for OrderStatistics {
    fn default() -> Self {
        Self { passes: 0, count: 0, total: 0, max: 0, windows: vec![Window::new(0, u64::MAX, 0)] }
    }
}

impl OrderStatistics {
    /// Adds a value; in each pass the same ones, in any order.
    pub(crate) fn add(&mut self, value: u64) {
        if self.passes == 0 {
            self.count += 1;
            self.total = self.total.saturating_add(value);
            self.max = self.max.max(value);
        }
        for window in &mut self.windows {
            window.add(value);
        }
    }

    /// Ends a pass. Returns whether another one is needed.
    pub(crate) fn end_pass(&mut self) -> bool {
        self.passes += 1;
        let windows = std::mem::take(&mut self.windows);
        for place in self.places() {
            let narrow =
                windows.iter().find(|window| window.holds(place)).map(|window| window.narrowed(place));
            self.windows
                .extend(narrow.filter(|narrow| !self.windows.iter().any(|known| known.low == narrow.low)));
        }
        self.windows.iter().any(|window| matches!(window.seen, Seen::Values(_) | Seen::Cells(_)))
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// The sum of all values.
    pub(crate) fn total(&self) -> Nanos {
        Nanos(self.total)
    }

    pub(crate) fn max(&self) -> Nanos {
        Nanos(self.max)
    }

    /// The middle value; of an even number, the mean of the middle two, rounded down. `None` without values, or before the
    /// last pass.
    pub(crate) fn median(&self) -> Option<Nanos> {
        let [lower, upper, _] = self.places();
        Some(Nanos(self.at(lower)?.midpoint(self.at(upper)?)))
    }

    /// The value of rank ceil(0.95 n), as [`OrderStatistics::median`].
    pub(crate) fn p95(&self) -> Option<Nanos> {
        let [.., place] = self.places();
        self.at(place).map(Nanos)
    }

    /// The places that are asked for, from 0.
    fn places(&self) -> [u64; 3] {
        let n = self.count;
        let hundredth = u64::try_from((u128::from(n) * 95).div_ceil(100)).unwrap_or(n);
        [n.saturating_sub(1) / 2, n / 2, hundredth.saturating_sub(1)]
    }

    fn at(&self, place: u64) -> Option<u64> {
        let window = self.windows.iter().find(|window| window.holds(place))?;
        match &window.seen {
            Seen::Equal(_) => Some(window.low),
            Seen::Sorted(values) => values.get(usize::try_from(place - window.below).ok()?).copied(),
            Seen::Values(_) | Seen::Cells(_) => None,
        }
    }
}

impl Window {
    fn new(low: u64, high: u64, below: u64) -> Self {
        Self { low, high, below, seen: Seen::Values(Vec::new()) }
    }

    fn add(&mut self, value: u64) {
        if value < self.low || value > self.high {
            return;
        }
        match &mut self.seen {
            Seen::Values(values) if values.len() < FEW => values.push(value),
            Seen::Values(values) => {
                let mut cells = BTreeMap::new();
                for value in values.iter().chain([&value]) {
                    *cells.entry(cell_of::<BITS>(value - self.low)).or_default() += 1;
                }
                self.seen = Seen::Cells(cells);
            }
            Seen::Cells(cells) => *cells.entry(cell_of::<BITS>(value - self.low)).or_default() += 1,
            Seen::Equal(_) | Seen::Sorted(_) => {}
        }
    }

    fn holds(&self, place: u64) -> bool {
        let count = match &self.seen {
            Seen::Values(values) | Seen::Sorted(values) => values.len() as u64,
            Seen::Cells(cells) => cells.values().sum(),
            Seen::Equal(count) => *count,
        };
        (self.below..self.below.saturating_add(count)).contains(&place)
    }

    /// The part of this window that holds the place, after a pass.
    fn narrowed(&self, place: u64) -> Self {
        let Seen::Cells(cells) = &self.seen else {
            let mut whole = self.clone();
            if let Seen::Values(values) = &mut whole.seen {
                values.sort_unstable();
                whole.seen = Seen::Sorted(std::mem::take(values));
            }
            return whole;
        };
        let mut below = self.below;
        for (cell, count) in cells {
            if place < below + count {
                let (first, last) = range_of::<BITS>(*cell);
                let high = self.low.saturating_add(last).min(self.high);
                let mut narrow = Self::new(self.low + first, high, below);
                narrow.seen = if first == last { Seen::Equal(*count) } else { Seen::Values(Vec::new()) };
                return narrow;
            }
            below += count;
        }
        self.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The statistics of these values, and the number of passes.
    fn statistics(values: &[u64]) -> (OrderStatistics, u32) {
        let mut statistics = OrderStatistics::default();
        loop {
            for value in values {
                statistics.add(*value);
            }
            if !statistics.end_pass() {
                let passes = statistics.passes;
                return (statistics, passes);
            }
            assert!(statistics.passes < 9, "it does not end");
        }
    }

    fn check(values: &[u64]) -> u32 {
        let (found, passes) = statistics(values);
        let mut sorted = values.to_vec();
        sorted.sort_unstable();
        let n = sorted.len();
        let middle = |place: usize| sorted.get(place).copied();
        let median = middle(n / 2).map(|upper| Nanos(sorted[(n - 1) / 2].midpoint(upper)));
        assert_eq!(found.median(), median);
        assert_eq!(found.p95().map(|time| time.0), middle((n * 95).div_ceil(100).saturating_sub(1)));
        assert_eq!((found.count(), Some(found.max().0)), (n as u64, sorted.last().copied().or(Some(0))));
        for window in &found.windows {
            if let Seen::Sorted(values) | Seen::Values(values) = &window.seen {
                assert!(values.len() <= FEW);
            }
        }
        passes
    }

    #[test]
    fn few_values_take_one_pass() {
        for values in [&[][..], &[7], &[5, 1, 9], &[4, 1, 9, 6], &[0, u64::MAX]] {
            assert_eq!(check(values), 1);
        }
        assert_eq!(check(&(0..FEW as u64).rev().collect::<Vec<_>>()), 1);
    }

    /// A multiplicative generator, so that the order is scattered.
    fn scattered(count: usize, value: impl Fn(u64) -> u64) -> Vec<u64> {
        let next = |state: &u64| Some(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695));
        std::iter::successors(Some(1_u64), next).map(|state| value(state >> 33)).take(count).collect()
    }

    #[test]
    fn many_values_are_exact_too() {
        let many = 5 * FEW;
        assert!(check(&scattered(many, |random| random)) > 1);
        // All in one cell: it is divided again.
        assert!(check(&scattered(many, |random| 1_000_000_000_000 + random % 90_000_000)) > 2);
        assert_eq!(check(&scattered(many, |_| 3_000_000_000)), 3);
        assert_eq!(check(&scattered(many, |random| random % 3)), 1);
        check(&scattered(many, |random| if random % 20 == 0 { u64::MAX - random } else { random % 50 }));
    }
}
