//! Which parts of a memory are free.

use std::collections::BTreeMap;
use std::ops::Range;

/// Parts are multiples of this: a page, so that a part that is used again has no page of its neighbours.
const UNIT: usize = 4096;

/// The free parts of a memory, in bytes from its start. Neighbours are always joined.
pub(super) struct Ranges(BTreeMap<usize, usize>);

impl Ranges {
    /// Everything in this range is free. Its ends are rounded inwards.
    pub(super) fn new(all: Range<usize>) -> Self {
        let start = all.start.next_multiple_of(UNIT);
        let end = all.end / UNIT * UNIT;
        Self(if start < end { BTreeMap::from([(start, end)]) } else { BTreeMap::new() })
    }

    /// Takes room for `size` bytes, the first that fits: what was used last is the most likely to be in the cache.
    /// `None` where there is none.
    pub(super) fn take(&mut self, size: usize) -> Option<Range<usize>> {
        let size = size.max(1).checked_next_multiple_of(UNIT)?;
        let (start, end) =
            self.0.iter().map(|(start, end)| (*start, *end)).find(|(start, end)| end - start >= size)?;
        self.0.remove(&start);
        if end - start > size {
            self.0.insert(start + size, end);
        }
        Some(start..start + size)
    }

    /// Makes a part that was taken free again.
    pub(super) fn give_back(&mut self, Range { mut start, mut end }: Range<usize>) {
        if let Some((before, _)) = self.0.range(..start).next_back().filter(|(_, before)| **before == start) {
            start = *before;
        }
        if let Some(after) = self.0.remove(&end) {
            end = after;
        }
        self.0.insert(start, end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_first_that_fits_is_taken_and_neighbours_join() {
        let mut ranges = Ranges::new(100..8 * UNIT + 5);
        let one = ranges.take(1).unwrap();
        let two = ranges.take(2 * UNIT).unwrap();
        let three = ranges.take(UNIT + 1).unwrap();
        assert_eq!(
            (one.clone(), two.clone(), three.clone()),
            (UNIT..2 * UNIT, 2 * UNIT..4 * UNIT, 4 * UNIT..6 * UNIT)
        );
        assert_eq!(ranges.take(3 * UNIT), None);
        assert_eq!(ranges.take(usize::MAX), None);
        ranges.give_back(one.clone());
        ranges.give_back(three);
        assert_eq!(ranges.take(0), Some(one.clone()));
        ranges.give_back(one);
        ranges.give_back(two);
        assert_eq!(ranges.0, BTreeMap::from([(UNIT, 8 * UNIT)]));
    }

    proptest! {
        /// Whatever is taken and given back: parts in use never overlap, and in the end everything is free.
        #[test]
        fn parts_in_use_are_disjoint(steps in prop::collection::vec((any::<bool>(), 0..6 * UNIT), 0..100)) {
            let mut ranges = Ranges::new(0..32 * UNIT);
            let mut used: Vec<Range<usize>> = vec![];
            for (takes, number) in steps {
                if takes {
                    let Some(part) = ranges.take(number) else { continue };
                    prop_assert!(part.len() >= number && part.end <= 32 * UNIT);
                    prop_assert!(used.iter().all(|other| other.end <= part.start || part.end <= other.start));
                    used.push(part);
                } else if !used.is_empty() {
                    ranges.give_back(used.swap_remove(number % used.len()));
                }
            }
            for part in used {
                ranges.give_back(part);
            }
            prop_assert_eq!(ranges.0, BTreeMap::from([(0, 32 * UNIT)]));
        }
    }
}
