//! Models in TorchScript files: libtorch interprets them and records their operations for the backward pass.
//!
//! A layer is a method of the module: `forward`, or `stage0`, `stage1` and so on. Its weights are copied into the module before
//! each forward pass, and its gradient is copied out after the backward pass.

mod describe;
mod file;
mod moments;

pub use describe::describe;

use super::flat::ViewMut;
use super::gpu::Gpu;
use super::{Evaluation, ModelError, TrainedModel, evaluate, loss};
use crate::data::{DataSet, Feed, Split};
use crate::stream;
use file::{Script, reason};
use rand_chacha::rand_core::Rng;
use recipe::{FileLayer, ModelFile, TARGETS_AT_ONCE};
use std::fmt::Display;
use std::sync::Arc;
use strategies::{Batch, Block, Layout, Learner, Loss, StepError, Vector};
use tch::{Device, TchError, Tensor};
use torch_native::Mode;

/// Values of examples that are evaluated at once, at most: those of a thousand images of CIFAR and more.
const VALUES_AT_ONCE: usize = 1 << 22;

/// A TorchScript model over the examples of a data set.
pub struct ScriptLearner {
    described: ModelFile,
    script: Script,
    /// Loaded when a model is evaluated for the first time.
    evaluated: Option<Script>,
    layout: Layout,
    initial: Vector,
    seed: u64,
    data: Arc<DataSet>,
    feed: Feed,
    batch: Batch,
    activations: Option<Tensor>,
    /// Of each layer whose backward pass is to come.
    recorded: Vec<Option<Recorded>>,
    gpu: Option<Gpu>,
    /// On a GPU: the gradient of the layer whose backward pass was the last.
    on_gpu: Option<OnGpu>,
}

/// The gradient of a layer's tensors, on a GPU.
struct OnGpu {
    layer: usize,
    gradients: Vec<Tensor>,
}

/// Gradients that the backward pass of a layer computes.
struct Gradients {
    /// Of its tensors; empty if the script took a branch that uses no weights.
    own: Vec<Tensor>,
    /// Of its input; `None` in the lowest layer.
    below: Option<Tensor>,
}

/// The recorded forward pass of a layer.
struct Recorded {
    input: Tensor,
    result: Tensor,
}

impl ScriptLearner {
    /// A learner of the described file on `data`; `seed` is the run's, for random numbers in training.
    pub fn new(described: ModelFile, data: Arc<DataSet>, seed: u64) -> Result<Self, ModelError> {
        let script = Script::load(&described, Mode::Training, None)?;
        let values = script
            .values()
            .map_err(|error| ModelError::Script { file: described.file.clone(), reason: reason(&error) })?;
        let layers = &described.layout.layers;
        let size = |layer: &FileLayer| layer.parameters.iter().map(recipe::Parameter::size).sum();
        Ok(Self {
            layout: Layout::new(layers.iter().map(|layer| (layer.name.clone(), size(layer)))),
            recorded: layers.iter().map(|_| None).collect(),
            initial: Vector::from(values),
            described,
            script,
            evaluated: None,
            seed,
            feed: Feed::new(data.clone(), seed),
            data,
            batch: Batch::default(),
            activations: None,
            gpu: None,
            on_gpu: None,
        })
    }

    /// The same on a GPU, counted from 0; without one on the CPU.
    ///
    /// # Errors
    /// libtorch has no such GPU, or no room on it.
    pub fn on_gpu(mut self, gpu: Option<u32>) -> Result<Self, ModelError> {
        let Some(index) = gpu else { return Ok(self) };
        self.gpu = Some(Gpu::open(index).map_err(|error| ModelError::gpu(index, &error))?);
        self.script = Script::load(&self.described, Mode::Training, gpu)?;
        Ok(self)
    }

    fn device(&self) -> Device {
        self.gpu.as_ref().map_or(Device::Cpu, Gpu::device)
    }

    /// Waits until the GPU has computed what was asked of it, so that the caller's clock shows it.
    fn settle(&self) -> Result<(), StepError> {
        self.gpu.as_ref().map_or(Ok(()), Gpu::settle).map_err(|error| failed("the GPU", "work", &error))
    }

    fn layer(&self, layer: usize) -> Result<&FileLayer, StepError> {
        let layers = &self.described.layout.layers;
        layers
            .get(layer)
            .ok_or_else(|| wrong(format!("there is no layer {layer}; the model has {}", layers.len())))
    }

