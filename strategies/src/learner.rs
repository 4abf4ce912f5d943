//! The model and the data, as a strategy sees them.

use crate::vector::{Block, Layout, Vector};
use crate::{Loss, StepError};

/// The examples of one step of one rank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// The epoch they belong to, from 0; what is random about an example is keyed by it.
    pub epoch: u64,
    /// Their positions in the original training file.
    pub examples: Vec<u32>,
}

/// A model with its data, as a pure function of the weights: it holds activations, never weights.
///
/// A cursor holds what travels through the layers, activations upwards and gradients downwards; it leaves
/// the device only where something is exchanged ([`Learner::take`], [`Learner::put`]). A layer here is a
/// layer of the [`Layout`]: one with weights, and whatever follows it up to the next one with weights.
///
/// One batch is `load`, `forward` for each layer from 0, `loss`, `backward` for each layer from the last.
pub trait Learner: Send {
    /// Which weights belong to which layer.
    fn layout(&self) -> &Layout;

    /// The initial weights, a pure function of the run's seed.
    fn initial(&self) -> Vector;

    /// Puts the inputs of a batch into the cursor.
    fn load(&mut self, batch: &Batch) -> Result<(), StepError>;

    /// Takes the cursor through one layer, upwards.
    fn forward(&mut self, weights: &Vector, layer: usize) -> Result<(), StepError>;

    /// The mean loss of the batch whose class scores the cursor holds; leaves the gradient of that mean in
    /// the cursor. The examples are named again because, with model parallelism, the scores can be those of
    /// another rank's examples. An empty batch has loss 0.
    fn loss(&mut self, batch: &Batch) -> Result<Loss, StepError>;

    /// Takes the cursor through one layer, downwards, and writes the gradient of the layer's weights over
    /// `gradient`, whose length is that of the layer's span.
    fn backward(&mut self, weights: &Vector, layer: usize, gradient: &mut [f32]) -> Result<(), StepError>;

    /// Fetches the cursor to the host.
    fn take(&mut self) -> Result<Block, StepError>;

    /// Sets the cursor from the host.
    fn put(&mut self, cursor: Block) -> Result<(), StepError>;

    /// Keeps only the `part`-th of `of` slices of a layer's outputs: layout and initial weights shrink to
    /// that slice of the same seeded weights.
    fn cut(&mut self, layer: usize, part: usize, of: usize) -> Result<(), StepError>;
}
