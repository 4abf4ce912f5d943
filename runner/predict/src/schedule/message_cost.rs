//! Cost model of one group's message.

use crate::linear::Linear;

/// The cost of a message in each section of layers: where other ranks take part, it is another one.
pub trait MessageCost {
    /// The cost in a section, counted from 0.
    fn of_section(&self, section: usize) -> Linear;
}

/// The same in all sections.
impl MessageCost for Linear {
    fn of_section(&self, _section: usize) -> Linear {
        *self
    }
}

/// One cost for each section.
#[derive(Clone, Debug, PartialEq)]
pub struct SectionCosts {
    first: Linear,
    others: Vec<Linear>,
}

impl SectionCosts {
    /// The costs of sections in order; `None` of none.
    pub fn new(costs: impl IntoIterator<Item = Linear>) -> Option<Self> {
        let mut costs = costs.into_iter();
        Some(Self { first: costs.next()?, others: costs.collect() })
    }
}

/// A section beyond the last one that has a cost has that one's.
impl MessageCost for &SectionCosts {
    fn of_section(&self, section: usize) -> Linear {
        let last = self.others.last().copied().unwrap_or(self.first);
        let other = |number: usize| self.others.get(number).copied().unwrap_or(last);
        section.checked_sub(1).map_or(self.first, other)
    }
}
