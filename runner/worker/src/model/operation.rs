//! Results of layers: nothing here changes its operands or its input, so that libtorch may record it, and the input may
//! be used twice.

use super::batch_norm::Normaliser;
use super::dropout::Masks;
use super::tensors::{dimensions, pair};
use recipe::{Layer, PlacedLayer, Shape};
use tch::{Kind, TchError, Tensor};

/// PyTorch's name of the formula with the error function.
pub(super) const EXACT_GELU: &str = "none";
/// Added to a variance before its root is taken; PyTorch's default.
const EPSILON: f64 = 1e-5;

/// The matrix that a linear layer multiplies: a row for each example of a batch, or for each position of all its texts.
/// An image counts as the vector of its values.
pub(super) fn rows(layer: &PlacedLayer, x: &Tensor) -> Result<Tensor, TchError> {
    match layer.input {
        Shape::Sequence(_, width) => x.f_reshape([-1, width as i64]),
        Shape::Flat(_) | Shape::Image(..) | Shape::Tokens(..) => x.f_flatten(1, -1),
    }
}

/// State that layers depend on besides their operands and their input.
pub(super) struct Surroundings<'a, 'b> {
    /// Where batch norm takes mean and variance from.
    pub(super) normaliser: &'a mut Normaliser<'b>,
    /// Masks of the dropout layers that follow.
    pub(super) masks: Masks,
}

/// The result of a layer. `operands` are its weights, in the order of its parameters.
pub(super) fn result(
    layer: &PlacedLayer,
    operands: &[&Tensor],
    x: &Tensor,
    around: &mut Surroundings<'_, '_>,
) -> Result<Tensor, TchError> {
    match (&layer.layer, operands) {
        (Layer::Linear { .. }, [weight, bias]) => {
            linear(&rows(layer, x)?, weight, bias)?.f_reshape(dimensions(x.size()[0], layer.output))
        }
        (Layer::Conv { kernel: 1, stride, padding: 0, groups, .. }, [weight, bias @ ..]) if *stride > 1 => {
            let x = on_grid(x, *stride)?;
            x.f_conv2d(weight, bias.first().copied(), [1, 1], [0, 0], [1, 1], *groups as i64)
        }
        (Layer::Conv { stride, padding, groups, .. }, [weight, bias @ ..]) => {
            x.f_conv2d(weight, bias.first().copied(), pair(*stride), pair(*padding), [1, 1], *groups as i64)
        }
        (Layer::MaxPool { kernel, stride, padding, ceil }, []) => {
            x.f_max_pool2d(pair(*kernel), pair(*stride), pair(*padding), [1, 1], *ceil)
        }
        (Layer::AvgPool { kernel, stride, padding, ceil }, []) => {
            x.f_avg_pool2d(pair(*kernel), pair(*stride), pair(*padding), *ceil, true, None)
        }
        (Layer::GlobalMaxPool, []) => largest(layer, x).map(|(values, _)| values),
        (Layer::TextConv { stride, padding, .. }, [weight, bias]) => {
            along(x, [weight, bias], [*stride, *padding])
        }
        (Layer::GlobalAvgPool, []) => x.f_mean_dim(&[2_i64, 3][..], false, Kind::Float),
        (Layer::LocalResponseNorm { size, alpha, beta, k }, []) => {
            let scale = Scale { size: *size, alpha: *alpha, beta: *beta, k: *k };
            scale.divide(x)
        }
        (Layer::BatchNorm, [weight, bias]) => around.normaliser.result(&layer.name, x, weight, bias),
        (Layer::Residual { .. }, operands) => sum(layer, operands, x, around),
        (Layer::Branches { .. }, operands) => {
            let mut left = operands;
            let rows = layer.paths.rows.iter().map(|row| through(row, &mut left, x, around));
            Tensor::f_cat(&rows.collect::<Result<Vec<_>, _>>()?, 1)
        }
        (Layer::Block { .. } | Layer::Frozen { .. } | Layer::AuxiliaryHead { .. }, operands) => {
            let mut left = operands;
            through(&layer.paths.branch, &mut left, x, around)
        }
        (Layer::Dropout { .. }, []) => around.masks.result(&layer.name, x),
        (Layer::LayerNorm, [weight, bias]) => {
            x.f_layer_norm(weight.size(), Some(*weight), Some(*bias), EPSILON, CUDNN)
        }
        (Layer::Attention { heads }, [inward, inward_bias, outward, outward_bias]) => {
            let taken = attend(&linear(&rows(layer, x)?, inward, inward_bias)?, x, *heads)?;
            linear(&taken, outward, outward_bias)?.f_reshape(x.size())
        }
        (Layer::Gelu, []) => x.f_gelu(EXACT_GELU),
        (Layer::Relu, []) => x.f_relu(),
        (Layer::Flatten, []) => x.f_flatten(1, -1),
        // Shared matrices are the learner's; no block has any.
        (Layer::Embedding { .. } | Layer::TiedHead, _) => {
            Err(TchError::Shape(format!("{} has no place here", layer.name)))
        }
        (
            Layer::Linear { .. }
            | Layer::Conv { .. }
            | Layer::MaxPool { .. }
            | Layer::AvgPool { .. }
            | Layer::GlobalAvgPool
            | Layer::GlobalMaxPool
            | Layer::TextConv { .. }
            | Layer::BatchNorm
            | Layer::LocalResponseNorm { .. }
            | Layer::LayerNorm
            | Layer::Attention { .. }
            | Layer::Gelu
            | Layer::Relu
            | Layer::Dropout { .. }
            | Layer::Flatten,
            operands,
        ) => Err(TchError::Shape(format!("{} does not take {} operands", layer.name, operands.len()))),
    }
}

