//! Models of several ranks that are taken together: which copies belong to which mark.

use record::{Company, Rank, SnapshotRecord};
use std::collections::{BTreeMap, VecDeque};

/// The copies that the ranks of a company made, as far as a mark may still need them.
#[derive(Debug, Default)]
pub(super) struct Copies {
    company: Option<Company>,
    /// In the order of their marks.
    of_rank: BTreeMap<Rank, VecDeque<SnapshotRecord>>,
    /// The first mark that was not taken yet.
    next: u64,
}

impl Copies {
    /// Takes in a copy; not one of a mark that was taken without it.
    pub(super) fn add(&mut self, copy: &SnapshotRecord) {
        self.company = self.company.or(copy.company);
        if copy.mark >= self.next {
            self.of_rank.entry(copy.rank).or_default().push_back(copy.clone());
        }
    }

    /// The models of the earliest mark that every rank reached, in the order of ranks; without the ranks that are
    /// `lost` and left no copy for it. A rank stands with its first copy at the mark or after it.
    ///
    /// No rank that is not lost can come to speak of an earlier mark later on: each has a copy of this mark or of
    /// one after it.
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
