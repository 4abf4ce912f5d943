//! The batch on its way through the layers, forward and back.

use super::batch_norm::Normaliser;
use super::down::Down;
use super::dropout::{Mask, Masks};
use super::flat::{Gradient, Weights};
use super::kernel::{self, Pass, Saved};
use super::learner::{TorchLearner, failed, wrong};
use super::section::Section;
use super::tensors::dimensions;
use recipe::{Layer, PlacedLayer, Shape};
use std::ops::Range;
use strategies::StepError;
use tch::Tensor;

impl TorchLearner {
    /// The activations as a tensor of rows of `shape`.
    pub(super) fn activations(&mut self, shape: Shape, before: &str) -> Result<Tensor, StepError> {
        let activations = self.activations.take().ok_or_else(|| {
            StepError::Learner(format!("nothing has reached {before} yet; a batch is loaded first"))
        })?;
        let sizes = activations.size();
        let rows = sizes.first().copied().unwrap_or(0);
        let wanted = dimensions(rows, shape);
        if sizes == wanted {
            return Ok(activations);
        }
        activations.f_reshape(&wanted).map_err(|_| {
            StepError::Learner(format!("{before} takes rows of {shape:?}, but a tensor of {sizes:?} came"))
        })
    }

    /// The mask of a dropout layer for the rows of the batch, of its columns or some of them.
    fn mask(
        &self,
        layer: &PlacedLayer,
        sizes: &[i64],
        kept: Option<&Range<usize>>,
    ) -> Result<Option<Tensor>, StepError> {
        let Layer::Dropout { rate } = layer.layer else { return Ok(None) };
        let rows = sizes.first().copied().unwrap_or(0);
        if rows != self.batch.examples.len() as i64 {
            return Err(StepError::Learner(format!(
                "{} meets {rows} rows, but the batch has {} examples whose masks it could draw",
                layer.name,
                self.batch.examples.len()
            )));
        }
        let mask = Mask { seed: self.seed, layer: &layer.name, epoch: self.batch.epoch, rate };
        let columns = kept.cloned().unwrap_or(0..layer.output.size());
        let values = mask.rows(&self.batch.examples, columns);
        let factor =
            Tensor::f_from_slice(&values).and_then(|factor| factor.f_reshape(sizes)?.f_to(self.device()));
        let factor = factor.and_then(|factor| self.format.give(factor));
        factor.map(Some).map_err(|error| failed(&layer.name, "mask", error))
    }

    /// The masks of the dropout layers inside of a block, for `rows` rows, in the order in which they are met.
    fn inner_masks(&self, layer: &PlacedLayer, rows: i64) -> Result<Vec<Tensor>, StepError> {
        let mut masks = Vec::new();
        for inner in layer.paths.layers() {
            masks.extend(self.mask(inner, &dimensions(rows, inner.output), None)?);
            masks.extend(self.inner_masks(inner, rows)?);
        }
        Ok(masks)
    }

    pub(super) fn up(&mut self, weights: Weights<'_>, layer: usize) -> Result<(), StepError> {
        let section = self.section(layer)?;
        let whole = weights;
        let weights = self.weights_of(whole, layer)?;
        let first = &self.model.layers[section.placed.start];
        let input = first.input;
        let name = first.name.clone();
        let mut x = self.activations(input, &name)?;
        if x.size()[0] == 0 {
            let output = self.model.layers[section.placed.end - 1].output;
            self.activations = Some(x.new_zeros(dimensions(0, output), (tch::Kind::Float, self.device())));
            return Ok(());
        }
        for place in section.placed.clone() {
            x = self.format.give(x).map_err(|error| failed(&name, "forward pass", error))?;
            // Before the linear layer that is cut, rows are whole.
            let kept = self.cuts.get(&layer).filter(|_| place > section.weighted);
            let factor = self.mask(&self.whole.layers[place], &x.size(), kept)?;
            let placed = &self.model.layers[place];
            let masks = self.inner_masks(placed, x.size()[0])?;
            let labels = self.labels_for(placed)?;
            let pass = Pass {
                factor,
                masks: Masks::Drawn(masks.into_iter()),
                normaliser: &mut Normaliser::OfBatch,
                tied: self.tied(whole),
                frozen: self.frozen.at(place),
                passes_gradient: passes_gradient(layer, place, &section),
                labels: labels.as_ref(),
            };
            let (y, saved) = kernel::forward(placed, weights, x, pass)
                .map_err(|error| failed(&placed.name, "forward pass", error))?;
            self.saved[place] = Some(saved);
            x = y;
        }
        self.activations = Some(x);
        Ok(())
    }

    pub(super) fn down(
        &mut self,
        weights: Weights<'_>,
        layer: usize,
        mut gradient: Gradient<'_>,
    ) -> Result<(), StepError> {
        let section = self.section(layer)?;
        let whole = weights;
        let weights = self.weights_of(whole, layer)?;
        if gradient.len() != weights.len() {
            let got = gradient.len();
            let expected = weights.len();
            return Err(StepError::Learner(format!(
                "layer {layer} has {expected} weights, its gradient {got}"
            )));
        }
        let last = &self.model.layers[section.placed.end - 1];
        let output = last.output;
        let name = last.name.clone();
        let g = self.activations(output, &name)?;
        let mut g = self.format.give(g).map_err(|error| failed(&name, "backward pass", error))?;
        if g.size()[0] == 0 {
            gradient.clear().map_err(|error| failed(&name, "backward pass", error))?;
            let input = self.model.layers[section.placed.start].input;
            self.activations = Some(g.new_zeros(dimensions(0, input), (tch::Kind::Float, self.device())));
            return Ok(());
        }
        for place in section.placed.clone().rev() {
            let placed = &self.model.layers[place];
            let saved = self.saved[place].take().ok_or_else(|| {
                StepError::Learner(format!(
                    "the backward pass reached {} before the forward pass",
                    placed.name
                ))
            })?;
            let wants_input = passes_gradient(layer, place, &section);
            let mut of_head = self.of_head.take();
            let down = Down {
                gy: &g,
                weights,
                gradient: gradient.again(),
                wants_input,
                tied: self.tied(whole),
                of_head: &mut of_head,
            };
            let below = kernel::backward(placed, saved, down)
                .and_then(|below| below.map(|below| self.format.give(below)).transpose())
                .map_err(|error| failed(&placed.name, "backward pass", error))?;
            self.of_head = of_head;
            match below {
                Some(below) => g = below,
                None => return Ok(()),
            }
        }
        self.activations = Some(g);
        Ok(())
    }

    /// The targets of the batch, where the layer is a head that scores them.
    fn labels_for(&self, placed: &PlacedLayer) -> Result<Option<Tensor>, StepError> {
        let Layer::AuxiliaryHead { .. } = placed.layer else { return Ok(None) };
        let labels = self.data.labels_of(&self.batch).map_err(wrong)?;
        let tensor = Tensor::f_from_slice(&labels).and_then(|labels| labels.f_to(self.device()));
        tensor.map(Some).map_err(|error| failed(&placed.name, "forward pass", error))
    }

    /// Sum of the auxiliary heads' losses on this batch, each with its weight.
    pub(super) fn loss_of_heads(&self) -> f32 {
        let head = |saved: &Saved| if let Saved::Head(head) = saved { Some(head.loss()) } else { None };
        self.saved.iter().flatten().filter_map(head).sum()
    }
}

/// Whether a gradient is needed with respect to what goes into a layer: below the first weights none is.
fn passes_gradient(layer: usize, place: usize, section: &Section) -> bool {
    layer > 0 || place > section.weighted
}