/// The pixels that a convolution of one pixel reads, without a copy. oneDNN makes such a copy itself, and its gradient of the weights
/// overruns it if channels are last and fewer than its block: wrong numbers, or no end (oneDNN issue 6035; seen in 3.10.2).
fn on_grid(x: &Tensor, stride: usize) -> Result<Tensor, TchError> {
    let stride = stride as i64;
    x.f_slice(2, None, None, stride)?.f_slice(3, None, None, stride)
}

/// The largest value of each channel, or of each value over all positions, and where it is; of several the first.
pub(super) fn largest(layer: &PlacedLayer, x: &Tensor) -> Result<(Tensor, Tensor), TchError> {
    match layer.input {
        Shape::Sequence(..) => x.f_max_dim(1, false),
        Shape::Image(..) | Shape::Flat(_) | Shape::Tokens(..) => x.f_flatten(2, -1)?.f_max_dim(2, false),
    }
}

/// A convolution along the positions `[rows, positions, values]`; libtorch has the values before the positions.
fn along(
    x: &Tensor,
    [weight, bias]: [&Tensor; 2],
    [stride, padding]: [usize; 2],
) -> Result<Tensor, TchError> {
    let stride = stride as i64;
    let padding = padding as i64;
    let y = x.f_transpose(1, 2)?.f_conv1d(weight, Some(bias), [stride], [padding], [1], 1)?;
    y.f_transpose(1, 2)?.f_contiguous()
}

/// The settings of a local response norm.
struct Scale {
    size: usize,
    alpha: f32,
    beta: f32,
    k: f32,
}

impl Scale {
    /// x / (k + alpha / size * sum of squares)^beta, as of [`Layer::LocalResponseNorm`].
    fn divide(&self, x: &Tensor) -> Result<Tensor, TchError> {
        let channels = x.size()[1];
        let before = self.size as i64 / 2;
        let after = (self.size as i64 - 1) / 2;
        let padded = x.f_square()?.f_constant_pad_nd([0, 0, 0, 0, before, after])?;
        let mut sum = padded.f_narrow(1, 0, channels)?;
        for first in 1..self.size as i64 {
            sum = sum.f_add(&padded.f_narrow(1, first, channels)?)?;
        }
        let factor = f64::from(self.alpha) / self.size as f64;
        let divisor = sum.f_mul_scalar(factor)?.f_add_scalar(f64::from(self.k))?;
        x.f_div(&divisor.f_pow_tensor_scalar(f64::from(self.beta))?)
    }
}

