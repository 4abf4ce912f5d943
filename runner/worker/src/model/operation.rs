//! What a layer makes of its operands, in memory of its own: nothing here changes what it is given, so that libtorch may record
//! it, and the input may be used twice.

use super::batch_norm::Normaliser;
use super::tensors::pair;
use recipe::{Layer, PlacedLayer};
use tch::{Kind, TchError, Tensor};

/// The result of a layer. `operands` are its weights, in the order of its parameters.
pub(super) fn result(
    layer: &PlacedLayer,
    operands: &[&Tensor],
    x: &Tensor,
    normaliser: &mut Normaliser<'_>,
) -> Result<Tensor, TchError> {
    match (&layer.layer, operands) {
        (Layer::Linear { .. }, [weight, bias]) => {
            bias.f_addmm(&x.f_flatten(1, -1)?, &weight.f_transpose(0, 1)?)
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
        (Layer::GlobalAvgPool, []) => x.f_mean_dim(&[2_i64, 3][..], false, Kind::Float),
        (Layer::LocalResponseNorm { size, alpha, beta, k }, []) => {
            let scale = Scale { size: *size, alpha: *alpha, beta: *beta, k: *k };
            scale.divide(x)
        }
        (Layer::BatchNorm, [weight, bias]) => normaliser.result(&layer.name, x, weight, bias),
        (Layer::Residual { .. }, operands) => sum(layer, operands, x, normaliser),
        (Layer::Branches { .. }, operands) => {
            let mut operands = Operands { layer, left: operands };
            let rows = layer.paths.rows.iter().map(|row| operands.row(row, x, normaliser));
            Tensor::f_cat(&rows.collect::<Result<Vec<_>, _>>()?, 1)
        }
        (Layer::Relu, []) => x.f_relu(),
        (Layer::Flatten, []) => x.f_flatten(1, -1),
        // Its masks are the learner's; no block has one.
        (Layer::Dropout { .. }, _) => Err(TchError::Shape(format!("{} has no place here", layer.name))),
        (
            Layer::Linear { .. }
            | Layer::Conv { .. }
            | Layer::MaxPool { .. }
            | Layer::AvgPool { .. }
            | Layer::GlobalAvgPool
            | Layer::BatchNorm
            | Layer::LocalResponseNorm { .. }
            | Layer::Relu
            | Layer::Flatten,
            operands,
        ) => Err(TchError::Shape(format!("{} does not take {} operands", layer.name, operands.len()))),
    }
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

/// The operands of a block that its rows have not taken yet.
struct Operands<'a> {
    layer: &'a PlacedLayer,
    left: &'a [&'a Tensor],
}

impl Operands<'_> {
    /// Takes `x` through a row of the block's layers, with the next operands.
    fn row(
        &mut self,
        layers: &[PlacedLayer],
        x: &Tensor,
        normaliser: &mut Normaliser<'_>,
    ) -> Result<Tensor, TchError> {
        let mut y = x.shallow_clone();
        for inner in layers {
            let (own, rest) = self.left.split_at_checked(inner.parameters.len()).ok_or_else(|| {
                TchError::Shape(format!("{} has too few operands for {}", self.layer.name, inner.name))
            })?;
            self.left = rest;
            y = result(inner, own, &y, normaliser)?;
        }
        Ok(y)
    }
}

/// branch(x) + shortcut(x).
fn sum(
    layer: &PlacedLayer,
    operands: &[&Tensor],
    x: &Tensor,
    normaliser: &mut Normaliser<'_>,
) -> Result<Tensor, TchError> {
    let mut operands = Operands { layer, left: operands };
    let branch = operands.row(&layer.paths.branch, x, normaliser)?;
    let shortcut = operands.row(&layer.paths.shortcut, x, normaliser)?;
    branch.f_add(&shortcut)
}
