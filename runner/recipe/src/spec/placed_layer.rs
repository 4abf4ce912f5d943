//! A layer in its place: shapes, parameters, operations, and the ways through a block.

use crate::spec::layer::{Layer, Shape};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// No model has more weights than this: positions and numbers of elements travel as 32 bits.
pub(crate) const MOST_WEIGHTS: u64 = (1 << 32) - 1;

/// A tensor of weights.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Parameter {
    /// `linear1.weight`: layer and role; in a block `residual1.conv1.weight` or `residual1.shortcut.conv1.weight`.
    pub name: String,
    /// PyTorch's shape: `[out, in]` or `[out, in, rows, columns]` for weights, `[out]` for a bias and for both of a batch norm.
    pub shape: Vec<usize>,
}

impl Parameter {
    /// The tensor as a matrix, where it is more than a list: each output's weights are a row.
    pub fn matrix(&self) -> Option<MatrixShape> {
        let (rows, rest) = self.shape.split_first()?;
        (!rest.is_empty()).then(|| MatrixShape { rows: *rows, columns: rest.iter().product() })
    }

    /// Number of weights in the tensor.
    pub fn size(&self) -> usize {
        self.shape.iter().product()
    }
}

/// A tensor as a matrix, a row for each output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatrixShape {
    /// One for each output.
    pub rows: usize,
    /// Weights of one output.
    pub columns: usize,
}

/// A layer in its place: shapes resolved, weights counted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PlacedLayer {
    /// `conv1`, `relu3`: the kind and its position among its kind, from 1; in a block after the block's name and a dot.
    pub name: String,
    /// The layer as it is described, without its place.
    pub layer: Layer,
    /// Shape of one example that comes in.
    pub input: Shape,
    /// Shape of one example that comes out.
    pub output: Shape,
    /// Its weights, in the order in which they lie in the flat vector.
    pub parameters: Vec<Parameter>,
    /// Floating-point operations of one example's forward pass; a multiply-add counts two.
    pub flops: u64,
    /// Of a residual block or branches their layers in their places; of a plain block, of frozen layers and of an auxiliary head their
    /// layers as the branch; of every other layer nothing.
    #[serde(default, skip_serializing_if = "Paths::is_empty")]
    pub paths: Paths,
}

impl PlacedLayer {
    /// Whether its result depends on the other examples of the batch: batch norm, or a block of any kind with it.
    pub fn looks_across_batch(&self) -> bool {
        self.normalised_values().is_some()
    }

    /// Of batch norm, or of a block with it, the least number of an example's values that a mean is over; `None` without it.
    pub(crate) fn normalised_values(&self) -> Option<u64> {
        match self.layer {
            Layer::BatchNorm => Some(match self.input {
                Shape::Image(_, rows, columns) => rows as u64 * columns as u64,
                Shape::Flat(_) | Shape::Tokens(..) | Shape::Sequence(..) => 1,
            }),
            Layer::Residual { .. }
            | Layer::Branches { .. }
            | Layer::Block { .. }
            | Layer::Frozen { .. }
            | Layer::AuxiliaryHead { .. } => self.paths.layers().filter_map(Self::normalised_values).min(),
            Layer::Linear { .. }
            | Layer::Conv { .. }
            | Layer::MaxPool { .. }
            | Layer::AvgPool { .. }
            | Layer::GlobalAvgPool
            | Layer::GlobalMaxPool
            | Layer::LocalResponseNorm { .. }
            | Layer::Relu
            | Layer::Embedding { .. }
            | Layer::TextConv { .. }
            | Layer::LayerNorm
            | Layer::Attention { .. }
            | Layer::Gelu
            | Layer::TiedHead
            | Layer::Dropout { .. }
            | Layer::Flatten => None,
        }
    }

    /// The tensors that it computes with: its weights, or those of frozen layers.
    pub fn operands(&self) -> Vec<&Parameter> {
        match self.layer {
            Layer::Frozen { .. } => self.paths.layers().flat_map(|inner| &inner.parameters).collect(),
            Layer::Linear { .. }
            | Layer::Conv { .. }
            | Layer::MaxPool { .. }
            | Layer::AvgPool { .. }
            | Layer::GlobalAvgPool
            | Layer::GlobalMaxPool
            | Layer::BatchNorm
            | Layer::LocalResponseNorm { .. }
            | Layer::Residual { .. }
            | Layer::Branches { .. }
            | Layer::Block { .. }
            | Layer::AuxiliaryHead { .. }
            | Layer::Relu
            | Layer::Embedding { .. }
            | Layer::TextConv { .. }
            | Layer::LayerNorm
            | Layer::Attention { .. }
            | Layer::Gelu
            | Layer::TiedHead
            | Layer::Dropout { .. }
            | Layer::Flatten => self.parameters.iter().collect(),
        }
    }

    /// Its weights that are not trained.
    pub fn frozen_parameters(&self) -> Vec<&Parameter> {
        if let Layer::Frozen { .. } = self.layer { self.operands() } else { Vec::new() }
    }

    /// Values of one example in the largest result inside of it.
    pub fn largest_result(&self) -> usize {
        self.paths.layers().map(Self::largest_result).fold(self.output.size(), usize::max)
    }

    /// Values of one example that a forward pass keeps for the backward pass. `passes_gradient` says whether there are weights below:
    /// where not, nothing inside of frozen layers is kept.
    pub fn activations(&self, passes_gradient: bool) -> usize {
        let drops = matches!(self.layer, Layer::Frozen { .. }) && !passes_gradient;
        if drops { self.output.size() } else { self.activations_of_gradient() }
    }

    /// The same where the gradient passes it on its way down.
    fn activations_of_gradient(&self) -> usize {
        let inside: usize = self.paths.layers().map(Self::activations_of_gradient).sum();
        // Queries, keys, values and what the heads took of them, and a sum for each head of each position.
        let attended = match (&self.layer, self.input) {
            (Layer::Attention { heads }, Shape::Sequence(length, width)) => length * (4 * width + heads),
            (_, _) => 0,
        };
        self.output.size() + inside + attended
    }
}

/// The ways through a block. A residual block's parameters are those of the branch, then those of the shortcut; others' are those
/// of their rows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Paths {
    /// From the block's input to the values that the shortcut is added to.
    pub branch: Vec<PlacedLayer>,
    /// From the block's input to the values added; empty where these are the input itself.
    pub shortcut: Vec<PlacedLayer>,
    /// Of a block whose results are put one behind the other: its rows; both of the others are empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rows: Vec<Vec<PlacedLayer>>,
}

impl Paths {
    /// The layers in the order of their parameters.
    pub fn layers(&self) -> impl Iterator<Item = &PlacedLayer> {
        self.branch.iter().chain(&self.shortcut).chain(self.rows.iter().flatten())
    }

    fn is_empty(&self) -> bool {
        self.branch.is_empty() && self.shortcut.is_empty() && self.rows.is_empty()
    }
}
