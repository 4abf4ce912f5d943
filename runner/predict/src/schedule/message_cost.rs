//! What a group's message costs.

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

/// One for each section; the last one also for those that have none.
impl MessageCost for &[Linear] {
    fn of_section(&self, section: usize) -> Linear {
        let last = || self.last().copied();
        self.get(section).copied().or_else(last).unwrap_or(Linear { a: 0.0, b: 0.0 })
    }
}
