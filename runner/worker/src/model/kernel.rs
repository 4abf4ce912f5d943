//! Forward and backward pass of each kind of layer, straight on libtorch's kernels.
//!
//! The gradients of weights are written into the caller's flat memory by the kernel that computes them; those of a
//! convolution are copied there.

use super::flat::{View, ViewMut};
use recipe::{Layer, PlacedLayer, Shape};
use tch::{Kind, TchError, Tensor};

/// What the backward pass of a layer needs to know about its forward pass.
pub(super) enum Saved {
    Nothing,
    /// What went in.
    Input(Tensor),
    /// What came out.
    Output(Tensor),
    /// What went in, and which of it each window chose.
    Chosen {
        /// What went in.
        input: Tensor,
        /// For each window the place of its largest value.
        places: Tensor,
    },
    /// What each value was multiplied by.
    Factor(Tensor),
    /// A convolution whose operands are leaves of an automatic differentiation, and its result.
    Recorded {
        /// What went in.
        input: Tensor,
        /// A copy of the weight.
        weight: Tensor,
        /// A copy of the bias.
        bias: Tensor,
        /// What came out.
        result: Tensor,
    },
}

/// The tensor shape of `rows` examples.
pub(super) fn dimensions(rows: i64, shape: Shape) -> Vec<i64> {
    match shape {
        Shape::Flat(size) => vec![rows, size as i64],
        Shape::Image(channels, height, width) => vec![rows, channels as i64, height as i64, width as i64],
    }
}

/// The layer's weights and biases as tensors over the layer's span.
fn parameters<'a>(layer: &PlacedLayer, weights: &'a [f32]) -> Result<(View<'a>, View<'a>), TchError> {
    let (weight, bias) = shapes(layer)?;
    let (first, second) = split(layer, weights.len(), &weight)?;
    Ok((View::new(&weights[..first], &weight)?, View::new(&weights[first..second], &bias)?))
}

fn shapes(layer: &PlacedLayer) -> Result<(Vec<i64>, Vec<i64>), TchError> {
    let [weight, bias] = layer.parameters.as_slice() else {
        return Err(TchError::Shape(format!("{} must have weight and bias", layer.name)));
    };
    let sides = |shape: &[usize]| shape.iter().map(|side| *side as i64).collect();
    Ok((sides(&weight.shape), sides(&bias.shape)))
}

fn split(layer: &PlacedLayer, len: usize, weight: &[i64]) -> Result<(usize, usize), TchError> {
    let first = weight.iter().product::<i64>() as usize;
    if first > len {
        return Err(TchError::Shape(format!("{}: {len} weights are too few", layer.name)));
    }
    Ok((first, len))
}

/// Takes `x` through a layer. `factor` is the mask of a dropout layer; without one it changes nothing.
pub(super) fn forward(
    layer: &PlacedLayer,
    weights: &[f32],
    mut x: Tensor,
    factor: Option<Tensor>,
) -> Result<(Tensor, Saved), TchError> {
    match layer.layer {
        Layer::Linear { .. } => {
            let (weight, bias) = parameters(layer, weights)?;
            // An image before a linear layer counts as the vector of its values.
            let x = x.f_flatten(1, -1)?;
            let y = bias.f_addmm(&x, &weight.f_transpose(0, 1)?)?;
            Ok((y, Saved::Input(x)))
        }
        Layer::Conv { stride, padding, .. } => {
            let (weight, bias) = parameters(layer, weights)?;
            recorded(&x, &weight, &bias, stride, padding)
        }
        Layer::MaxPool { kernel, stride } => {
            let (y, places) =
                x.f_max_pool2d_with_indices(pair(kernel), pair(stride), [0, 0], [1, 1], false)?;
            Ok((y, Saved::Chosen { input: x, places }))
        }
        Layer::AvgPool { kernel, stride } => {
            let y = x.f_avg_pool2d(pair(kernel), pair(stride), [0, 0], false, true, None)?;
            Ok((y, Saved::Input(x)))
        }
        Layer::Relu => {
            // In place: a layer that saved this tensor saved it as the result of another `relu`, which a
            // second one does not change.
            let y = x.f_relu_()?;
            Ok((y, Saved::Output(x)))
        }
        Layer::Dropout { .. } => match factor {
            Some(factor) => Ok((x.f_mul(&factor)?, Saved::Factor(factor))),
            None => Ok((x, Saved::Nothing)),
        },
        Layer::Flatten => Ok((x.f_flatten(1, -1)?, Saved::Nothing)),
    }
}

/// What comes to a layer in the backward pass, and where its results go.
pub(super) struct Down<'a> {
    /// The gradient of the loss with respect to the layer's result.
    pub(super) gy: &'a Tensor,
    /// The layer's weights.
    pub(super) weights: &'a [f32],
    /// What the gradient of these weights is written over.
    pub(super) gradient: &'a mut [f32],
    /// Whether the gradient with respect to the layer's input is needed below.
    pub(super) wants_input: bool,
}

