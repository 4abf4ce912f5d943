//! Layers as pure data: shapes, parameters and floating-point operations; nothing that computes.

use crate::spec::family::family;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The shape of one example at some point of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Shape {
    /// A flat vector of this number of values.
    Flat(usize),
    /// An image: channels, rows, columns.
    Image(usize, usize, usize),
    /// A piece of a text: its length, and the size of the vocabulary that its tokens are numbers of.
    Tokens(usize, usize),
    /// Positions of a text, and the values at each.
    Sequence(usize, usize),
}

impl Shape {
    /// Values in one example.
    pub fn size(self) -> usize {
        match self {
            Self::Flat(size) => size,
            Self::Image(channels, rows, columns) => channels * rows * columns,
            Self::Tokens(length, _) => length,
            Self::Sequence(length, width) => length * width,
        }
    }

    /// As a noun with its article, for sentences about layers: `an image of 3 x 32 x 32`.
    pub(crate) fn words(self) -> String {
        match self {
            Self::Flat(size) => format!("a flat vector of {size}"),
            Self::Image(channels, rows, columns) => format!("an image of {channels} x {rows} x {columns}"),
            Self::Tokens(length, vocabulary) => format!("{length} tokens of a vocabulary of {vocabulary}"),
            Self::Sequence(length, width) => format!("{length} positions of {width} values"),
        }
    }
}

/// `1x28x28`, or `784` for a flat vector; `64 of 256` for 64 tokens of a vocabulary of 256, `64x128` for 64 positions of a text.
impl fmt::Display for Shape {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flat(size) => write!(out, "{size}"),
            Self::Image(channels, rows, columns) => write!(out, "{channels}x{rows}x{columns}"),
            Self::Tokens(length, vocabulary) => write!(out, "{length} of {vocabulary}"),
            Self::Sequence(length, width) => write!(out, "{length}x{width}"),
        }
    }
}

impl FromStr for Shape {
    type Err = NoShape;

    fn from_str(text: &str) -> Result<Self, NoShape> {
        let sides: Result<Vec<usize>, _> = text.split('x').map(str::parse).collect();
        match sides.as_deref() {
            Ok([size]) => Ok(Self::Flat(*size)),
            Ok([channels, rows, columns]) => Ok(Self::Image(*channels, *rows, *columns)),
            _ => Err(NoShape(text.to_owned())),
        }
    }
}

/// A text that is no shape of an example.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no shape; write channels, rows and columns as in `1x28x28`, or the length of a flat vector"
)]
pub struct NoShape(pub String);

family! {
    /// The layers that a sequential model can have.
    pub enum LayerKind {
        Linear = "linear": "y = W x + b, on a flat vector, or at each position of a text.",
        Conv = "conv": "Convolution with a square kernel, and a bias unless `bias = false`, on an image; with `groups` each \
            group of channels by itself.",
        MaxPool = "max-pool": "The largest value of each square window.",
        AvgPool = "avg-pool": "The mean of each square window.",
        GlobalAvgPool = "global-avg-pool": "The mean of each channel: an image becomes a flat vector of its channels.",
        GlobalMaxPool = "global-max-pool": "The largest value of each channel of an image, or of each value over all positions of a text: \
            a flat vector comes out.",
        BatchNorm = "batch-norm": "Each channel of an image, or value of a flat vector, minus its mean, divided by \
            sqrt(variance + 1e-5), times a weight that begins at 1, plus a bias that begins at 0. Training takes mean \
            and variance from the samples that the worker computes at once (its share of the batch, or a piece of it \
            with `train.accumulate`), so that several workers do not equal one process; of a single value, the bias \
            comes out. Evaluation takes them from up to 2,048 training samples, the same for all models of a data set, \
            for the weights that are evaluated: nothing of them travels or is stored.",
        LocalResponseNorm = "local-response-norm": "AlexNet's: each value of an image divided by (k + alpha / size * \
            s)^beta, s being the sum of the squares of the `size` channels around it at its place, fewer at the ends. \
            PyTorch and Caffe divide alpha by the size; the paper does not.",
        Residual = "residual": "branch(x) + shortcut(x): two rows of layers over the same input, added; without a \
            `shortcut`, x itself is added. One layer for schedules and exchanges: its gradient is complete at once.",
        Branches = "branches": "Rows of layers over the same input, whose channels are put one behind the other: an inception \
            module; or whose flat vectors are. One layer for schedules and exchanges, as `residual` is.",
        Relu = "relu": "max(x, 0).",
        Embedding = "embedding": "A vector of `width` values for each token of a text, plus one for its position unless `positions = false`; \
            both are learned. The first layer of a model for texts.",
        TextConv = "text-conv": "Convolution along the positions of a text, with a bias: each result is a sum over `kernel` neighbouring \
            positions.",
        LayerNorm = "layer-norm": "The values at each position of a text, or those of a flat vector, minus their mean, divided by \
            sqrt(variance + 1e-5), times weights that begin at 1, plus biases that begin at 0.",
        Attention = "attention": "Causal self-attention: each position of a text takes a weighted mean of the values at the \
            positions up to its own, in `heads` parts of its width at once.",
        Gelu = "gelu": "x times the probability that a standard normal variable is below x.",
        Block = "block": "The layers that `layers` lists, one behind the other, as one layer for schedules and exchanges: its \
            gradient is complete at once.",
        Frozen = "frozen": "The layers that `layers` lists, whose weights stay as they were drawn: they are neither trained nor \
            exchanged, and belong to the layer before them, as layers without weights do.",
        AuxiliaryHead = "auxiliary-head": "A classifier of the layers that `layers` lists, over what comes in, which is passed on \
            as it is. Its cross-entropy times `weight` is part of the loss while training; evaluation leaves it out.",
        TiedHead = "tied-head": "Scores of the next token at each position of a text: the products with the vectors that the \
            embedding has for the tokens. It has no weights of its own. Without a bias.",
        Dropout = "dropout": "Sets values to zero at random while training.",
        Flatten = "flatten": "An image becomes a flat vector.",
    }
}

