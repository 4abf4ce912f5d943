//! Groups of ranks, as a member sees them.

use record::Rank;
use std::sync::Arc;

/// Position inside a [`Group`], from 0. It equals the rank only in the group of all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupRank(pub usize);

/// Ranks that communicate with each other, in a fixed order, and the group rank of this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    // Shared: a thousand ranks do not each keep a list of a thousand ranks.
    ranks: Arc<[Rank]>,
    me: GroupRank,
}

impl Group {
    /// The group of these ranks as the member `me` sees it; `None` if `me` is not a member.
    pub fn new(ranks: &Arc<[Rank]>, me: Rank) -> Option<Self> {
        Some(Self { ranks: ranks.clone(), me: group_rank_of(ranks, me)? })
    }

    /// Number of members, this rank included.
    pub fn size(&self) -> usize {
        self.ranks.len()
    }

    /// The group rank of this rank.
    pub fn me(&self) -> GroupRank {
        self.me
    }

    /// The rank of a member.
    pub fn rank(&self, member: GroupRank) -> Rank {
        self.ranks[member.0]
    }

    /// All members in order.
    pub(crate) fn ranks(&self) -> &[Rank] {
        &self.ranks
    }

    /// The group rank of a rank; `None` if it is not a member.
    pub fn group_rank_of(&self, rank: Rank) -> Option<GroupRank> {
        group_rank_of(&self.ranks, rank)
    }

    /// The member `steps` further around the ring.
    pub fn after(&self, steps: usize) -> GroupRank {
        GroupRank((self.me.0 + steps) % self.size())
    }

    /// All members in order.
    pub fn members(&self) -> impl Iterator<Item = GroupRank> + use<> {
        (0..self.size()).map(GroupRank)
    }

    /// All members in order without this one.
    pub fn others(&self) -> impl Iterator<Item = GroupRank> + use<> {
        let me = self.me;
        self.members().filter(move |member| *member != me)
    }
}

/// In the group of all ranks, and in that of the workers, a rank is at its own position: no search among a thousand.
fn group_rank_of(ranks: &[Rank], rank: Rank) -> Option<GroupRank> {
    if ranks.get(rank.index()) == Some(&rank) {
        return Some(GroupRank(rank.index()));
    }
    ranks.iter().position(|member| *member == rank).map(GroupRank)
}
