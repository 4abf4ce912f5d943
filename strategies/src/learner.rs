//! The interface between strategies and models.

use crate::vector::{Block, Layout, Vector};
use crate::{Loss, StepError};

/// The examples of one step of one rank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// The epoch they belong to, from 0; an example's random numbers are keyed by it.
    pub epoch: u64,
    /// Their positions in the original training file.
    pub examples: Vec<u32>,
}

/// A model with its data, as a pure function of the weights: it holds activations, never weights.
///
/// The activations of a batch travel upwards through the layers, their gradients downwards; they leave the device only
/// where they are exchanged ([`Learner::take_activations`], [`Learner::put_activations`]). A layer here is a layer of the
/// [`Layout`]: one with weights, together with those without weights up to the next one.
///
/// One batch is `load`, `forward` for each layer from 0, `loss`, `backward` for each layer from the last.
pub trait Learner: Send {
    /// The span of each layer in the weights.
    fn layout(&self) -> &Layout;

    /// The initial weights, a pure function of the run's seed.
    fn initial(&self) -> Vector;

    /// Loads the inputs of a batch as activations.
    fn load(&mut self, batch: &Batch) -> Result<(), StepError>;

    /// How many of the batches that come next it wants to know, to prepare them meanwhile; 0 for a learner that has all at hand.
    fn looks_ahead(&self) -> usize {
        0
    }

    /// Says which batches are loaded next, in this order, at most [`Learner::looks_ahead`]. The loaded values do not depend on it.
    fn announce(&mut self, _next: &[Batch]) {}

    /// Whether it computes on a device with memory of its own. Then the loaded batch, the weights of each layer before its forward
    /// pass, and its gradient after its backward pass are copied by calls of their own, whose time is that of copying.
    fn has_device(&self) -> bool {
        false
    }

    /// Copies the loaded batch to the device.
    fn upload_batch(&mut self) -> Result<(), StepError> {
        Ok(())
    }

    /// Copies the weights of one layer to the device: its forward and its backward pass are at these.
    fn upload_layer(&mut self, _weights: &Vector, _layer: usize) -> Result<(), StepError> {
        Ok(())
    }

    /// Copies the gradient of one layer's weights from the device over `gradient`, which the backward pass has not written to.
    fn download_gradient(&mut self, _layer: usize, _gradient: &mut [f32]) -> Result<(), StepError> {
        Ok(())
    }

    /// The forward pass through one layer.
    fn forward(&mut self, weights: &Vector, layer: usize) -> Result<(), StepError>;

    /// The mean loss of the batch whose class scores are the activations; the gradient of that mean replaces them. The
    /// examples are named again because, with model parallelism, the scores can be those of another rank's examples. An
    /// empty batch has loss 0.
    fn loss(&mut self, batch: &Batch) -> Result<Loss, StepError>;

    /// The backward pass through one layer; writes the gradient of the layer's weights over `gradient`, whose length is
    /// that of the layer's span.
    fn backward(&mut self, weights: &Vector, layer: usize, gradient: &mut [f32]) -> Result<(), StepError>;

    /// Fetches the activations, or their gradients, to host memory.
    fn take_activations(&mut self) -> Result<Block, StepError>;

    /// Bytes that the forward passes of the loaded samples keep for the backward pass, each tensor once; 0 for a learner that does
    /// not know.
    fn kept_bytes(&self) -> usize {
        0
    }

    /// Sets the activations, or their gradients, from host memory.
    fn put_activations(&mut self, activations: Block) -> Result<(), StepError>;

    /// Says whose examples the activations are from now on, where those of other examples take their place: the random numbers of
    /// a layer are keyed by its examples.
    fn set_examples(&mut self, batch: &Batch) -> Result<(), StepError>;

    /// Keeps only the `part`-th of `of` slices of a layer's outputs: layout and initial weights shrink to that slice of
    /// the same seeded weights.
    fn shard_layer(&mut self, layer: usize, part: usize, of: usize) -> Result<(), StepError>;
}