/// A layer, as the recipe describes it. A field newer than stored recipes is left out where it changes nothing, so
/// that these keep their identity.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Layer {
    /// y = W x + b, with W of `outputs` rows.
    Linear {
        /// Width of the result.
        outputs: usize,
    },
    /// Two-dimensional convolution; square kernel.
    Conv {
        /// Channels of the result.
        outputs: usize,
        /// Side of the kernel.
        kernel: usize,
        /// Step of the kernel.
        stride: usize,
        /// Zeros on each side.
        padding: usize,
        /// Whether each channel has a bias.
        #[serde(default = "biased", skip_serializing_if = "is_biased")]
        bias: bool,
        /// Groups of channels, each of which sees its own part of the input's channels only; it divides both numbers of channels.
        #[serde(default = "one", skip_serializing_if = "is_one")]
        groups: usize,
    },
    /// Largest value of each square window.
    MaxPool {
        /// Side of the window.
        kernel: usize,
        /// Step of the window.
        stride: usize,
        /// Rows and columns added on each side, with values that are never the largest; at most half of the window.
        #[serde(default, skip_serializing_if = "is_zero")]
        padding: usize,
        /// Whether a last window reaches over the end where the stride leaves a remainder; it begins inside of the image.
        #[serde(default, skip_serializing_if = "is_down")]
        ceil: bool,
    },
    /// Mean of each square window, over what the image is widened by as well, and not over what lies beyond that.
    AvgPool {
        /// Side of the window.
        kernel: usize,
        /// Step of the window.
        stride: usize,
        /// Zeros on each side; at most half of the window.
        #[serde(default, skip_serializing_if = "is_zero")]
        padding: usize,
        /// As of a `max-pool`.
        #[serde(default, skip_serializing_if = "is_down")]
        ceil: bool,
    },
    /// Mean of each channel.
    GlobalAvgPool,
    /// The largest value of each channel, or of each value over all positions; of several the first.
    GlobalMaxPool,
    /// Batch normalisation (Ioffe and Szegedy, 2015, arXiv 1502.03167, algorithm 1) of each channel, or of each value of a flat
    /// vector: gamma (x - mean) / sqrt(variance + 1e-5) + beta, with the variance of the population.
    BatchNorm,
    /// Local response normalisation (Krizhevsky et al., 2012, section 3.3) in PyTorch's form: x_c / (k + alpha / size * sum of
    /// x_i^2)^beta, i from c - size / 2 to c + (size - 1) / 2, both rounded down. The paper has alpha in the place of alpha / size.
    LocalResponseNorm {
        /// Channels that are summed over.
        size: usize,
        /// Factor of the mean of their squares.
        alpha: f32,
        /// Exponent of the divisor.
        beta: f32,
        /// The constant that is added to the sum.
        k: f32,
    },
    /// branch(x) + shortcut(x) (He et al., 2016, arXiv 1512.03385, equations 1 and 2).
    Residual {
        /// The layers of F, at least one; no other block.
        branch: Vec<Layer>,
        /// The layers of the projection W_s; none for the identity.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        shortcut: Vec<Layer>,
    },
    /// The channels, or the flat vectors, of several rows one behind the other (Szegedy et al., 2015, arXiv 1409.4842, figure 2).
    Branches {
        /// The layers of each row, at least one row; an empty one passes the input on. No dropout and no block in them.
        branches: Vec<Vec<Layer>>,
    },
    /// The larger of each value and zero.
    Relu,
    /// A vector for each token, plus one for its position: E\[token\] + P\[position\].
    Embedding {
        /// Values at each position.
        width: usize,
        /// Whether vectors of positions are added.
        #[serde(default = "positioned", skip_serializing_if = "is_positioned")]
        positions: bool,
    },
    /// Convolution along the positions of a text, over all values at each.
    TextConv {
        /// Values at each position of the result.
        outputs: usize,
        /// Positions that are summed over.
        kernel: usize,
        /// Step of the kernel.
        stride: usize,
        /// Positions of zeros at each end.
        padding: usize,
    },
    /// Layer normalisation (Ba et al., 2016, arXiv 1607.06450, equation 3) over the last dimension: gamma (x - mean) /
    /// sqrt(variance + 1e-5) + beta, with the variance of the population.
    LayerNorm,
    /// Causal multi-head self-attention (Vaswani et al., 2017, arXiv 1706.03762, section 3.2): softmax(Q K^T / sqrt(d)) V in each
    /// head of d = width / heads values, over the positions up to each one's own, between two linear maps with biases.
    Attention {
        /// Parts of the width that attend by themselves.
        heads: usize,
    },
    /// x Phi(x) (Hendrycks and Gimpel, 2016, arXiv 1606.08415), by the error function, as PyTorch's default has it.
    Gelu,
    /// Several layers that count as one.
    Block {
        /// The layers, at least one; residual blocks may be among them.
        layers: Vec<Layer>,
    },
    /// Several layers that are not trained.
    Frozen {
        /// The layers, at least one with weights; residual blocks may be among them.
        layers: Vec<Layer>,
    },
    /// A second classifier of what lies in the middle of a model (Szegedy et al., 2015, arXiv 1409.4842, section 5).
    AuxiliaryHead {
        /// The layers, from what comes in to a score for each class.
        layers: Vec<Layer>,
        /// Factor of its cross-entropy in the loss.
        weight: f32,
    },
    /// E x: the scores of the tokens, by the embedding's own matrix (Press and Wolf, 2017, arXiv 1608.05859).
    TiedHead,
    /// Sets each value to zero with probability `rate` while training, and scales the others by 1 / (1 - rate).
    Dropout {
        /// Probability of a zero.
        rate: f32,
    },
    /// An image becomes a flat vector, channel by channel, row by row.
    Flatten,
}

