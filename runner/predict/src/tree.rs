//! A vector down a tree and its sum up, step after step.
//!
//! Table II has one all-reduce, which all workers begin together. In a run they do not: a worker that is served early computes early, and
//! its vector is on its way up while others are still served. Of a tree of a power of two of workers the two are the same; of a star,
//! and of other numbers of workers, a step is shorter than the table has it, by up to 40 %.
//!
//! A message takes alpha + beta M; those that leave a place, and those that arrive at one, share its link and follow each other.

use crate::network::LinkRates;

/// Which place sends to which on the way down; on the way up it is the other way around. Place 0 is the root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RootedTree {
    /// Of each place, in the order in which they are served.
    children: Vec<Vec<usize>>,
}

impl RootedTree {
    /// The binomial tree: the parent of a place is its number without the lowest bit.
    pub fn binomial(places: usize) -> Self {
        Self { children: (0..places).map(|place| binomial_children(place, places)).collect() }
    }

    /// Everything to place 0.
    pub fn star(places: usize) -> Self {
        let children = |place| if place == 0 { (1..places).collect() } else { Vec::new() };
        Self { children: (0..places).map(children).collect() }
    }

    /// A binomial tree between the first places of the groups, and one inside of each group. The groups hold each place once, and place 0
    /// first.
    pub fn hierarchical(groups: &[Vec<usize>]) -> Self {
        let places = groups.iter().map(Vec::len).sum();
        let mut children = vec![Vec::new(); places];
        for (number, group) in groups.iter().enumerate() {
            for (place, at) in group.iter().enumerate() {
                let others = if place == 0 { binomial_children(number, groups.len()) } else { Vec::new() };
                let leaders = others.into_iter().filter_map(|other| groups[other].first().copied());
                let inside = binomial_children(place, group.len()).into_iter().map(|inner| group[inner]);
                if let Some(children) = children.get_mut(*at) {
                    *children = leaders.chain(inside).collect();
                }
            }
        }
        Self { children }
    }

    /// Seconds from when the root sends a vector of `bytes` bytes until it has the sum of those that come back, beside what a worker
    /// computes in between.
    pub fn seconds(&self, rates: LinkRates, bytes: u64) -> f64 {
        self.complete(0, 0.0, rates, bytes as f64)
    }

    /// Seconds of a step of variant 3 of Sync EASGD, which has both directions at once: the link of the root carries all of its messages;
    /// below it a place sends the sum of its subtree up before it sends the centre down, and needs `update` seconds before it begins again;
    /// and once in two steps a sum and the centre after it pass the whole tree, with the updates of the root, of the centre and of a worker.
    /// Messages of several steps that meet at a link are left out: up to a seventh.
    pub fn seconds_both_ways(&self, rates: LinkRates, bytes: u64, update: f64) -> f64 {
        let transfer = rates.beta() * bytes as f64;
        let below = self.children_of(0);
        let cycle = |place: usize| {
            if self.children_of(place).is_empty() {
                return rates.alpha() + transfer + update;
            }
            self.complete(place, 0.0, rates, bytes as f64) + transfer + update
        };
        if below.is_empty() {
            return 0.0;
        }
        let link = below.len() as f64 * transfer;
        let whole = self.seconds(rates, bytes).midpoint(3.0 * update);
        below.iter().map(|place| cycle(*place)).fold(link.max(whole), f64::max)
    }

    fn children_of(&self, place: usize) -> &[usize] {
        self.children.get(place).map_or(&[], Vec::as_slice)
    }

    /// When the sum of a subtree is complete, if its place has received the vector at `received`.
    fn complete(&self, place: usize, received: f64, rates: LinkRates, bytes: f64) -> f64 {
        let transfer = rates.beta() * bytes;
        let children = self.children_of(place);
        let sum_leaves = |(number, child): (usize, &usize)| {
            let arrives = received + rates.alpha() + (number + 1) as f64 * transfer;
            self.complete(*child, arrives, rates, bytes)
        };
        let mut leaving: Vec<f64> = children.iter().enumerate().map(sum_leaves).collect();
        leaving.sort_by(f64::total_cmp);
        let (mut link, mut summed) = (received, received);
        for leaves in leaving {
            link = link.max(leaves + rates.alpha()) + transfer;
            summed = summed.max(link) + rates.gamma() * bytes;
        }
        summed
    }
}

/// The largest subtree first.
fn binomial_children(place: usize, places: usize) -> Vec<usize> {
    let distances = (0..usize::BITS).map(|bit| 1_usize << bit);
    let nearest = distances.take_while(|distance| place & distance == 0 && *distance < places - place);
    let mut children: Vec<usize> = nearest.map(|distance| place + distance).collect();
    children.reverse();
    children
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::all_reduce::binary_tree;
    use std::num::NonZeroU32;

    /// alpha = 1, beta = 16 and gamma = 2 per byte; whole numbers make every sum exact.
    fn seconds(tree: &RootedTree) -> f64 {
        tree.seconds(LinkRates::new(1.0, 16.0, 2.0).unwrap(), 1)
    }

    #[test]
    fn of_a_power_of_two_it_is_table_2() {
        let number = |count: usize| NonZeroU32::new(count as u32).unwrap();
        let rates = LinkRates::new(1.0, 16.0, 2.0).unwrap();
        for places in [1, 2, 4, 8, 16, 64] {
            let row = binary_tree(rates, number(places)).time(1);
            assert!((seconds(&RootedTree::binomial(places)) - row).abs() < 1e-9, "{places}");
        }
        let groups = [vec![0, 1], vec![2, 3], vec![4, 5], vec![6, 7]];
        // One round inside, and two between.
        let rows = binary_tree(rates, number(2)).time(1) + binary_tree(rates, number(4)).time(1);
        assert!((seconds(&RootedTree::hierarchical(&groups)) - rows).abs() < 1e-9);
    }

    /// Worker 1 is served last, and its vector is the last to come: three vectors one after the other.
    #[test]
    fn who_is_served_first_is_not_waited_for() {
        let rates = LinkRates::new(1.0, 16.0, 0.0).unwrap();
        for (tree, vectors, start_ups) in [
            (RootedTree::binomial(3), 3.0, 2.0),
            (RootedTree::star(5), 5.0, 2.0),
            (RootedTree::star(1), 0.0, 0.0),
        ] {
            assert!((tree.seconds(rates, 1) - start_ups - 16.0 * vectors).abs() < 1e-9, "{tree:?}");
        }
    }

    #[test]
    fn groups_of_one_are_the_tree_and_one_group_is_too() {
        let alone: Vec<Vec<usize>> = (0..6).map(|place| vec![place]).collect();
        assert_eq!(RootedTree::hierarchical(&alone), RootedTree::binomial(6));
        assert_eq!(RootedTree::hierarchical(&[(0..6).collect()]), RootedTree::binomial(6));
    }
}
