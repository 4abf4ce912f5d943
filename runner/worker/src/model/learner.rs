//! A described model and a data set as what a strategy trains.

use super::flat::{Gradient, Part, Weights};
use super::frozen::Frozen;
use super::gpu::Gpu;
use super::initial::initial_weights_of;
use super::kernel::Saved;
use super::memory_format::MemoryFormat;
use super::section::{Section, layout, sections};
use super::tied::Tied;
use super::{ModelError, initial_weights, loss};
use crate::data::{DataSet, Feed};
use recipe::{Layer, LayeredModel, Shape};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::ops::Range;
use std::sync::Arc;
use strategies::{Batch, Block, Layout, Learner, Loss, StepError, Vector};
use tch::{Device, TchError, Tensor};

/// A model in libtorch over the examples of a data set.
///
/// On the CPU weights and gradients are the caller's flat memory; on a GPU the learner has copies of them there. It keeps
/// the activations of the batch that is on its way.
pub struct TorchLearner {
    /// The model as described.
    pub(super) whole: LayeredModel,
    /// The part of it that this rank keeps; equal to `whole` unless something was cut.
    pub(super) model: LayeredModel,
    pub(super) sections: Vec<Section>,
    pub(super) layout: Layout,
    pub(super) frozen: Frozen,
    /// Which outputs of a section were kept, of those that were cut.
    pub(super) cuts: BTreeMap<usize, Range<usize>>,
    pub(super) seed: u64,
    pub(super) data: Arc<DataSet>,
    /// The GPU that it computes on.
    pub(super) gpu: Option<Gpu>,
    /// The memory format in which images pass the layers; on a GPU always contiguous.
    pub(super) format: MemoryFormat,
    feed: Feed,
    pub(super) batch: Batch,
    pub(super) activations: Option<Tensor>,
    /// For each placed layer what its backward pass needs.
    pub(super) saved: Vec<Option<Saved>>,
    /// From a tied head's backward pass to the embedding's: its gradient of their matrix.
    pub(super) of_head: Option<Tensor>,
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
            format: MemoryFormat::of(model.input),
            whole: model.clone(),
            model,
            cuts: BTreeMap::new(),
            seed,
            feed: Feed::new(data.clone(), seed),
            data,
            gpu: None,
            batch: Batch::default(),
            activations: None,
            saved,
            of_head: None,
        })
    }

    /// The same on a GPU, counted from 0; without one on the CPU.
    ///
    /// # Errors
    /// libtorch has no such GPU, or no room on it.
    pub fn on_gpu(mut self, gpu: Option<u32>) -> Result<Self, ModelError> {
        let Some(index) = gpu else { return Ok(self) };
        let refused = |error: TchError| ModelError::gpu(index, &error);
        let gpu = Gpu::open(index).map_err(refused)?;
        self.frozen.move_to(gpu.device()).map_err(refused)?;
        self.gpu = Some(gpu);
        self.format = MemoryFormat::Contiguous;
        Ok(self)
    }

    /// The GPU that it was given, else the CPU.
    pub(super) fn device(&self) -> Device {
        self.gpu.as_ref().map_or(Device::Cpu, Gpu::device)
    }

    /// Waits until the GPU has computed what was asked of it, so that the caller's clock shows it.
    fn settle(&self) -> Result<(), StepError> {
        self.gpu.as_ref().map_or(Ok(()), Gpu::settle).map_err(|error| failed("the GPU", "work", error))
    }

    pub(super) fn section(&self, layer: usize) -> Result<Section, StepError> {
        self.sections.get(layer).cloned().ok_or_else(|| {
            StepError::Learner(format!("there is no layer {layer}; the model has {}", self.sections.len()))
        })
    }

    pub(super) fn weights_of<'a>(
        &self,
        weights: Weights<'a>,
        layer: usize,
    ) -> Result<Weights<'a>, StepError> {
        let span = self.layout.layers()[layer].span.clone();
        weights.part(span).ok_or_else(|| {
            let expected = self.layout.size();
            StepError::Learner(format!("{} weights were given, the model has {expected}", weights.len()))
        })
    }

    /// The embedding whose matrix a tied head shares; `None` in a model that does not begin with one.
    pub(super) fn tied<'a>(&'a self, weights: Weights<'a>) -> Option<Tied<'a>> {
        let embedding = self.model.layers.first()?;
        let Layer::Embedding { .. } = embedding.layer else { return None };
        let span = self.layout.layers().first()?.span.clone();
        Some(Tied { embedding, weights: weights.part(span)? })
    }
}