    fn weights_of<'a>(&self, weights: &'a Vector, layer: usize) -> Result<&'a [f32], StepError> {
        let span = self.layout.layers().get(layer).map(|layer| layer.span.clone());
        let own = span.and_then(|span| weights.get(span));
        own.ok_or_else(|| wrong(format!("layer {layer} is not within {} weights", weights.len())))
    }

    /// Seeds libtorch's generator for a layer of the loaded examples, so that the script's random numbers follow them.
    fn seed_generator(&self, layer: usize) {
        let mut words = vec![self.batch.epoch, layer as u64];
        words.extend(self.batch.examples.iter().map(|example| u64::from(*example)));
        let mut draws = stream::keyed(self.seed, "torchscript", &words);
        tch::manual_seed(draws.next_u64() as i64);
    }

    fn up(&mut self, weights: &[f32], layer: usize) -> Result<(), StepError> {
        let described = self.layer(layer)?.clone();
        let name = described.name.clone();
        let x = self
            .activations
            .take()
            .ok_or_else(|| wrong(format!("nothing has reached {name} yet; a batch is loaded first")))?;
        if x.size().first() == Some(&0) {
            self.activations = Some(x);
            return Ok(());
        }
        let failed = |error: TchError| failed(&name, "forward pass", &error);
        if self.gpu.is_none() {
            self.script.set(layer, weights).map_err(failed)?;
        }
        self.seed_generator(layer);
        let input = x.f_detach().and_then(|x| x.f_set_requires_grad(layer > 0)).map_err(failed)?;
        let result = tch::with_grad(|| self.script.call(&described, &file::own(&input)?)).map_err(failed)?;
        self.activations = Some(result.f_detach().map_err(failed)?);
        self.recorded[layer] = Some(Recorded { input, result });
        Ok(())
    }

    fn down(&mut self, layer: usize, gradient: &mut [f32]) -> Result<(), StepError> {
        let name = self.layer(layer)?.name.clone();
        let gy =
            self.activations.take().ok_or_else(|| wrong(format!("no gradient has reached {name} yet")))?;
        if self.batch.examples.is_empty() {
            gradient.fill(0.0);
            self.activations = Some(gy);
            return Ok(());
        }
        let recorded = self.recorded[layer]
            .take()
            .ok_or_else(|| wrong(format!("the backward pass reached {name} before the forward pass")))?;
        let failed = |error: TchError| failed(&name, "backward pass", &error);
        let Gradients { own, below } = self.gradients(layer, &recorded, &gy).map_err(failed)?;
        self.activations = below;
        if self.gpu.is_some() {
            self.on_gpu = Some(OnGpu { layer, gradients: own });
            return Ok(());
        }
        self.write(layer, &own, gradient).map_err(failed)
    }

    /// The gradients of a layer's tensors, and that of its input where it has layers below.
    fn gradients(&self, layer: usize, recorded: &Recorded, gy: &Tensor) -> Result<Gradients, TchError> {
        let Recorded { input, result } = recorded;
        if !result.requires_grad() {
            // A branch of the script that uses neither weights nor input.
            let below = if layer > 0 { Some(input.f_zeros_like()?) } else { None };
            return Ok(Gradients { own: Vec::new(), below });
        }
        file::run_as_written();
        let tensors = self.script.tensors(layer);
        let mut leaves: Vec<&Tensor> = tensors.iter().collect();
        leaves.extend((layer > 0).then_some(input));
        let mut own = torch_native::gradients(result, gy, &leaves)?;
        let below = match own.drain(tensors.len()..).next() {
            Some(below) if !below.defined() => Some(input.f_zeros_like()?),
            below => below,
        };
        Ok(Gradients { own, below })
    }

    /// Writes the gradients of a layer's tensors over flat memory; a branch of the script that was not taken has none.
    fn write(&self, layer: usize, own: &[Tensor], gradient: &mut [f32]) -> Result<(), TchError> {
        let mut rest = gradient;
        for (place, tensor) in self.script.tensors(layer).iter().enumerate() {
            if tensor.numel() > rest.len() {
                return Err(TchError::Shape(format!("the gradient is {} values too short", tensor.numel())));
            }
            let (memory, after) = rest.split_at_mut(tensor.numel());
            rest = after;
            match own.get(place).filter(|own| own.defined()) {
                Some(own) => ViewMut::new(memory, &tensor.size())?.fill_from(own)?,
                None => memory.fill(0.0),
            }
        }
        Ok(())
    }

    /// The script for evaluations, with these weights, and with the moments of training samples under them.
    fn prepared(&mut self, weights: &Vector) -> Result<Script, StepError> {
        let gpu = self.gpu.as_ref().map(Gpu::index);
        let mut script = match self.evaluated.take() {
            Some(script) => script,
            None => Script::load(&self.described, Mode::Evaluation, gpu).map_err(wrong)?,
        };
        for (number, layer) in self.layout.layers().iter().enumerate() {
            let own = weights
                .get(layer.span.clone())
                .ok_or_else(|| wrong(format!("{} is not within {} weights", layer.name, weights.len())))?;
            script.set(number, own).map_err(|error| failed(&layer.name, "evaluation", &error))?;
        }
        let gathered = self.gather_moments(&mut script);
        gathered.map_err(|error| failed("batch norm", "evaluation", &error))?;
        Ok(script)
    }

    /// Nearly what `update_bn` of PyTorch does: the means of what batches of training samples have. Nothing where there is no batch norm.
    fn gather_moments(&self, script: &mut Script) -> Result<(), TchError> {
        if script.moments.is_empty() {
            return Ok(());
        }
        let samples = evaluate::calibration_samples(&self.data);
        let at_once = evaluate::CALIBRATION_BATCH.min(self.evaluated_at_once());
        let mut moments = std::mem::take(&mut script.moments);
        script.set_mode_of_moments(Mode::Training)?;
        let through = &*script;
        let gathered = moments.gather(evaluate::calibration_batches(&samples, at_once).map(|some| {
            let x = self.data.inputs(Split::Training, some);
            let x = x.map_err(|error| TchError::Torch(error.to_string()))?;
            Ok((some.len(), move || self.through(through, x.f_mul_scalar(1.0)?).map(drop)))
        }));
        script.moments = moments;
        script.set_mode_of_moments(Mode::Evaluation)?;
        gathered
    }

    /// Takes examples through all layers, to their scores.
    fn through(&self, script: &Script, x: Tensor) -> Result<Tensor, TchError> {
        let x = x.f_to(self.device())?;
        self.described.layout.layers.iter().try_fold(x, |x, layer| script.call(layer, &x))
    }

    /// Samples that are evaluated at once: fewer where they are large, as a layer's values in between are not known.
    fn evaluated_at_once(&self) -> usize {
        let fitting = VALUES_AT_ONCE / self.data.shape().size().max(1);
        fitting.min(TARGETS_AT_ONCE / self.data.targets().max(1)).max(1)
    }
}

