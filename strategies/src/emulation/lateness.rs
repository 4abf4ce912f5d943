//! How much later than it should have, something happened: counts in classes that are 6 % wide.

use record::Nanos;

/// Classes within each doubling.
const FINE: u64 = 16;

/// How late things were. Quantiles are rounded up to the end of their class, never down.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lateness {
    classes: Vec<u64>,
    count: u64,
    most: Nanos,
}

impl Lateness {
    /// Counts one event that came `late` after its time.
    pub fn add(&mut self, late: Nanos) {
        let class = class(late.0);
        if self.classes.len() <= class {
            self.classes.resize(class + 1, 0);
        }
        self.classes[class] += 1;
        self.count += 1;
        self.most = self.most.max(late);
    }

    /// Counts all that another one has counted.
    pub fn join(&mut self, other: &Self) {
        if self.classes.len() < other.classes.len() {
            self.classes.resize(other.classes.len(), 0);
        }
        for (class, more) in self.classes.iter_mut().zip(&other.classes) {
            *class += more;
        }
        self.count += other.count;
        self.most = self.most.max(other.most);
    }

    /// How many were counted.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The largest lateness counted; zero if there was none.
    pub fn most(&self) -> Nanos {
        self.most
    }

    /// The smallest lateness that this share of all did not exceed; zero if there were none.
    pub fn quantile(&self, share: f64) -> Nanos {
        let rank = (share * self.count as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (class, count) in self.classes.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return Nanos(end(class)).min(self.most);
            }
        }
        self.most
    }
}

/// Below `FINE` each number is a class; then each doubling has `FINE` of them.
fn class(value: u64) -> usize {
    if value < FINE {
        return value as usize;
    }
    let doubling = u64::from(value.ilog2() - FINE.ilog2());
    ((doubling << FINE.ilog2()) + (value >> doubling)) as usize
}

/// The largest number of a class.
fn end(class: usize) -> u64 {
    let class = class as u64;
    if class < FINE {
        return class;
    }
    let doubling = class / FINE - 1;
    let start = (class % FINE + FINE) << doubling;
    start + ((1 << doubling) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_class_ends_at_most_a_sixteenth_above_its_numbers(value in 0..u64::MAX / 2) {
            let end = end(class(value));
            prop_assert!(end >= value && end - value <= value / FINE);
            prop_assert!(class(end) == class(value) && class(end + 1) == class(value) + 1);
        }
    }

    #[test]
    fn quantiles_are_never_below_the_truth() {
        let mut lateness = Lateness::default();
        assert_eq!(lateness.quantile(0.5), Nanos(0));
        for late in 1..=1000 {
            lateness.add(Nanos(late * 1000));
        }
        let mut joined = Lateness::default();
        let mut half = Lateness::default();
        (1..=1000)
            .for_each(|late| if late % 2 == 0 { &mut joined } else { &mut half }.add(Nanos(late * 1000)));
        joined.join(&half);
        assert_eq!(joined, lateness);
        let median = lateness.quantile(0.5).0;
        assert!((500_000..532_000).contains(&median), "{median}");
        assert_eq!(
            (lateness.quantile(1.0), lateness.most(), lateness.count()),
            (Nanos(1_000_000), Nanos(1_000_000), 1000)
        );
    }
}
