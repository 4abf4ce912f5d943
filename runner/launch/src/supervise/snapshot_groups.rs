//! Models of several ranks that are evaluated together: which snapshots belong to which evaluation point.

use record::{Rank, SnapshotGroup, SnapshotRecord};
use std::collections::{BTreeMap, VecDeque};

/// The snapshots of a group of ranks that an evaluation point may still need.
#[derive(Debug, Default)]
pub(super) struct SnapshotGroups {
    group: Option<SnapshotGroup>,
    /// In the order of their evaluation points.
    of_rank: BTreeMap<Rank, VecDeque<SnapshotRecord>>,
    /// The first evaluation point that was not taken yet.
    next: u64,
}

impl SnapshotGroups {
    /// Adds a snapshot, unless its evaluation point was taken without it. A rank's snapshots may arrive out of order: a rank
    /// that has finished training still learns of evaluation points that others reach.
    pub(super) fn add(&mut self, copy: &SnapshotRecord) {
        self.group = self.group.or(copy.group);
        if copy.mark < self.next {
            return;
        }
        let copies = self.of_rank.entry(copy.rank).or_default();
        let place = copies.partition_point(|other| other.mark < copy.mark);
        if copies.get(place).is_none_or(|other| other.mark != copy.mark) {
            copies.insert(place, copy.clone());
        }
    }

    /// The models of the earliest evaluation point that every rank has reached, in the order of ranks, without the ranks
    /// that are `lost` and left no snapshot for it. A rank is represented by its first snapshot at the point or after it.
    ///
    /// A rank represented by a later snapshot has passed the point in a longer step or has finished. Its model no longer
    /// changes then, so a snapshot that it delivers for this point afterwards would be the same.
    pub(super) fn take(&mut self, lost: impl Fn(Rank) -> bool) -> Option<Vec<SnapshotRecord>> {
        let size = self.group?.size;
        let mark = self.of_rank.values().flatten().map(|copy| copy.mark).min()?;
        let mut taken = Vec::new();
        for rank in (0..size).map(Rank) {
            // The front is the first: earlier snapshots were dropped with the points before.
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

    /// Whether an evaluation point may still need this snapshot.
    pub(super) fn hold(&self, copy: &SnapshotRecord) -> bool {
        self.of_rank.get(&copy.rank).is_some_and(|copies| copies.iter().any(|held| held.file == copy.file))
    }

    /// Drops all snapshots: no evaluation point will be complete any more.
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
            group: Some(SnapshotGroup { size: 2, judged: true }),
            sha256: String::new(),
            digested: true,
        }
    }

    /// The complete evaluation points, each with those of the snapshots taken for it.
    fn taken(copies: &mut SnapshotGroups) -> Vec<Vec<u64>> {
        // An evaluation point that is taken repeatedly would never end.
        let all = std::iter::from_fn(|| copies.take(|_| false)).take(9);
        all.map(|taken| taken.iter().map(|copy| copy.mark).collect()).collect()
    }

    #[test]
    fn copies_that_come_late_are_taken_in_the_order_of_their_marks() {
        // Rank 1 finishes after point 1, with its last model as point 4, and then learns of points 2 and 3.
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
        // It arrives after the point was taken, or twice.
        for (rank, mark) in [(1, 1), (0, 2), (1, 2), (1, 2), (0, 3)] {
            copies.add(&copy(rank, mark));
        }
        assert_eq!(taken(&mut copies), [[2, 2], [3, 3]]);
    }
}