/// Takes a gradient back through a layer, to its weights and to its input; of the latter nothing where
/// it is not needed.
pub(super) fn backward(
    layer: &PlacedLayer,
    saved: Saved,
    down: Down<'_>,
) -> Result<Option<Tensor>, TchError> {
    let gy = down.gy;
    match (layer.layer.clone(), saved) {
        (Layer::Linear { .. }, Saved::Input(x)) => linear(layer, &x, down),
        (Layer::Conv { .. }, Saved::Recorded { input, weight, bias, result }) => convolution(
            layer,
            Recorded { input: &input, weight: &weight, bias: &bias, result: &result },
            down,
        ),
        _ if !down.wants_input => Ok(None),
        (Layer::MaxPool { kernel, stride }, Saved::Chosen { input, places }) => input
            .f_max_pool2d_with_indices_backward(
                gy,
                pair(kernel),
                pair(stride),
                [0, 0],
                [1, 1],
                false,
                &places,
            )
            .map(Some),
        (Layer::AvgPool { kernel, stride }, Saved::Input(x)) => {
            x.f_avg_pool2d_backward(gy, pair(kernel), pair(stride), [0, 0], false, true, None).map(Some)
        }
        (Layer::Relu, Saved::Output(y)) => y.f_threshold_backward(gy, 0.0).map(Some),
        (Layer::Dropout { .. }, Saved::Factor(factor)) => gy.f_mul(&factor).map(Some),
        (Layer::Dropout { .. }, Saved::Nothing) => Ok(Some(gy.shallow_clone())),
        (Layer::Flatten, Saved::Nothing) => gy.f_reshape(dimensions(gy.size()[0], layer.input)).map(Some),
        _ => Err(TchError::Shape(format!("{} saved something else in its forward pass", layer.name))),
    }
}

fn linear(layer: &PlacedLayer, x: &Tensor, down: Down<'_>) -> Result<Option<Tensor>, TchError> {
    let Down { gy, weights, gradient, wants_input } = down;
    let (weight_shape, bias_shape) = shapes(layer)?;
    let (first, _) = split(layer, gradient.len(), &weight_shape)?;
    let (of_weight, of_bias) = gradient.split_at_mut(first);
    let of_weight = ViewMut::new(of_weight, &weight_shape)?;
    let of_bias = ViewMut::new(of_bias, &bias_shape)?;
    let _ = gy.f_transpose(0, 1)?.f_mm_out(&of_weight, x)?;
    let _ = gy.f_sum_intlist_out(&of_bias, 0, false, Kind::Float)?;
    if !wants_input {
        return Ok(None);
    }
    let (weight, _) = parameters(layer, weights)?;
    gy.f_mm(&weight)?.f_reshape(dimensions(gy.size()[0], layer.input)).map(Some)
}

/// A convolution that libtorch records: its own backward kernel has no binding, and what can be made of other kernels
/// takes up to twice as long (two more convolutions) or ten times (unfolding). What is recorded are copies of the
/// weights, which are small beside the work.
fn recorded(
    x: &Tensor,
    weight: &Tensor,
    bias: &Tensor,
    stride: usize,
    padding: usize,
) -> Result<(Tensor, Saved), TchError> {
    let leaf = |tensor: Tensor| tensor.f_set_requires_grad(true);
    let (input, weight, bias) =
        (leaf(x.f_detach()?)?, leaf(weight.f_detach_copy()?)?, leaf(bias.f_detach_copy()?)?);
    let convolve = || input.f_conv2d(&weight, Some(&bias), pair(stride), pair(padding), [1, 1], 1);
    let result = tch::with_grad(convolve)?;
    Ok((result.f_detach()?, Saved::Recorded { input, weight, bias, result }))
}

/// A recorded convolution.
struct Recorded<'a> {
    input: &'a Tensor,
    weight: &'a Tensor,
    bias: &'a Tensor,
    result: &'a Tensor,
}

/// The product of the result with `gy` has `gy` as its gradient with respect to the result, whatever lies there by now.
fn convolution(
    layer: &PlacedLayer,
    recorded: Recorded<'_>,
    down: Down<'_>,
) -> Result<Option<Tensor>, TchError> {
    let Recorded { input, weight, bias, result } = recorded;
    let Down { gy, gradient, wants_input, .. } = down;
    let (weight_shape, bias_shape) = shapes(layer)?;
    let (first, _) = split(layer, gradient.len(), &weight_shape)?;
    let (of_weight, of_bias) = gradient.split_at_mut(first);
    let leaves = if wants_input { vec![weight, bias, input] } else { vec![weight, bias] };
    let product = tch::with_grad(|| result.f_reshape([-1])?.f_dot(&gy.f_reshape([-1])?))?;
    let mut gradients = Tensor::f_run_backward(&[product], &leaves, false, false)?.into_iter();
    for (memory, shape) in [(of_weight, &weight_shape), (of_bias, &bias_shape)] {
        let gradient = gradients.next().ok_or_else(|| missing(layer))?;
        ViewMut::new(memory, shape)?.fill_from(&gradient)?;
    }
    Ok(gradients.next())
}

fn missing(layer: &PlacedLayer) -> TchError {
    TchError::Torch(format!("{} has no gradient", layer.name))
}

fn pair(side: usize) -> [i64; 2] {
    [side as i64; 2]
}
