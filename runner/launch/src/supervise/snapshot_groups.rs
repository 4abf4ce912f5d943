//! Models of several ranks that are taken together: which copies belong to which mark.

use record::{Company, Rank, SnapshotRecord};
use std::collections::{BTreeMap, VecDeque};

/// The copies that the ranks of a company made, as far as a mark may still need them.
#[derive(Debug, Default)]
pub(super) struct SnapshotGroups {
    company: Option<Company>,
    /// In the order of their marks.
    of_rank: BTreeMap<Rank, VecDeque<SnapshotRecord>>,
    /// The first mark that was not taken yet.
    next: u64,
}

impl SnapshotGroups {
    /// Takes in a copy; not one of a mark that was taken without it. SnapshotGroups of a rank may come in another order than that
    /// of their marks: a rank that has ended its training hears of marks that others reach.
    pub(super) fn add(&mut self, copy: &SnapshotRecord) {
        self.company = self.company.or(copy.company);
        if copy.mark < self.next {
            return;
        }
        let copies = self.of_rank.entry(copy.rank).or_default();
        let place = copies.partition_point(|other| other.mark < copy.mark);
        if copies.get(place).is_none_or(|other| other.mark != copy.mark) {
            copies.insert(place, copy.clone());
        }
    }

    /// The models of the earliest mark that every rank reached, in the order of ranks; without the ranks that are
    /// `lost` and left no copy for it. A rank stands with its first copy at the mark or after it.
    ///
    /// A rank that stands with a later copy has passed the mark in a longer step, or has ended: then its model no longer
    /// changes, and what comes of it for this mark afterwards is the same.
    pub(super) fn take(&mut self, lost: impl Fn(Rank) -> bool) -> Option<Vec<SnapshotRecord>> {
        let size = self.company?.size;
        let mark = self.of_rank.values().flatten().map(|copy| copy.mark).min()?;
        let mut taken = Vec::new();
        for rank in (0..size).map(Rank) {
            // The front is the first: what lies before the mark was let go with the marks before.
            match self.of_rank.get(&rank).and_then(VecDeque::front) {
                Some(copy) => taken.push(copy.clone()),
                None if lost(rank) => {}
                None => return None,
            }
        }
        self.next = mark + 1;
        for copies in self.of_rank.values_mut() {
            while copies.front().is_some_and(|copy| copy.mark <= mark) {
                copies.pop_front();
            }
        }
        Some(taken)
    }

    /// Whether a mark may still need this copy.
    pub(super) fn hold(&self, copy: &SnapshotRecord) -> bool {
        self.of_rank.get(&copy.rank).is_some_and(|copies| copies.iter().any(|held| held.file == copy.file))
    }

    /// Lets go of everything, for no mark will be complete any more.
    pub(super) fn give_up(&mut self) -> Vec<SnapshotRecord> {
        std::mem::take(&mut self.of_rank).into_values().flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::{Nanos, Standing};

    fn copy(rank: u32, mark: u64) -> SnapshotRecord {
        SnapshotRecord {
            rank: Rank(rank),
            model: format!("rank {rank}"),
            step: mark,
            samples: mark,
            at: Nanos(mark),
            file: format!("{rank}-{mark}"),
            last: false,
            mark,
            standing: Standing::Member,
            company: Some(Company { size: 2, judged: true }),
            sha256: String::new(),
            answers: true,
        }
    }

    /// The marks that are complete, each with those of the copies that are taken for it.
    fn taken(copies: &mut SnapshotGroups) -> Vec<Vec<u64>> {
        // A mark that is taken again and again would never end.
        let all = std::iter::from_fn(|| copies.take(|_| false)).take(9);
        all.map(|taken| taken.iter().map(|copy| copy.mark).collect()).collect()
    }

    #[test]
    fn copies_that_come_late_are_taken_in_the_order_of_their_marks() {
        // Rank 1 ends after mark 1, with its last model as mark 4, and then hears of the marks 2 and 3.
        let mut copies = SnapshotGroups::default();
        for (rank, mark) in [(1, 1), (0, 1), (1, 4), (1, 2), (0, 2), (0, 3), (1, 3), (0, 4)] {
            copies.add(&copy(rank, mark));
        }
        assert_eq!(taken(&mut copies), [[1, 1], [2, 2], [3, 3], [4, 4]]);
        assert!(!copies.hold(&copy(1, 4)));
    }

    #[test]
    fn a_rank_that_has_ended_stands_with_its_last_copy_for_marks_that_it_has_not_heard_of() {
        let mut copies = SnapshotGroups::default();
        copies.add(&copy(1, 3));
        copies.add(&copy(0, 1));
        assert_eq!(taken(&mut copies), [[1, 3]]);
        // It comes after the mark was taken, or twice.
        for (rank, mark) in [(1, 1), (0, 2), (1, 2), (1, 2), (0, 3)] {
            copies.add(&copy(rank, mark));
        }
        assert_eq!(taken(&mut copies), [[2, 2], [3, 3]]);
    }
}
