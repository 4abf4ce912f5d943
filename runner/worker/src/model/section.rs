//! Which placed layers make up a layer of the flat layout: one with weights, and what follows it.

use recipe::{LayeredModel, WeightedLayer};
use std::ops::Range;
use strategies::Layout;

/// One layer of the layout, as positions in [`LayeredModel::layers`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Section {
    /// The placed layers; layers before the first with weights belong to the first section.
    pub(super) placed: Range<usize>,
    /// The one that has the weights.
    pub(super) weighted: usize,
}

/// The sections of a model, from input to output; none where no layer has weights.
pub(super) fn sections(model: &LayeredModel) -> Vec<Section> {
    let weighted: Vec<usize> =
        (0..model.layers.len()).filter(|place| !model.layers[*place].parameters.is_empty()).collect();
    let mut sections = Vec::with_capacity(weighted.len());
    for (number, place) in weighted.iter().copied().enumerate() {
        let begin = if number == 0 { 0 } else { place };
        let end = weighted.get(number + 1).copied().unwrap_or(model.layers.len());
        sections.push(Section { placed: begin..end, weighted: place });
    }
    sections
}

/// The flat layout of a model's layers with weights.
pub fn layout(layers: &[WeightedLayer<'_>]) -> Layout {
    Layout::new(layers.iter().map(|layer| (layer.name.to_owned(), layer.size())))
}
