//! Initial weights, computed without libtorch.

use crate::stream;
use recipe::{Model, Parameter};
use strategies::Vector;

/// The initial weights of a model: a pure function of model and seed, the same on every machine.
///
/// Weights and biases are uniform on [-1/sqrt(n), 1/sqrt(n)), n the number of inputs of one output. This is
/// the default of PyTorch's `Linear` and `Conv2d` (Kaiming uniform of He et al. 2015, arXiv 1502.01852, with
/// a = sqrt(5), so that the bound sqrt(6 / ((1 + a^2) n)) becomes 1/sqrt(n)). Each layer draws from a stream
/// of its own, keyed by its name; first its weights in their flat order, then its biases.
pub fn initial_weights(model: &Model, seed: u64) -> Vector {
    let mut weights = Vec::with_capacity(model.parameters());
    for layer in &model.layers {
        let Some(first) = layer.parameters.first() else { continue };
        let inputs: usize = first.shape.iter().skip(1).product();
        let bound = 1.0 / (inputs as f32).sqrt();
        let size: usize = layer.parameters.iter().map(Parameter::size).sum();
        let mut draws = stream::keyed(seed, &format!("init {}", layer.name), &[]);
        weights.extend((0..size).map(|_| (2.0 * stream::unit(&mut draws) - 1.0) * bound));
    }
    Vector::from(weights)
}
