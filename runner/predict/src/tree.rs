//! A vector down a tree and its sum up, step after step.
//!
//! Table II has one all-reduce, which all workers begin together. In a run they do not: a worker that is served early computes early, and
//! its vector is on its way up while others are still served. Of a tree of a power of two of workers the two are the same; of a star,
//! and of other numbers of workers, a step is shorter than the table has it, by up to 40 %.
//!
//! A message takes alpha + beta M; those that leave a place, and those that arrive at one, share its link and follow each other. A vector in
//! parts goes down part by part, each of which a place passes on when it has it, and its sum likewise up when all of it has come down.

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
        self.seconds_in_parts(rates, &[bytes])
    }

    /// The same for a vector in parts of these sizes.
    pub fn seconds_in_parts(&self, rates: LinkRates, parts: &[u64]) -> f64 {
        self.whole_below(0, &Vector::of(rates, parts))
    }

    /// Seconds of a step of variant 3 of Sync EASGD, which has both directions at once: the link of the root carries all of its messages;
    /// below it a place sends the sum of its subtree up before it sends the centre down, and needs `update` seconds before it begins again;
    /// and once in two steps a sum and the centre after it pass the whole tree, with the updates of the root, of the centre and of a worker.
    /// Messages of several steps that meet at a link are not followed: with a vector in one part a step is off by up to a seventh, in many by
    /// up to a fifth.
    pub fn seconds_both_ways(&self, rates: LinkRates, parts: &[u64], update: f64) -> f64 {
        let vector = Vector::of(rates, parts);
        let transfer: f64 = vector.transfers.iter().sum();
        let below = self.children_of(0);
        let cycle = |place: usize| {
            if self.children_of(place).is_empty() {
                return rates.alpha() + transfer + update;
            }
            self.whole_below(place, &vector) + transfer + update
        };
        if below.is_empty() {
            return 0.0;
        }
        let link = below.len() as f64 * transfer;
        let whole = self.whole_below(0, &vector).midpoint(3.0 * update);
        below.iter().map(|place| cycle(*place)).fold(link.max(whole), f64::max)
    }

    fn children_of(&self, place: usize) -> &[usize] {
        self.children.get(place).map_or(&[], Vec::as_slice)
    }

    /// Seconds until the sum of a subtree is complete whose place has the vector.
    fn whole_below(&self, place: usize, vector: &Vector) -> f64 {
        let received = vec![0.0; vector.transfers.len()];
        latest(&self.complete(place, &received, vector))
    }

    /// When each part of the sum of a subtree is complete, if its place has received those of the vector at `received`.
    fn complete(&self, place: usize, received: &[f64], vector: &Vector) -> Vec<f64> {
        let children = self.children_of(place);
        let mut arriving: Vec<(f64, usize)> = Vec::new();
        for (child, received) in children.iter().zip(vector.sent_to(children.len(), received)) {
            let mut link = 0.0_f64;
            for (part, complete) in self.complete(*child, &received, vector).into_iter().enumerate() {
                let leaves = link.max(complete);
                link = leaves + vector.transfers[part];
                arriving.push((leaves + vector.alpha, part));
            }
        }
        arriving.sort_by(|one, other| one.0.total_cmp(&other.0));
        let whole = latest(received);
        let mut link = whole;
        let mut summed = vec![whole; vector.transfers.len()];
        for (first, part) in arriving {
            link = link.max(first) + vector.transfers[part];
            summed[part] = summed[part].max(link) + vector.sums[part];
        }
        // A place adds one part after the other.
        let mut last = whole;
        for summed in &mut summed {
            last = summed.max(last);
            *summed = last;
        }
        summed
    }
}

/// The parts of a vector as what they cost, in seconds.
struct Vector {
    /// Of each message before its first byte arrives.
    alpha: f64,
    /// Of each part on a link.
    transfers: Vec<f64>,
    /// Of each part's sum.
    sums: Vec<f64>,
}

impl Vector {
    fn of(rates: LinkRates, parts: &[u64]) -> Self {
        let times = |per_byte: f64| parts.iter().map(|bytes| per_byte * *bytes as f64).collect();
        Self { alpha: rates.alpha(), transfers: times(rates.beta()), sums: times(rates.gamma()) }
    }

    /// When each of `children` children has each part, from a place that has them at `received` and sends each part to all of them
    /// before it sends the next one.
    fn sent_to(&self, children: usize, received: &[f64]) -> Vec<Vec<f64>> {
        let mut arrivals = vec![Vec::with_capacity(received.len()); children];
        let mut link = 0.0_f64;
        for (received, transfer) in received.iter().zip(&self.transfers) {
            link = link.max(*received);
            for arrivals in &mut arrivals {
                link += transfer;
                arrivals.push(link + self.alpha);
            }
        }
        arrivals
    }
}

/// When the last part is there; at once, if there is none.
fn latest(parts: &[f64]) -> f64 {
    parts.iter().copied().fold(0.0, f64::max)
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

    /// Down a chain, the second part travels while the first is passed on, and up likewise: of each step of the way but the first only half
    /// a vector shows.
    #[test]
    fn parts_follow_each_other_through_a_tree() {
        let rates = LinkRates::new(1.0, 16.0, 0.0).unwrap();
        let chain = RootedTree { children: vec![vec![1], vec![2], Vec::new()] };
        assert!((chain.seconds(rates, 2) - 4.0 * (1.0 + 32.0)).abs() < 1e-9);
        assert!((chain.seconds_in_parts(rates, &[1, 1]) - 2.0 * (2.0 + 32.0 + 16.0)).abs() < 1e-9);
        // In a star, the first child waits for its last part until the others have theirs before it: 15 bytes, and then 24 come up.
        assert!((RootedTree::star(5).seconds_in_parts(rates, &[1, 2, 3]) - 2.0 - 16.0 * 39.0).abs() < 1e-9);
    }

    #[test]
    fn groups_of_one_are_the_tree_and_one_group_is_too() {
        let alone: Vec<Vec<usize>> = (0..6).map(|place| vec![place]).collect();
        assert_eq!(RootedTree::hierarchical(&alone), RootedTree::binomial(6));
        assert_eq!(RootedTree::hierarchical(&[(0..6).collect()]), RootedTree::binomial(6));
    }
}