fn biased() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_biased(bias: &bool) -> bool {
    *bias
}

fn positioned() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_positioned(positions: &bool) -> bool {
    *positions
}

fn one() -> usize {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_one(groups: &usize) -> bool {
    *groups == 1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_down(ceil: &bool) -> bool {
    !*ceil
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(padding: &usize) -> bool {
    *padding == 0
}

impl Layer {
    /// Kind of the layer, without its settings.
    pub fn kind(&self) -> LayerKind {
        match self {
            Self::Linear { .. } => LayerKind::Linear,
            Self::Conv { .. } => LayerKind::Conv,
            Self::MaxPool { .. } => LayerKind::MaxPool,
            Self::AvgPool { .. } => LayerKind::AvgPool,
            Self::GlobalAvgPool => LayerKind::GlobalAvgPool,
            Self::GlobalMaxPool => LayerKind::GlobalMaxPool,
            Self::BatchNorm => LayerKind::BatchNorm,
            Self::LocalResponseNorm { .. } => LayerKind::LocalResponseNorm,
            Self::Residual { .. } => LayerKind::Residual,
            Self::Branches { .. } => LayerKind::Branches,
            Self::Relu => LayerKind::Relu,
            Self::Embedding { .. } => LayerKind::Embedding,
            Self::TextConv { .. } => LayerKind::TextConv,
            Self::LayerNorm => LayerKind::LayerNorm,
            Self::Attention { .. } => LayerKind::Attention,
            Self::Gelu => LayerKind::Gelu,
            Self::Block { .. } => LayerKind::Block,
            Self::Frozen { .. } => LayerKind::Frozen,
            Self::AuxiliaryHead { .. } => LayerKind::AuxiliaryHead,
            Self::TiedHead => LayerKind::TiedHead,
            Self::Dropout { .. } => LayerKind::Dropout,
            Self::Flatten => LayerKind::Flatten,
        }
    }
}
