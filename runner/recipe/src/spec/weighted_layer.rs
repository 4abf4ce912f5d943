//! Layers that have weights, in the order of the flat vector: the form that layers of the program and those of model files share.

use crate::spec::placed_layer::Parameter;

/// A layer of the flat vector of weights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WeightedLayer<'a> {
    /// Unique in the model: `conv1`.
    pub name: &'a str,
    /// Its tensors, in the order in which they lie in the flat vector; at least one.
    pub parameters: &'a [Parameter],
    /// Floating-point operations of one example's forward pass through it and through what follows it without weights.
    pub flops: u64,
    /// Those of its backward pass: twice as many; of frozen layers one for each of the forward pass, and none below the first weights.
    pub backward_flops: u64,
}

impl WeightedLayer<'_> {
    /// Number of weights in all its tensors.
    pub fn size(&self) -> usize {
        self.parameters.iter().map(Parameter::size).sum()
    }
}
