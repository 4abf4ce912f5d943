//! Groups of consecutive layers.

use std::ops::Range;

/// A division of layers into groups of consecutive layers; each layer is in exactly one, and no group is empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grouping {
    /// Where each group ends: one more than the index of its last layer.
    ends: Vec<usize>,
}

/// Why numbers are no grouping of the layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GroupingError {
    /// A group ends where it begins, or before.
    #[error("group {group} ends at layer {end}, where it does not begin before")]
    Empty {
        /// Index of the group.
        group: usize,
        /// Its end: one more than the index of its last layer.
        end: usize,
    },
    /// The last group does not end at the last layer.
    #[error("the groups hold {grouped} layers; the model has {layers}")]
    Layers {
        /// Layers in all groups.
        grouped: usize,
        /// Layers of the model.
        layers: usize,
    },
}

impl Grouping {
    /// The groups that end before the layers `ends`; for a plan that came from another rank.
    ///
    /// # Errors
    /// A group is empty, or the groups do not hold the `layers` once each.
    pub fn new(ends: Vec<usize>, layers: usize) -> Result<Self, GroupingError> {
        let mut begin = 0;
        for (group, end) in ends.iter().copied().enumerate() {
            if end <= begin {
                return Err(GroupingError::Empty { group, end });
            }
            begin = end;
        }
        if begin != layers {
            return Err(GroupingError::Layers { grouped: begin, layers });
        }
        Ok(Self { ends })
    }

    /// All layers in one group; no group where there is no layer.
    pub fn single(layers: usize) -> Self {
        Self::closed_after(layers, |_| false)
    }

    /// The groups that a closing rule makes: a group ends after each layer for which it is true, and after the last.
    pub(super) fn closed_after(layers: usize, mut closes: impl FnMut(usize) -> bool) -> Self {
        let ends = (1..=layers).filter(|end| closes(end - 1) || *end == layers).collect();
        Self { ends }
    }

    /// Where each group ends, in order: one more than the index of its last layer.
    pub fn ends(&self) -> &[usize] {
        &self.ends
    }

    /// The layers of each group, in the order of the backward pass.
    pub fn groups(&self) -> impl Iterator<Item = Range<usize>> {
        let begins = [0].into_iter().chain(self.ends.iter().copied());
        begins.zip(&self.ends).map(|(begin, end)| begin..*end)
    }
}
