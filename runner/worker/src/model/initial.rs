//! Initial weights, computed without libtorch.

use crate::stream;
use recipe::{Init, Layer, LayeredModel, Parameter, PlacedLayer, WeightedLayer};
use strategies::Vector;

/// The initial weights of a model: a pure function of model and seed, the same on every machine.
///
/// Those of linear layers and convolutions are drawn as the model's [`Init`] says. Each layer draws from a stream of its own,
/// keyed by its name, also inside of a block, tensor after tensor in their flat order, so that two ways of drawing uniform numbers
/// differ by a factor only.
pub fn initial_weights(model: &LayeredModel, seed: u64) -> Vector {
    let size = model.weighted_layers().iter().map(WeightedLayer::size).sum();
    let mut weights = Vec::with_capacity(size);
    let drawing = Drawing::of(model, seed);
    let trained = model.layers.iter().filter(|layer| !matches!(layer.layer, Layer::Frozen { .. }));
    for layer in trained {
        drawing.fill(layer, BranchPosition::Elsewhere, &mut weights);
    }
    Vector::from(weights)
}

/// Those of the layer at one place of the model, frozen ones too.
pub(super) fn initial_weights_of(model: &LayeredModel, place: usize, seed: u64) -> Vec<f32> {
    let mut weights = Vec::new();
    if let Some(layer) = model.layers.get(place) {
        Drawing::of(model, seed).fill(layer, BranchPosition::Elsewhere, &mut weights);
    }
    weights
}

fn residual_blocks(layers: &[PlacedLayer]) -> usize {
    let blocks = |layer: &PlacedLayer| {
        usize::from(matches!(layer.layer, Layer::Residual { .. })) + residual_blocks(&layer.paths.branch)
    };
    layers.iter().map(blocks).sum()
}

/// How the weights of a model are drawn.
#[derive(Clone, Copy)]
struct Drawing {
    init: Init,
    seed: u64,
    /// Residual blocks of the model.
    blocks: usize,
}

/// Where a layer is in the model.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BranchPosition {
    /// It is the last with weights in the branch of a residual block: its result is added to the block's input.
    EndOfBranch,
    Elsewhere,
}

/// How the values of a tensor are chosen.
#[derive(Clone, Copy)]
enum Rule {
    Constant(f32),
    /// Between -bound and bound.
    Uniform(f32),
    /// With mean 0 and this deviation.
    Normal(f32),
}

impl Drawing {
    fn of(model: &LayeredModel, seed: u64) -> Self {
        Self { init: model.init, seed, blocks: residual_blocks(&model.layers) }
    }

    fn fill(self, layer: &PlacedLayer, place: BranchPosition, weights: &mut Vec<f32>) {
        match layer.layer {
            Layer::Linear { .. }
            | Layer::Conv { .. }
            | Layer::TextConv { .. }
            | Layer::Attention { .. }
            | Layer::Embedding { .. } => {
                self.draw(layer, place, weights);
            }
            // At first it only normalises: gamma = 1 and beta = 0, as PyTorch has it.
            Layer::BatchNorm | Layer::LayerNorm => {
                for (parameter, value) in layer.parameters.iter().zip([1.0, 0.0]) {
                    weights.extend(std::iter::repeat_n(value, Parameter::size(parameter)));
                }
            }
            Layer::Residual { .. } => {
                let branch = &layer.paths.branch;
                let last = branch
                    .iter()
                    .rposition(|inner| inner.parameters.iter().any(|parameter| parameter.matrix().is_some()));
                for (number, inner) in branch.iter().enumerate() {
                    let place = if Some(number) == last {
                        BranchPosition::EndOfBranch
                    } else {
                        BranchPosition::Elsewhere
                    };
                    self.fill(inner, place, weights);
                }
                layer
                    .paths
                    .shortcut
                    .iter()
                    .for_each(|inner| self.fill(inner, BranchPosition::Elsewhere, weights));
            }
            Layer::Block { .. }
            | Layer::Branches { .. }
            | Layer::Frozen { .. }
            | Layer::AuxiliaryHead { .. } => {
                layer.paths.layers().for_each(|inner| self.fill(inner, BranchPosition::Elsewhere, weights));
            }
            Layer::MaxPool { .. }
            | Layer::AvgPool { .. }
            | Layer::GlobalAvgPool
            | Layer::GlobalMaxPool
            | Layer::LocalResponseNorm { .. }
            | Layer::Relu
            | Layer::Gelu
            | Layer::TiedHead
            | Layer::Dropout { .. }
            | Layer::Flatten => {}
        }
    }

    fn draw(self, layer: &PlacedLayer, place: BranchPosition, weights: &mut Vec<f32>) {
        let mut draws = stream::keyed(self.seed, &format!("init {}", layer.name), &[]);
        let last = layer.parameters.iter().rposition(|parameter| parameter.matrix().is_some());
        let mut inputs = 1;
        for (number, parameter) in layer.parameters.iter().enumerate() {
            let rule = match (&layer.layer, parameter.matrix()) {
                (Layer::Embedding { .. }, _) => self.of_vector(),
                (_, Some(matrix)) => {
                    inputs = matrix.columns;
                    // The last map of an attention is the one behind its heads.
                    self.of_weight(
                        inputs as f32,
                        if Some(number) == last { place } else { BranchPosition::Elsewhere },
                    )
                }
                // A bias has as many inputs as the weight before it.
                (_, None) => self.of_bias(inputs as f32),
            };
            weights.extend((0..Parameter::size(parameter)).map(|_| match rule {
                Rule::Constant(value) => value,
                Rule::Uniform(bound) => (2.0 * stream::unit(&mut draws) - 1.0) * bound,
                Rule::Normal(deviation) => stream::normal(&mut draws) * deviation,
            }));
        }
    }

    /// The vectors of an embedding. Of PyTorch's default they have deviation 1; the other rules are for maps of many inputs.
    fn of_vector(self) -> Rule {
        match self.init {
            Init::Pytorch | Init::Xavier | Init::Kaiming => Rule::Normal(1.0),
            Init::Gpt2 => Rule::Normal(GPT2_DEVIATION),
        }
    }

    fn of_weight(self, inputs: f32, place: BranchPosition) -> Rule {
        match self.init {
            Init::Pytorch => Rule::Uniform(1.0 / inputs.sqrt()),
            Init::Xavier => Rule::Uniform((3.0 / inputs).sqrt()),
            Init::Kaiming => Rule::Uniform((6.0 / inputs).sqrt()),
            Init::Gpt2 => match place {
                BranchPosition::EndOfBranch => {
                    Rule::Normal(GPT2_DEVIATION / (self.blocks.max(1) as f32).sqrt())
                }
                BranchPosition::Elsewhere => Rule::Normal(GPT2_DEVIATION),
            },
        }
    }

    fn of_bias(self, inputs: f32) -> Rule {
        match self.init {
            Init::Pytorch => Rule::Uniform(1.0 / inputs.sqrt()),
            Init::Xavier | Init::Kaiming | Init::Gpt2 => Rule::Constant(0.0),
        }
    }
}

/// The deviation of GPT-2's code.
const GPT2_DEVIATION: f32 = 0.02;
