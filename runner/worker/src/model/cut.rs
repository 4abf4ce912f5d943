//! Layers of which a rank keeps a slice of the outputs, where the ranks of a group hold one model together.

use super::TorchLearner;
use super::section::layout;
use recipe::{Layer, PlacedLayer, Shape};
use strategies::StepError;
use strategies::vector::piece;

impl TorchLearner {
    /// Keeps the `part`-th of `of` slices of a layer's outputs.
    pub(super) fn keep_slice(&mut self, layer: usize, part: usize, of: usize) -> Result<(), StepError> {
        let section = self.section(layer)?;
        if part >= of || self.cuts.contains_key(&layer) {
            return Err(StepError::Learner(format!("layer {layer} cannot be cut to part {part} of {of}")));
        }
        let Layer::Linear { outputs } = self.model.layers[section.weighted].layer else {
            let name = &self.model.layers[section.weighted].name;
            return Err(StepError::Learner(format!("{name} cannot be cut: only linear layers can")));
        };
        let after = section.weighted + 1..section.placed.end;
        if let Some(other) = self.model.layers[after.clone()]
            .iter()
            .find(|placed| !matches!(placed.layer, Layer::Relu | Layer::Dropout { .. }))
        {
            let text = format!("{} cannot be cut: it looks at all values of a row at once", other.name);
            return Err(StepError::Learner(text));
        }
        let kept = piece(outputs, of, part);
        narrow(&mut self.model.layers[section.weighted], kept.len());
        for place in after {
            self.model.layers[place].input = Shape::Flat(kept.len());
            self.model.layers[place].output = Shape::Flat(kept.len());
        }
        self.cuts.insert(layer, kept);
        self.layout = layout(&self.model.weighted_layers());
        Ok(())
    }

    /// The slice of a layer's whole weights that a cut keeps: rows of its weight, then of its bias.
    pub(super) fn kept_weights(&self, layer: usize, whole: &[f32], into: &mut Vec<f32>) {
        let placed = &self.whole.layers[self.sections[layer].weighted];
        match (self.cuts.get(&layer), placed.parameters.first()) {
            (Some(kept), Some(weight)) => {
                let width: usize = weight.shape.iter().skip(1).product();
                into.extend_from_slice(&whole[kept.start * width..kept.end * width]);
                into.extend_from_slice(&whole[weight.size()..][kept.clone()]);
            }
            _ => into.extend_from_slice(whole),
        }
    }
}

/// Gives a linear layer fewer outputs.
fn narrow(placed: &mut PlacedLayer, outputs: usize) {
    placed.layer = Layer::Linear { outputs };
    placed.output = Shape::Flat(outputs);
    for parameter in &mut placed.parameters {
        if let Some(first) = parameter.shape.first_mut() {
            *first = outputs;
        }
    }
}