/// The result of a residual layer: branch(x) + shortcut(x).
fn sum(
    layer: &PlacedLayer,
    operands: &[&Tensor],
    x: &Tensor,
    around: &mut Surroundings<'_, '_>,
) -> Result<Tensor, TchError> {
    let mut left = operands;
    let branch = through(&layer.paths.branch, &mut left, x, around)?;
    let shortcut = through(&layer.paths.shortcut, &mut left, x, around)?;
    branch.f_add(&shortcut)
}

/// Takes `x` through layers one behind the other; they take their operands from the front of `left`.
fn through(
    layers: &[PlacedLayer],
    left: &mut &[&Tensor],
    x: &Tensor,
    around: &mut Surroundings<'_, '_>,
) -> Result<Tensor, TchError> {
    let mut y = x.shallow_clone();
    let mut before: Option<&Layer> = None;
    for inner in layers {
        let (own, rest) = left.split_at_checked(inner.parameters.len()).ok_or_else(|| {
            TchError::Shape(format!("{} operands are too few for {}", left.len(), inner.name))
        })?;
        *left = rest;
        let in_place = inner.layer == Layer::Relu && before.is_some_and(may_be_overwritten);
        y = if in_place { y.f_relu_()? } else { result(inner, own, &y, around)? };
        before = Some(&inner.layer);
    }
    Ok(y)
}

/// Whether a layer's result is memory of its own that its backward pass does not look at.
fn may_be_overwritten(layer: &Layer) -> bool {
    match layer {
        Layer::Conv { .. } | Layer::BatchNorm | Layer::Residual { .. } => true,
        Layer::Linear { .. }
        | Layer::MaxPool { .. }
        | Layer::AvgPool { .. }
        | Layer::GlobalAvgPool
        | Layer::GlobalMaxPool
        | Layer::TextConv { .. }
        | Layer::LocalResponseNorm { .. }
        | Layer::Branches { .. }
        | Layer::Block { .. }
        | Layer::Frozen { .. }
        | Layer::AuxiliaryHead { .. }
        | Layer::Embedding { .. }
        | Layer::TiedHead
        | Layer::LayerNorm
        | Layer::Attention { .. }
        | Layer::Gelu
        | Layer::Relu
        | Layer::Dropout { .. }
        | Layer::Flatten => false,
    }
}

fn linear(rows: &Tensor, weight: &Tensor, bias: &Tensor) -> Result<Tensor, TchError> {
    bias.f_addmm(rows, &weight.f_transpose(0, 1)?)
}

/// Causal attention: of rows with queries, keys and values of all heads, one behind the other, what each position of `x` takes.
fn attend(mixed: &Tensor, x: &Tensor, heads: usize) -> Result<Tensor, TchError> {
    let [examples, length, width] = x.size()[..] else {
        return Err(TchError::Shape(format!("attention takes positions of texts, not {:?}", x.size())));
    };
    let heads = heads.max(1) as i64;
    let mixed = mixed.f_reshape([examples, length, 3, heads, width / heads])?.f_permute([2, 0, 3, 1, 4])?;
    let part = |number: i64| mixed.f_select(0, number);
    let taken = Tensor::f_scaled_dot_product_attention::<Tensor>(
        &part(0)?,
        &part(1)?,
        &part(2)?,
        None,
        NO_DROPOUT,
        CAUSAL,
        None,
        GROUPED,
    )?;
    taken.f_transpose(1, 2)?.f_reshape([-1, width])
}

const NO_DROPOUT: f64 = 0.0;
/// No position takes of a later one.
const CAUSAL: bool = true;
/// Each query has keys of its own.
const GROUPED: bool = false;
/// Whether the library of a GPU is asked.
const CUDNN: bool = false;
