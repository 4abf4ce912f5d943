//! Initial weights, computed without libtorch.

use crate::stream;
use recipe::{Init, Layer, LayeredModel, Parameter, PlacedLayer, WeightedLayer};
use strategies::Vector;

/// The initial weights of a model: a pure function of model and seed, the same on every machine.
///
/// Those of linear layers and convolutions are uniform, within the bounds of the model's [`Init`]. Each draws from a stream of
/// its own, keyed by its name, also inside of a block; first its weights in their flat order, then its biases, so that two ways
/// of drawing differ by a factor only.
pub fn initial_weights(model: &LayeredModel, seed: u64) -> Vector {
    let size = model.weighted_layers().iter().map(WeightedLayer::size).sum();
    let mut weights = Vec::with_capacity(size);
    for layer in &model.layers {
        fill(layer, model.init, seed, &mut weights);
    }
    Vector::from(weights)
}

/// Those of the layer at one place of the model.
pub(super) fn initial_weights_of(model: &LayeredModel, place: usize, seed: u64) -> Vec<f32> {
    let mut weights = Vec::new();
    if let Some(layer) = model.layers.get(place) {
        fill(layer, model.init, seed, &mut weights);
    }
    weights
}

fn fill(layer: &PlacedLayer, init: Init, seed: u64, weights: &mut Vec<f32>) {
    match layer.layer {
        Layer::Linear { .. } | Layer::Conv { .. } => drawn(layer, init, seed, weights),
        // At first it only normalises: gamma = 1 and beta = 0, as PyTorch has it.
        Layer::BatchNorm => {
            for (parameter, value) in layer.parameters.iter().zip([1.0, 0.0]) {
                weights.extend(std::iter::repeat_n(value, Parameter::size(parameter)));
            }
        }
        Layer::Residual { .. } | Layer::Branches { .. } => {
            layer.paths.layers().for_each(|inner| fill(inner, init, seed, weights));
        }
        Layer::MaxPool { .. }
        | Layer::AvgPool { .. }
        | Layer::GlobalAvgPool
        | Layer::LocalResponseNorm { .. }
        | Layer::Relu
        | Layer::Dropout { .. }
        | Layer::Flatten => {}
    }
}

fn drawn(layer: &PlacedLayer, init: Init, seed: u64, weights: &mut Vec<f32>) {
    let Some(first) = layer.parameters.first() else { return };
    let inputs: usize = first.shape.iter().skip(1).product();
    let bounds = bounds(init, inputs as f32);
    let mut draws = stream::keyed(seed, &format!("init {}", layer.name), &[]);
    let own = [bounds.weight].into_iter().chain(std::iter::repeat(bounds.bias));
    for (parameter, bound) in layer.parameters.iter().zip(own) {
        let size = Parameter::size(parameter);
        let draw = |_| if bound > 0.0 { (2.0 * stream::unit(&mut draws) - 1.0) * bound } else { 0.0 };
        weights.extend((0..size).map(draw));
    }
}

/// Half the width of the intervals.
struct Bounds {
    weight: f32,
    bias: f32,
}

fn bounds(init: Init, inputs: f32) -> Bounds {
    match init {
        Init::Pytorch => Bounds { weight: 1.0 / inputs.sqrt(), bias: 1.0 / inputs.sqrt() },
        Init::Xavier => Bounds { weight: (3.0 / inputs).sqrt(), bias: 0.0 },
        Init::Kaiming => Bounds { weight: (6.0 / inputs).sqrt(), bias: 0.0 },
    }
}
