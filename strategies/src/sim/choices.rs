//! Every order in which things that are due at one moment can happen: one world after the other, each a branch of the
//! tree of choices. For worlds in which messages take no time, so that nothing but the order matters.

use std::collections::HashSet;

/// The choices of one world after the other, depth first. A state that was met before is not followed again; which events
/// are worth a choice, and what tells a state, is said in `sim/kernel/order.rs`.
#[derive(Debug, Default)]
pub struct Choices {
    /// Of each choice so far in this world: which was taken, of how many.
    path: Vec<(usize, usize)>,
    /// How many of the choices in `path` this world has made.
    made: usize,
    met: HashSet<u64>,
    pruned: bool,
    /// Whether no order is left out.
    every: bool,
    /// Whether states that were met before are followed again.
    again: bool,
}

impl Choices {
    /// Nothing was tried so far.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same, but nothing will be left out, neither orders that cannot matter nor states that were met before: for
    /// tests of the omissions.
    pub fn every() -> Self {
        Self { every: true, ..Self::again() }
    }

    /// The same, but states that were met before will be followed again: for tests of what tells a state.
    pub fn again() -> Self {
        Self { again: true, ..Self::default() }
    }

    /// Whether no order is to be left out.
    pub(super) fn is_every(&self) -> bool {
        self.every
    }

    /// Number of states that were met.
    pub fn states(&self) -> usize {
        self.met.len()
    }

    /// Goes back to the last choice that has another branch; false when all were tried.
    pub fn another(&mut self) -> bool {
        self.made = 0;
        self.pruned = false;
        while let Some((taken, of)) = self.path.pop() {
            if taken + 1 < of {
                self.path.push((taken + 1, of));
                return true;
            }
        }
        false
    }

    /// Whether the present world came to a state that another was in before it.
    pub fn is_known(&self) -> bool {
        self.pruned
    }

    /// Chooses among `of` events in a state with this signature; `None` if nothing new can follow.
    pub(super) fn choose(&mut self, of: usize, signature: u64) -> Option<usize> {
        if self.made == self.path.len() {
            if !self.met.insert(signature) && !self.again {
                self.pruned = true;
                return None;
            }
            self.path.push((0, of));
        }
        let (taken, _) = self.path[self.made];
        self.made += 1;
        Some(taken)
    }
}
