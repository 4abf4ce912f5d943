//! A described model and a data set as what a strategy trains.

use super::batch_norm::Normaliser;
use super::dropout::{Mask, Masks};
use super::frozen::Frozen;
use super::initial::initial_weights_of;
use super::kernel::{self, Down, Pass, Saved};
use super::section::{Section, layout, sections};
use super::tensors::dimensions;
use super::tied::Tied;
use super::{ModelError, initial_weights, loss};
use crate::data::{DataSet, Feed};
use recipe::{Layer, LayeredModel, PlacedLayer, Shape};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::ops::Range;
use std::sync::Arc;
use strategies::vector::piece;
use strategies::{Batch, Block, Layout, Learner, Loss, StepError, Vector};
use tch::{TchError, Tensor};

/// A model in libtorch, on the CPU, over the examples of a data set.
///
/// Weights and gradients are the caller's flat memory; the learner keeps the activations of the batch
/// that is on its way.
pub struct TorchLearner {
    /// The model as described.
    whole: LayeredModel,
    /// What this rank keeps of it; the same unless something was cut.
    pub(super) model: LayeredModel,
    pub(super) sections: Vec<Section>,
    pub(super) layout: Layout,
    pub(super) frozen: Frozen,
    /// Which outputs of a section were kept, of those that were cut.
    cuts: BTreeMap<usize, Range<usize>>,
    pub(super) seed: u64,
    pub(super) data: Arc<DataSet>,
    feed: Feed,
    batch: Batch,
    activations: Option<Tensor>,
    /// For each placed layer what its backward pass needs.
    saved: Vec<Option<Saved>>,
    /// From a tied head's backward pass to the embedding's: its gradient of their matrix.
    of_head: Option<Tensor>,
}

impl TorchLearner {
    /// A learner of `model` on `data`; `seed` is the run's, of initial weights and dropout.
    pub fn new(model: LayeredModel, data: Arc<DataSet>, seed: u64) -> Result<Self, ModelError> {
        let kind = model.kind;
        let sections = sections(&model);
        if sections.is_empty() {
            return Err(ModelError::NoWeights { kind });
        }
        if model.input.size() != data.shape().size() {
            return Err(ModelError::Input { kind, model: model.input, data: data.shape() });
        }
        if model.classes < data.classes() {
            return Err(ModelError::Classes { kind, model: model.classes, data: data.classes() });
        }
        let saved = model.layers.iter().map(|_| None).collect();
        Ok(Self {
            layout: layout(&model.weighted_layers()),
            frozen: Frozen::draw(&model, seed)
                .map_err(|error| ModelError::Frozen { kind, reason: error.to_string() })?,
            sections,
            whole: model.clone(),
            model,
            cuts: BTreeMap::new(),
            seed,
            feed: Feed::new(data.clone(), seed),
            data,
            batch: Batch::default(),
            activations: None,
            saved,
            of_head: None,
        })
    }

    fn section(&self, layer: usize) -> Result<Section, StepError> {
        self.sections.get(layer).cloned().ok_or_else(|| {
            StepError::Learner(format!("there is no layer {layer}; the model has {}", self.sections.len()))
        })
    }