fn failed(layer: &str, what: &str, error: &TchError) -> StepError {
    StepError::Learner(format!("{what} of {layer}: {}", reason(error)))
}

fn wrong(error: impl Display) -> StepError {
    StepError::Learner(error.to_string())
}

impl Learner for ScriptLearner {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn initial(&self) -> Vector {
        self.initial.clone()
    }

    fn load(&mut self, batch: &Batch) -> Result<(), StepError> {
        self.recorded.fill_with(|| None);
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
        self.activations = moved.map_err(|error| failed("the batch", "copy", &error))?;
        self.settle()
    }

    fn upload_layer(&mut self, weights: &Vector, layer: usize) -> Result<(), StepError> {
        let own = self.weights_of(weights, layer)?;
        self.script.set(layer, own).map_err(|error| failed("the weights", "copy", &error))?;
        self.settle()
    }

    fn download_gradient(&mut self, layer: usize, gradient: &mut [f32]) -> Result<(), StepError> {
        let Some(on_gpu) = self.on_gpu.take().filter(|on_gpu| on_gpu.layer == layer) else {
            return Ok(());
        };
        let written = self.write(layer, &on_gpu.gradients, gradient);
        written.map_err(|error| failed("the gradient", "copy", &error))
    }

    fn forward(&mut self, weights: &Vector, layer: usize) -> Result<(), StepError> {
        let own = self.weights_of(weights, layer)?;
        self.up(own, layer)?;
        self.settle()
    }

    fn loss(&mut self, batch: &Batch) -> Result<Loss, StepError> {
        let scores = self.activations.take().ok_or_else(|| wrong("no scores have reached the loss yet"))?;
        let labels = self.data.labels_of(batch).map_err(wrong)?;
        if labels.is_empty() {
            self.activations = Some(scores);
            return Ok(Loss(0.0));
        }
        loss::check(&scores, labels.len(), self.described.layout.classes)?;
        let device = self.device();
        let on_device = || Tensor::f_from_slice(&labels)?.f_to(device);
        let (mean, gradient) = tch::no_grad(|| loss::cross_entropy(&scores, &on_device()?))
            .map_err(|error| failed("the scores", "loss", &error))?;
        self.activations = Some(gradient);
        self.settle()?;
        Ok(Loss(mean))
    }

    fn backward(&mut self, _: &Vector, layer: usize, gradient: &mut [f32]) -> Result<(), StepError> {
        self.down(layer, gradient)?;
        self.settle()
    }

    fn take_activations(&mut self) -> Result<Block, StepError> {
        Err(wrong("the activations of a model file do not leave it"))
    }

    fn put_activations(&mut self, _: Block) -> Result<(), StepError> {
        Err(wrong("the activations of a model file do not come from elsewhere"))
    }

    fn set_examples(&mut self, batch: &Batch) -> Result<(), StepError> {
        self.batch.clone_from(batch);
        Ok(())
    }

    fn shard_layer(&mut self, layer: usize, _: usize, _: usize) -> Result<(), StepError> {
        Err(wrong(format!("layer {layer} cannot be cut: it is a method of a model file")))
    }
}

impl TrainedModel for ScriptLearner {
    fn data(&self) -> &Arc<DataSet> {
        &self.data
    }

    fn evaluate(&mut self, weights: &Vector, split: Split) -> Result<Option<Evaluation>, StepError> {
        if self.data.positions(split).is_empty() {
            return Ok(None);
        }
        let script = tch::no_grad(|| self.prepared(weights))?;
        let found = evaluate::over(&self.data, split, self.evaluated_at_once(), |x| {
            self.through(&script, x).map_err(|error| failed("the scores", "evaluation", &error))
        });
        self.evaluated = Some(script);
        found
    }

    fn frozen_weights(&self) -> Vector {
        Vector::zeros(0)
    }
}
