//! Forward and backward pass of each kind of layer, straight on libtorch's kernels.
//!
//! The gradients of weights are written into the caller's flat memory by the kernel that computes them.

use super::flat::{View, ViewMut};
use recipe::{Layer, PlacedLayer, Shape};
use tch::{Kind, TchError, Tensor};

/// What the backward pass of a layer needs to know about its forward pass.
pub(super) enum Saved {
    /// Nothing.
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
            let y = x.f_conv2d(&weight, Some(&*bias), pair(stride), pair(padding), [1, 1], 1)?;
            Ok((y, Saved::Input(x)))
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
            // In place: whoever saved what lies here saved it as the result of another `relu`, which a
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

/// Takes the gradient `gy` of the loss with respect to the layer's result back to its input, and writes the
/// gradient of its weights over `gradient`. Answers nothing where `wants_input` is false.
pub(super) fn backward(
    layer: &PlacedLayer,
    weights: &[f32],
    saved: Saved,
    gy: &Tensor,
    gradient: &mut [f32],
    wants_input: bool,
) -> Result<Option<Tensor>, TchError> {
    match (layer.layer.clone(), saved) {
        (Layer::Linear { .. }, Saved::Input(x)) => linear(layer, weights, &x, gy, (gradient, wants_input)),
        (Layer::Conv { .. }, Saved::Input(x)) => convolution(layer, weights, &x, gy, (gradient, wants_input)),
        _ if !wants_input => Ok(None),
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

fn linear(
    layer: &PlacedLayer,
    weights: &[f32],
    x: &Tensor,
    gy: &Tensor,
    (gradient, wants_input): (&mut [f32], bool),
) -> Result<Option<Tensor>, TchError> {
    let (weight_shape, bias_shape) = shapes(layer)?;
    let (first, _) = split(layer, gradient.len(), &weight_shape)?;
    let (of_weight, of_bias) = gradient.split_at_mut(first);
    let of_weight = ViewMut::new(of_weight, &weight_shape)?;
    let of_bias = ViewMut::new(of_bias, &bias_shape)?;
    gy.f_transpose(0, 1)?.f_mm_out(&of_weight, x)?;
    gy.f_sum_intlist_out(&of_bias, 0, false, Kind::Float)?;
    if !wants_input {
        return Ok(None);
    }
    let (weight, _) = parameters(layer, weights)?;
    gy.f_mm(&weight)?.f_reshape(dimensions(gy.size()[0], layer.input)).map(Some)
}

/// libtorch's general `convolution_backward` has no binding; this kernel (unfold, then a matrix product) has,
/// and it writes into given memory.
fn convolution(
    layer: &PlacedLayer,
    weights: &[f32],
    x: &Tensor,
    gy: &Tensor,
    (gradient, wants_input): (&mut [f32], bool),
) -> Result<Option<Tensor>, TchError> {
    let Layer::Conv { kernel, stride, padding, .. } = layer.layer else {
        return Err(TchError::Shape(format!("{} is no convolution", layer.name)));
    };
    let (weight_shape, bias_shape) = shapes(layer)?;
    let (first, _) = split(layer, gradient.len(), &weight_shape)?;
    let (of_weight, of_bias) = gradient.split_at_mut(first);
    let of_weight = ViewMut::new(of_weight, &weight_shape)?;
    let of_bias = ViewMut::new(of_bias, &bias_shape)?;
    let (weight, _) = parameters(layer, weights)?;
    let of_input = x.f_empty_like()?;
    x.f_internal_slow_conv2d_backward(
        &of_input,
        &of_weight,
        &of_bias,
        gy,
        &weight,
        pair(kernel),
        pair(stride),
        pair(padding),
    )?;
    Ok(wants_input.then_some(of_input))
}

fn pair(side: usize) -> [i64; 2] {
    [side as i64; 2]
}
