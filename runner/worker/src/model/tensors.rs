//! The tensors of a layer over its span of the flat memory, and shapes as libtorch takes them.

use super::flat::{Gradient, View, ViewMut, Weights};
use recipe::{Parameter, PlacedLayer, Shape};
use tch::TchError;

/// The tensor shape of `rows` examples.
pub(super) fn dimensions(rows: i64, shape: Shape) -> Vec<i64> {
    match shape {
        Shape::Flat(size) | Shape::Tokens(size, _) => vec![rows, size as i64],
        Shape::Sequence(length, width) => vec![rows, length as i64, width as i64],
        Shape::Image(channels, height, width) => vec![rows, channels as i64, height as i64, width as i64],
    }
}

/// The layer's weights, in the order of its parameters: none for a layer without weights, which is given the span of the layer
/// that it belongs to.
pub(super) fn split<'a>(layer: &PlacedLayer, mut weights: Weights<'a>) -> Result<Vec<View<'a>>, TchError> {
    if layer.parameters.is_empty() {
        return Ok(Vec::new());
    }
    let mut views = Vec::with_capacity(layer.parameters.len());
    for parameter in &layer.parameters {
        let (own, rest) =
            weights.split_at_checked(parameter.size()).ok_or_else(|| too_few(layer, weights.len()))?;
        views.push(own.view(&sides(parameter))?);
        weights = rest;
    }
    if weights.len() == 0 { Ok(views) } else { Err(too_many(layer, weights.len())) }
}

/// The same to write a gradient to.
pub(super) fn split_mut<'a>(
    layer: &PlacedLayer,
    mut gradient: Gradient<'a>,
) -> Result<Vec<ViewMut<'a>>, TchError> {
    if layer.parameters.is_empty() {
        return Ok(Vec::new());
    }
    let mut views = Vec::with_capacity(layer.parameters.len());
    for parameter in &layer.parameters {
        let len = gradient.len();
        let (own, rest) = gradient.split_at_checked(parameter.size()).ok_or_else(|| too_few(layer, len))?;
        views.push(own.view(&sides(parameter))?);
        gradient = rest;
    }
    if gradient.len() == 0 { Ok(views) } else { Err(too_many(layer, gradient.len())) }
}

/// The tensors of a layer that has `N` of them.
pub(super) fn views<'a, const N: usize>(
    layer: &PlacedLayer,
    weights: Weights<'a>,
) -> Result<[View<'a>; N], TchError> {
    split(layer, weights)?.try_into().map_err(|views: Vec<_>| other_number(layer, N, views.len()))
}

/// The same to write a gradient to.
pub(super) fn views_mut<'a, const N: usize>(
    layer: &PlacedLayer,
    gradient: Gradient<'a>,
) -> Result<[ViewMut<'a>; N], TchError> {
    split_mut(layer, gradient)?.try_into().map_err(|views: Vec<_>| other_number(layer, N, views.len()))
}

/// A square window, as libtorch takes it.
pub(super) fn pair(side: usize) -> [i64; 2] {
    [side as i64; 2]
}

fn sides(parameter: &Parameter) -> Vec<i64> {
    parameter.shape.iter().map(|side| *side as i64).collect()
}

fn too_few(layer: &PlacedLayer, left: usize) -> TchError {
    TchError::Shape(format!("{}: {left} weights are too few for its last tensors", layer.name))
}

fn too_many(layer: &PlacedLayer, left: usize) -> TchError {
    TchError::Shape(format!("{}: {left} weights are behind its last tensor", layer.name))
}

fn other_number(layer: &PlacedLayer, expected: usize, found: usize) -> TchError {
    TchError::Shape(format!("{} has {found} tensors of weights, not {expected}", layer.name))
}
