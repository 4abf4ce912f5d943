//! The tree: sums go up a binomial tree, and the total comes down.
//!
//! In round i of the way up, every place whose number has bit i as its lowest gives its partial sum to the
//! place without that bit and is done. The way down is the way up backwards. With p = 8:
//!
//! ```text
//!   place          0     1     2     3     4     5     6     7
//!   up    0        0 <-- 1     2 <-- 3     4 <-- 5     6 <-- 7
//!         1        0 <-------- 2           4 <-------- 6
//!         2        0 <-------------------- 4
//!   down  0        0 --------------------> 4
//!         1        0 --------> 2           4 --------> 6
//!         2        0 --> 1     2 --> 3     4 --> 5     6 --> 7
//! ```
//!
//! Index formula: the parent of k is k without its lowest bit; its children are k + 2^i for each 2^i below its
//! lowest bit (for place 0: for all of them) that are places.
//!
//! Cost per place: one message of n elements to each child, and one to the parent.
//!
//! Time: ceil(log2 p) (2 (alpha + n beta) + n gamma); exact where p is a power of two, else at most that.
//!
//! Order of sums: a place adds its children's sums to its own vector, the nearest child first: for eight places
//! ((0 + 1) + (2 + 3)) + ((4 + 5) + (6 + 7)).
//!
//! Source: Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH",
//! 2005; Shi et al., MG-WFBP, table II (as "binary tree").

use super::{CollectiveAlgorithm, Cost, Rates, complete};
use crate::{GroupRank, Packet, StepError, Tag, Wire};

/// Up and down a binomial tree.
#[derive(Clone, Copy, Debug)]
pub struct Tree;

impl CollectiveAlgorithm for Tree {
    fn all_reduce_sum(&self, x: &mut [f32], tag: Tag, wire: &mut Wire<'_>) -> Result<(), StepError> {
        let group = wire.group();
        if group.size() == 1 {
            return Ok(());
        }
        let branch = Branch { places: group.members().collect(), me: group.me().0 };
        branch.reduce(x, tag, wire)?;
        if branch.is_root() {
            let packet = complete(x, 0, tag, wire)?;
            return branch.spread(&packet, tag.part(1), wire);
        }
        let packet = branch.receive(tag.part(1), wire)?;
        branch.spread(&packet, tag.part(1), wire)?;
        wire.decode(&packet, x)
    }

    fn cost(&self, elements: usize, places: usize, place: usize) -> Cost {
        let messages = messages(place, places);
        Cost { messages, elements: messages * elements }
    }

    fn time(&self, elements: usize, places: usize, rates: Rates) -> f64 {
        f64::from(levels(places)) * (2.0 * rates.message(elements) + rates.sum(elements))
    }
}

/// Some places as a binomial tree, and which of them this one is.
pub struct Branch {
    /// Places by their number in the tree; the root is number 0.
    pub places: Vec<GroupRank>,
    /// Index of this place among them.
    pub me: usize,
}

impl Branch {
    /// Whether this place is the root.
    pub fn is_root(&self) -> bool {
        self.me == 0
    }

    /// The way up: at the root, `x` becomes the sum over all places of the tree.
    pub fn reduce(&self, x: &mut [f32], tag: Tag, wire: &mut Wire<'_>) -> Result<(), StepError> {
        for child in children(self.me, self.places.len()) {
            wire.recv_add(self.places[child], tag, x)?;
        }
        match parent(self.me) {
            Some(parent) => wire.send(self.places[parent], tag, 0, x),
            None => Ok(()),
        }
    }

    /// The way down: what comes from the parent; the root itself, which has none, must not ask.
    pub fn receive(&self, tag: Tag, wire: &mut Wire<'_>) -> Result<Packet, StepError> {
        wire.recv_packet(self.places[parent(self.me).unwrap_or(0)], tag)
    }

    /// The way down: to the children, the one with the largest tree below it first.
    pub fn spread(&self, packet: &Packet, tag: Tag, wire: &mut Wire<'_>) -> Result<(), StepError> {
        let children: Vec<usize> = children(self.me, self.places.len()).collect();
        for child in children.into_iter().rev() {
            wire.send_packet(self.places[child], tag, packet.clone())?;
        }
        Ok(())
    }
}

fn parent(k: usize) -> Option<usize> {
    (k > 0).then(|| k & (k - 1))
}

/// Numbers of the children of number `k` in a tree of `places` places, the nearest first.
fn children(k: usize, places: usize) -> impl Iterator<Item = usize> {
    let distances = (0..usize::BITS).map(|i| 1_usize << i);
    distances.take_while(move |d| k & d == 0 && *d < places - k).map(move |d| k + d)
}

/// Messages that the `k`-th of `places` places sends, up and down.
pub(super) fn messages(k: usize, places: usize) -> usize {
    children(k, places).count() + usize::from(k > 0)
}

/// Rounds on the way up.
pub(super) fn levels(places: usize) -> u32 {
    places.next_power_of_two().ilog2()
}
