//! The hierarchy: a tree inside each group, then a tree between the groups.
//!
//! The first place of each group leads it. With p = 6 in groups of three:
//!
//! ```text
//!   place                     0     1     2       3     4     5
//!   inside each group, up     0 <-- 1             3 <-- 4
//!                             0 <-------- 2       3 <-------- 5
//!   between leaders, up       0 <---------------- 3
//!   between leaders, down     0 ----------------> 3
//!   inside each group, down   0 --------> 2       3 --------> 5
//!                             0 --> 1             3 --> 4
//! ```
//!
//! Only leaders talk to other groups: with one group per machine, a vector crosses between machines 2 (g - 1) times
//! for g groups, however many places they have.
//!
//! Index formula: groups are numbered in the order of their first places; within a group, and between the leaders,
//! the formula of the [`Tree`](super::Tree). Groups are the machines, or neighbours by number: place k is in group
//! k / m for groups of m, the last of which may be smaller.
//!
//! Cost per place: one message of n elements to each child and to the parent in the trees it is part of.
//!
//! Time: (ceil(log2 m) + ceil(log2 g)) (2 (alpha + n beta) + n gamma) for g groups of up to m places; exact where all
//! groups are of m, and m and g are powers of two, else at most that.
//!
//! Order of sums: each group's in the order of a tree, then the groups' in the order of a tree.
//!
//! Source: You, Buluc and Demmel, "Scaling deep learning on GPU and Knights Landing clusters", SC 2017, section 6.2,
//! for groups that add among themselves first; the trees are those of [`Tree`](super::Tree).

use super::tree::{self, Branch};
use super::{CollectiveAlgorithm, Cost, Rates, complete};
use crate::{GroupRank, StepError, Tag, Wire};
use record::Rank;
use std::sync::Arc;

/// Trees inside groups, and one between their leaders.
#[derive(Clone, Debug)]
pub struct Hierarchical {
    grouping: Grouping,
}

#[derive(Clone, Debug)]
enum Grouping {
    Neighbours(usize),
    Machines(Arc<[u32]>),
}

impl Hierarchical {
    /// Groups of `size` neighbours; 0 counts as 1.
    pub fn of_neighbours(size: usize) -> Self {
        Self { grouping: Grouping::Neighbours(size.max(1)) }
    }

    /// One group per machine; `machines` says where each rank is, and a rank beyond the list is on the first.
    pub fn of_machines(machines: impl Into<Arc<[u32]>>) -> Self {
        Self { grouping: Grouping::Machines(machines.into()) }
    }

    /// The places of each group, in their order; `rank` tells who sits at a place.
    fn groups(&self, places: usize, rank: impl Fn(GroupRank) -> Rank) -> Vec<Vec<GroupRank>> {
        let mut groups: Vec<(usize, Vec<GroupRank>)> = Vec::new();
        for place in (0..places).map(GroupRank) {
            let key = match &self.grouping {
                Grouping::Neighbours(size) => place.0 / size,
                Grouping::Machines(machines) => {
                    machines.get(rank(place).index()).map_or(0, |machine| *machine as usize)
                }
            };
            match groups.iter_mut().find(|(other, _)| *other == key) {
                Some((_, group)) => group.push(place),
                None => groups.push((key, vec![place])),
            }
        }
        groups.into_iter().map(|(_, group)| group).collect()
    }

    /// The groups where place k is rank k, as it is among all workers of a run.
    fn of_workers(&self, places: usize) -> Vec<Vec<GroupRank>> {
        self.groups(places, |place| Rank(place.0 as u32))
    }
}

/// The tree of a place's group, and the tree between the leaders.
fn branches(groups: &[Vec<GroupRank>], place: GroupRank) -> Option<(Branch, Branch)> {
    let number = groups.iter().position(|group| group.contains(&place))?;
    let me = groups[number].iter().position(|other| *other == place)?;
    let leaders = groups.iter().map(|group| group[0]).collect();
    Some((Branch { places: groups[number].clone(), me }, Branch { places: leaders, me: number }))
}

impl CollectiveAlgorithm for Hierarchical {
    fn all_reduce_sum(&self, x: &mut [f32], tag: Tag, wire: &mut Wire<'_>) -> Result<(), StepError> {
        let group = wire.group();
        let groups = self.groups(group.size(), |place| group.rank(place));
        let Some((inside, between)) = branches(&groups, group.me()) else { return Ok(()) };
        if group.size() == 1 {
            return Ok(());
        }
        let [up, across, back, down] = [0, 1, 2, 3].map(|part| tag.part(part));
        inside.reduce(x, up, wire)?;
        if inside.is_root() {
            between.reduce(x, across, wire)?;
        }
        let packet = match (inside.is_root(), between.is_root()) {
            (true, true) => complete(x, 0, tag, wire)?,
            (true, false) => between.receive(back, wire)?,
            (false, _) => inside.receive(down, wire)?,
        };
        if inside.is_root() {
            between.spread(&packet, back, wire)?;
        }
        inside.spread(&packet, down, wire)?;
        if inside.is_root() && between.is_root() { Ok(()) } else { wire.decode(&packet, x) }
    }

    fn cost(&self, elements: usize, places: usize, place: usize) -> Cost {
        let groups = self.of_workers(places);
        let messages = branches(&groups, GroupRank(place)).map_or(0, |(inside, between)| {
            let leads = usize::from(inside.is_root());
            tree::messages(inside.me, inside.places.len())
                + leads * tree::messages(between.me, between.places.len())
        });
        Cost { messages, elements: messages * elements }
    }

    fn time(&self, elements: usize, places: usize, rates: Rates) -> f64 {
        let groups = self.of_workers(places);
        let largest = groups.iter().map(Vec::len).max().unwrap_or(1);
        let levels = tree::levels(largest) + tree::levels(groups.len());
        f64::from(levels) * (2.0 * rates.message(elements) + rates.sum(elements))
    }
}
