//! Sections of layers: no bucket reaches across two.

use crate::vector::Layout;
use predict::schedule::{Grouping, StepProfile};
use std::ops::Range;

/// Where sections of layers begin. The layers of one are averaged by the same workers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sections {
    /// The first layer of each section but the lowest, in the order of the forward pass.
    begins: Vec<usize>,
}

impl Sections {
    /// A section begins at each of these layers, and at the first one of the model.
    pub fn beginning_at(layers: impl IntoIterator<Item = usize>) -> Self {
        let mut begins: Vec<usize> = layers.into_iter().filter(|layer| *layer > 0).collect();
        begins.sort_unstable();
        begins.dedup();
        Self { begins }
    }

    /// The layers of each section, those of the last layers first; at least one section.
    pub(super) fn layers(&self, layers: usize) -> impl Iterator<Item = Range<usize>> {
        let begins = self.begins.iter().copied().filter(move |begin| *begin < layers);
        let mut end = layers;
        let from_end = begins.rev().chain([0]);
        from_end.map(move |begin| begin..std::mem::replace(&mut end, begin))
    }

    /// The elements of each section, in the same order.
    pub(super) fn spans(&self, layout: &Layout) -> impl Iterator<Item = Range<usize>> {
        self.layers(layout.layers().len()).map(|layers| layout.span(layers))
    }

    /// A group of layers for each section; groupings count layers from the last one.
    pub(super) fn grouping(&self, layers: usize) -> Grouping {
        let ends = self.layers(layers).map(|section| layers - section.start).collect();
        Grouping::new(ends, layers).unwrap_or_else(|_| Grouping::single(layers))
    }

    /// A profile, in which the last layer is the first one, with these sections.
    pub(super) fn divide(&self, profile: StepProfile) -> StepProfile {
        let grouping = self.grouping(profile.layers());
        profile.in_sections(grouping.ends())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_are_counted_from_the_end_and_tile_the_model() {
        let layout = Layout::new([3, 0, 2, 4].map(|size| (String::new(), size)));
        let sections = Sections::beginning_at([3, 0, 2, 2, 7]);
        assert_eq!(sections.layers(4).collect::<Vec<_>>(), [3..4, 2..3, 0..2]);
        assert_eq!(sections.spans(&layout).collect::<Vec<_>>(), [5..9, 3..5, 0..3]);
        let none = Sections::default();
        let mut whole = none.spans(&layout);
        assert_eq!((whole.next(), whole.next()), (Some(0..9), None));
    }
}