    fn weights_of<'a>(&self, weights: &'a [f32], layer: usize) -> Result<&'a [f32], StepError> {
        let span = self.layout.layers()[layer].span.clone();
        weights.get(span).ok_or_else(|| {
            let expected = self.layout.size();
            StepError::Learner(format!("{} weights were given, the model has {expected}", weights.len()))
        })
    }

    /// What a tied head shares, in a model that begins with an embedding.
    pub(super) fn tied<'a>(&'a self, weights: &'a [f32]) -> Option<Tied<'a>> {
        let embedding = self.model.layers.first()?;
        let Layer::Embedding { .. } = embedding.layer else { return None };
        let span = self.layout.layers().first()?.span.clone();
        Some(Tied { embedding, weights: weights.get(span)? })
    }

    /// The activations as a tensor of rows of `shape`.
    fn activations(&mut self, shape: Shape, before: &str) -> Result<Tensor, StepError> {
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
        let factor = Tensor::f_from_slice(&values).and_then(|factor| factor.f_reshape(sizes));
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

    fn up(&mut self, weights: &[f32], layer: usize) -> Result<(), StepError> {
        let section = self.section(layer)?;
        let whole = weights;
        let weights = self.weights_of(whole, layer)?;
        let first = &self.model.layers[section.placed.start];
        let input = first.input;
        let name = first.name.clone();
        let mut x = self.activations(input, &name)?;
        if x.size()[0] == 0 {
            let output = self.model.layers[section.placed.end - 1].output;
            self.activations = Some(x.new_zeros(dimensions(0, output), (tch::Kind::Float, tch::Device::Cpu)));
            return Ok(());
        }
        for place in section.placed.clone() {
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

    fn down(&mut self, weights: &[f32], layer: usize, gradient: &mut [f32]) -> Result<(), StepError> {
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
        let mut g = self.activations(output, &name)?;
        if g.size()[0] == 0 {
            gradient.fill(0.0);
            let input = self.model.layers[section.placed.start].input;
            self.activations = Some(g.new_zeros(dimensions(0, input), (tch::Kind::Float, tch::Device::Cpu)));
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
                gradient: &mut *gradient,
                wants_input,
                tied: self.tied(whole),
                of_head: &mut of_head,
            };
            let below = kernel::backward(placed, saved, down)
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
        let tensor = Tensor::f_from_slice(&labels);
        tensor.map(Some).map_err(|error| failed(&placed.name, "forward pass", error))
    }

    /// What auxiliary heads add to the loss.
    fn loss_of_heads(&self) -> f32 {
        let head = |saved: &Saved| if let Saved::Head(head) = saved { Some(head.loss()) } else { None };
        self.saved.iter().flatten().filter_map(head).sum()
    }

    /// The slice of a layer's whole weights that a cut keeps: rows of its weight, then of its bias.
    fn kept_weights(&self, layer: usize, whole: &[f32], into: &mut Vec<f32>) {
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

/// Whether a gradient is needed with respect to what goes into a layer: below the first weights none is.
fn passes_gradient(layer: usize, place: usize, section: &Section) -> bool {
    layer > 0 || place > section.weighted
}

fn bytes(tensor: &Tensor) -> usize {
    tensor.numel() * tensor.kind().elt_size_in_bytes()
}

/// An error of libtorch, with the layer where it happened and without libtorch's own stack trace.
pub(super) fn failed(layer: &str, what: &str, error: TchError) -> StepError {
    let text = error.to_string();
    StepError::Learner(format!("{what} of {layer}: {}", text.lines().next().unwrap_or_default()))
}

fn wrong(error: impl Display) -> StepError {
    StepError::Learner(error.to_string())
}

impl Learner for TorchLearner {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn initial(&self) -> Vector {
        if self.cuts.is_empty() {
            return initial_weights(&self.whole, self.seed);
        }
        // One layer at a time: a part of a model is there so that the whole need not be.
        let mut kept = Vec::with_capacity(self.layout.size());
        for layer in 0..self.sections.len() {
            let whole = initial_weights_of(&self.whole, self.sections[layer].weighted, self.seed);
            self.kept_weights(layer, &whole, &mut kept);
        }
        Vector::from(kept)
    }

    fn load(&mut self, batch: &Batch) -> Result<(), StepError> {
        self.saved.fill_with(|| None);
        self.of_head = None;
        self.activations = Some(self.feed.load(batch).map_err(wrong)?);
        self.batch.clone_from(batch);
        Ok(())
    }

    fn looks_ahead(&self) -> usize {
        self.feed.looks_ahead()
    }

    fn announce(&mut self, next: &[Batch]) {
        self.feed.announce(next);
    }

    fn forward(&mut self, weights: &Vector, layer: usize) -> Result<(), StepError> {
        tch::no_grad(|| self.up(weights, layer))
    }

    fn loss(&mut self, batch: &Batch) -> Result<Loss, StepError> {
        let output = self.whole.layers.last().map_or(Shape::Flat(self.whole.classes), |last| last.output);
        let scores = self.activations(output, "the loss")?;
        let labels = self.data.labels_of(batch).map_err(wrong)?;
        if labels.is_empty() && scores.size()[0] == 0 {
            self.activations = Some(scores);
            return Ok(Loss(0.0));
        }
        let failed = |error| failed("the scores", "loss", error);
        let rows = loss::rows(&scores).map_err(failed)?;
        loss::check(&rows, labels.len(), self.whole.classes)?;
        let (mean, gradient) =
            tch::no_grad(|| loss::cross_entropy(&rows, &Tensor::f_from_slice(&labels)?)).map_err(failed)?;
        self.activations = Some(gradient.f_reshape(scores.size()).map_err(failed)?);
        Ok(Loss(mean + self.loss_of_heads()))
    }

    fn backward(&mut self, weights: &Vector, layer: usize, gradient: &mut [f32]) -> Result<(), StepError> {
        tch::no_grad(|| self.down(weights, layer, gradient))
    }

    fn take_activations(&mut self) -> Result<Block, StepError> {
        let activations = self.activations.take().ok_or_else(|| wrong("there are no activations to take"))?;
        let sizes = activations.size();
        let width = sizes.iter().skip(1).product::<i64>() as usize;
        let mut values = vec![0.0; activations.numel()];
        let copied =
            activations.f_contiguous().and_then(|dense| dense.f_copy_data(&mut values, activations.numel()));
        copied.map_err(|error| failed("the activations", "copy", error))?;
        Ok(Block { width, values })
    }

    fn kept_bytes(&self) -> usize {
        let saved = self.saved.iter().flatten().flat_map(Saved::tensors);
        // What one layer keeps of its output is often what the next one keeps of its input.
        let blocks: BTreeMap<usize, usize> =
            saved.map(|tensor| (tensor.data_ptr() as usize, bytes(tensor))).collect();
        blocks.into_values().sum()
    }

    fn put_activations(&mut self, activations: Block) -> Result<(), StepError> {
        let Block { width, values } = activations;
        if width == 0 || values.len() % width != 0 {
            let len = values.len();
            return Err(StepError::Learner(format!("{len} values are no rows of width {width}")));
        }
        let rows = (values.len() / width) as i64;
        let tensor = Tensor::f_from_slice(&values).and_then(|flat| flat.f_reshape([rows, width as i64]));
        self.activations = Some(tensor.map_err(|error| failed("the activations", "copy", error))?);
        Ok(())
    }

    fn set_examples(&mut self, batch: &Batch) -> Result<(), StepError> {
        self.batch.clone_from(batch);
        Ok(())
    }

    fn shard_layer(&mut self, layer: usize, part: usize, of: usize) -> Result<(), StepError> {
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