fn bytes(tensor: &Tensor) -> usize {
    tensor.numel() * tensor.kind().elt_size_in_bytes()
}

/// An error of libtorch, with the layer where it happened and without libtorch's own stack trace.
pub(super) fn failed(layer: &str, what: &str, error: TchError) -> StepError {
    let text = error.to_string();
    StepError::Learner(format!("{what} of {layer}: {}", text.lines().next().unwrap_or_default()))
}

pub(super) fn wrong(error: impl Display) -> StepError {
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

    fn has_device(&self) -> bool {
        self.gpu.is_some()
    }

    fn upload_batch(&mut self) -> Result<(), StepError> {
        let device = self.device();
        let moved = self.activations.take().map(|activations| activations.f_to(device)).transpose();
        self.activations = moved.map_err(|error| failed("the batch", "copy", error))?;
        self.settle()
    }

    fn upload_layer(&mut self, weights: &Vector, layer: usize) -> Result<(), StepError> {
        let span = self.section(layer).map(|_| self.layout.layers()[layer].span.clone())?;
        let size = self.layout.size();
        let Some(gpu) = &mut self.gpu else { return Ok(()) };
        let copied = gpu.hold(size).and_then(|()| gpu.upload(weights, span));
        copied.map_err(|error| failed("the weights", "copy", error))
    }

    fn download_gradient(&mut self, layer: usize, gradient: &mut [f32]) -> Result<(), StepError> {
        let span = self.section(layer).map(|_| self.layout.layers()[layer].span.clone())?;
        let Some(gpu) = &self.gpu else { return Ok(()) };
        gpu.download(span, gradient).map_err(|error| failed("the gradient", "copy", error))
    }

    fn forward(&mut self, weights: &Vector, layer: usize) -> Result<(), StepError> {
        let copy = self.gpu.as_ref().map(Gpu::weights);
        tch::no_grad(|| self.up(Weights::of(copy.as_ref(), weights), layer))?;
        self.settle()
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
        let device = self.device();
        let (mean, gradient) =
            tch::no_grad(|| loss::cross_entropy(&rows, &Tensor::f_from_slice(&labels)?.f_to(device)?))
                .map_err(failed)?;
        self.activations = Some(gradient.f_reshape(scores.size()).map_err(failed)?);
        self.settle()?;
        Ok(Loss(mean + self.loss_of_heads()))
    }

    fn backward(&mut self, weights: &Vector, layer: usize, gradient: &mut [f32]) -> Result<(), StepError> {
        let Some(gpu) = &self.gpu else {
            return tch::no_grad(|| self.down(Weights::Host(weights), layer, Gradient::Host(gradient)));
        };
        let copy = gpu.weights();
        let own = gpu.gradient();
        let span = self.section(layer).map(|_| self.layout.layers()[layer].span.clone())?;
        let part = Part::new(&own, span).ok_or_else(|| {
            wrong(format!("layer {layer} has no gradient on the GPU: its weights come first"))
        })?;
        let copy = Weights::of(Some(&copy), weights);
        tch::no_grad(|| self.down(copy, layer, Gradient::Device(part)))?;
        self.settle()
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
        // The output that one layer keeps is often the input that the next one keeps.
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
        let tensor = Tensor::f_from_slice(&values)
            .and_then(|flat| flat.f_reshape([rows, width as i64])?.f_to(self.device()));
        self.activations = Some(tensor.map_err(|error| failed("the activations", "copy", error))?);
        self.settle()
    }

    fn set_examples(&mut self, batch: &Batch) -> Result<(), StepError> {
        self.batch.clone_from(batch);
        Ok(())
    }

    fn shard_layer(&mut self, layer: usize, part: usize, of: usize) -> Result<(), StepError> {
        self.keep_slice(layer, part, of)
    }
}
