//! The division of a gradient into buckets.

use super::Sections;
use crate::vector::{Layout, piece};
use predict::schedule::Grouping;
use std::ops::Range;

/// The buckets of a gradient in the order in which they leave: the first one ends at the end of the gradient, and the last one
/// begins at its beginning. None is empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buckets {
    spans: Vec<Range<usize>>,
}

impl Buckets {
    /// One bucket of `n` elements.
    pub fn whole(n: usize) -> Self {
        Self::from_spans(std::iter::once(0..n))
    }

    /// `count` nearly equal parts of `n` elements.
    pub fn pieces(n: usize, count: usize) -> Self {
        Self::from_spans((0..count.max(1)).rev().map(|k| piece(n, count.max(1), k)))
    }

    /// A bucket for each layer.
    pub fn per_layer(layout: &Layout) -> Self {
        Self::from_spans(layout.layers().iter().rev().map(|layer| layer.span.clone()))
    }

    /// A bucket for each section.
    pub fn per_section(layout: &Layout, sections: &Sections) -> Self {
        Self::from_spans(sections.spans(layout))
    }

    /// The buckets that lie in a part of the gradient, which has to begin and end where buckets do.
    #[must_use]
    pub fn within(&self, part: &Range<usize>) -> Self {
        let inside = |span: &&Range<usize>| part.start <= span.start && span.end <= part.end;
        Self::from_spans(self.spans.iter().filter(inside).cloned())
    }

    /// A bucket for each group of layers; a grouping counts layers from the last one.
    pub fn of(layout: &Layout, grouping: &Grouping) -> Self {
        let layers = layout.layers().len();
        let span = |group: Range<usize>| layout.span(layers - group.end..layers - group.start);
        Self::from_spans(grouping.groups().map(span))
    }

    fn from_spans(spans: impl IntoIterator<Item = Range<usize>>) -> Self {
        Self { spans: spans.into_iter().filter(|span| !span.is_empty()).collect() }
    }

    /// Their places in the gradient.
    pub fn spans(&self) -> &[Range<usize>] {
        &self.spans
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout() -> Layout {
        Layout::new([3, 0, 2, 4].map(|size| (String::new(), size)))
    }

    #[test]
    fn buckets_leave_from_the_end() {
        assert_eq!(Buckets::whole(9), Buckets::pieces(9, 1));
        assert_eq!(Buckets::pieces(7, 3).spans(), [5..7, 3..5, 0..3]);
        assert_eq!(Buckets::per_layer(&layout()).spans(), [5..9, 3..5, 0..3]);
        let grouping = Grouping::new(vec![2, 4], 4).unwrap();
        assert_eq!(Buckets::of(&layout(), &grouping).spans(), [3..9, 0..3]);
        assert_eq!(Buckets::per_section(&layout(), &Sections::default()), Buckets::whole(9));
        let sections = Buckets::per_section(&layout(), &Sections::beginning_at([3]));
        assert_eq!(sections.spans(), [5..9, 0..5]);
        assert_eq!(Buckets::per_layer(&layout()).within(&(0..5)).spans(), [3..5, 0..3]);
    }

    #[test]
    fn nothing_empty_travels() {
        assert_eq!(Buckets::pieces(2, 5).spans(), [1..2, 0..1]);
        assert!(Buckets::whole(0).spans().is_empty());
    }
}
