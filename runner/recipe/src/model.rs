//! Models as pure data: layers, shapes, parameters and floating-point operations; nothing that computes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The shape of one example at some point of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Shape {
    /// A flat vector.
    Flat(usize),
    /// Channels, rows, columns.
    Image(usize, usize, usize),
}

impl Shape {
    /// Values in one example.
    pub fn size(self) -> usize {
        match self {
            Self::Flat(size) => size,
            Self::Image(channels, rows, columns) => channels * rows * columns,
        }
    }
}

/// A layer, as the recipe describes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Layer {
    /// y = W x + b, with W of `outputs` rows.
    Linear {
        /// Width of the result.
        outputs: usize,
    },
    /// Two-dimensional convolution with bias; square kernel.
    Conv {
        /// Channels of the result.
        outputs: usize,
        /// Side of the kernel.
        kernel: usize,
        /// Step of the kernel.
        stride: usize,
        /// Zeros on each side.
        padding: usize,
    },
    /// Largest value of each square window.
    MaxPool {
        /// Side of the window.
        kernel: usize,
        /// Step of the window.
        stride: usize,
    },
    /// Mean of each square window.
    AvgPool {
        /// Side of the window.
        kernel: usize,
        /// Step of the window.
        stride: usize,
    },
    /// max(x, 0).
    Relu,
    /// Sets each value to zero with probability `rate` while training, and scales the others by 1 / (1 - rate).
    Dropout {
        /// Probability of a zero.
        rate: f32,
    },
    /// An image becomes a flat vector, channel by channel, row by row.
    Flatten,
}

/// A tensor of weights.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Parameter {
    /// `linear1.weight`: layer and role.
    pub name: String,
    /// PyTorch's shape: `[out, in]` or `[out, in, rows, columns]` for weights, `[out]` for a bias.
    pub shape: Vec<usize>,
}

impl Parameter {
    /// Rows and columns, where it is more than a list: each output's weights are a row.
    pub fn matrix(&self) -> Option<(usize, usize)> {
        let (rows, rest) = self.shape.split_first()?;
        (!rest.is_empty()).then(|| (*rows, rest.iter().product()))
    }

    /// Number of weights.
    pub fn size(&self) -> usize {
        self.shape.iter().product()
    }
}

/// A layer in its place: shapes resolved, weights counted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PlacedLayer {
    /// `conv1`, `relu3`: the kind and its position among its kind, from 1.
    pub name: String,
    /// What it does.
    pub layer: Layer,
    /// What goes in.
    pub input: Shape,
    /// What comes out.
    pub output: Shape,
    /// Its weights, in the order in which they lie in the flat vector.
    pub parameters: Vec<Parameter>,
    /// Floating-point operations of one example's forward pass; a multiply-add counts two.
    pub flops: u64,
}

/// A model: layers from the input to the class scores.
///
/// The loss is always the mean cross-entropy of the softmax of the scores.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Model {
    /// The recipe's `kind`: `softmax`, `mnist-mlp`, `lenet`, `cifar-cnn`, `sequential`.
    pub kind: String,
    /// Shape of one example.
    pub input: Shape,
    /// Number of classes, which is the width of the last layer.
    pub classes: usize,
    /// The layers in order.
    pub layers: Vec<PlacedLayer>,
    /// How its initial weights are drawn.
    #[serde(default)]
    pub init: Init,
}

/// How initial weights and biases are drawn, where n is the number of inputs of one output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Init {
    /// The default of PyTorch's `Linear` and `Conv2d`: weights and biases uniform on [-1/sqrt(n), 1/sqrt(n)). It is the
    /// Kaiming uniform of He et al. 2015 (arXiv 1502.01852) with a = sqrt(5): sqrt(6 / ((1 + a^2) n)) = 1/sqrt(n).
    #[default]
    Pytorch,
    /// Caffe's `XavierFiller` with its default, the fan-in: weights uniform on [-sqrt(3/n), sqrt(3/n)), variance 1/n;
    /// biases 0, as a layer of Caffe has them where it names no filler for them.
    Xavier,
    /// For rectifiers (He et al. 2015, equation 10): weights of variance 2/n, here uniform on [-sqrt(6/n), sqrt(6/n));
    /// biases 0.
    Kaiming,
}

impl Model {
    /// Number of weights.
    pub fn parameters(&self) -> usize {
        self.layers.iter().flat_map(|layer| &layer.parameters).map(Parameter::size).sum()
    }

    /// Floating-point operations of one example's forward pass.
    pub fn flops(&self) -> u64 {
        self.layers.iter().map(|layer| layer.flops).sum()
    }
}
