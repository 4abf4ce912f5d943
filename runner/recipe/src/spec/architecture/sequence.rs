//! The layers of models for texts in their places: shapes, parameters, operations.

use super::window::Window;
use crate::{Layer, Parameter, PlacedLayer, Shape};

/// The values that a linear layer multiplies by: all of an example, or those at a position of a text.
pub(super) fn width(input: Shape) -> usize {
    match input {
        Shape::Flat(_) | Shape::Image(..) | Shape::Tokens(..) => input.size(),
        Shape::Sequence(_, width) => width,
    }
}

/// Output shape of a layer of this file; a reason where it does not take `input`.
pub(super) fn output(layer: &Layer, input: Shape) -> Result<Shape, String> {
    match (layer, input) {
        (Layer::Embedding { width, .. }, Shape::Tokens(length, _)) => Ok(Shape::Sequence(length, *width)),
        (Layer::Embedding { .. }, other) => Err(format!(
            "an embedding takes the tokens of a text, not {}: it is the first layer, with `dataset.kind = \"text-lines\"` or `\"text\"`",
            other.words()
        )),
        (Layer::LayerNorm, Shape::Sequence(..) | Shape::Flat(_)) | (Layer::Gelu, _) => Ok(input),
        (Layer::LayerNorm, other) => {
            Err(format!("it takes positions of a text or a flat vector, not {}", other.words()))
        }
        (Layer::Attention { heads }, Shape::Sequence(_, width)) if width.is_multiple_of(*heads) => Ok(input),
        (Layer::Attention { heads }, Shape::Sequence(_, width)) => Err(format!(
            "{width} values cannot be divided into {heads} heads of equal width: take `heads` that divide it"
        )),
        (Layer::TextConv { outputs, kernel, stride, padding }, Shape::Sequence(length, _)) => {
            let window = Window { kernel: *kernel, stride: *stride, padding: *padding, ceil: false };
            Ok(Shape::Sequence(window.slide(length)?, *outputs))
        }
        (_, other) => Err(format!("it takes positions of a text, not {}", other.words())),
    }
}

/// Output shape of a tied head behind the layers `before` it: scores of all tokens at each position.
pub(super) fn tied_scores(input: Shape, before: &[PlacedLayer], prefix: &str) -> Result<Shape, String> {
    let embedding = before.first().filter(|_| prefix.is_empty());
    let Some(PlacedLayer {
        layer: Layer::Embedding { width, .. }, input: Shape::Tokens(_, vocabulary), ..
    }) = embedding
    else {
        return Err(
            "a tied head scores tokens by the vectors of an embedding, and the first layer is none".into()
        );
    };
    if before.iter().any(|placed| placed.layer == Layer::TiedHead) {
        return Err("a model has one tied head".to_owned());
    }
    match input {
        Shape::Sequence(length, own) if own == *width => Ok(Shape::Sequence(length, *vocabulary)),
        other => Err(format!(
            "a tied head takes positions of {width} values, the width of the embedding, not {}",
            other.words()
        )),
    }
}

/// The tensors of a layer of this file, in the order of the flat vector.
pub(super) fn parameters(layer: &Layer, input: Shape, name: &str) -> Vec<Parameter> {
    let parameter =
        |role: &str, shape: &[usize]| Parameter { name: format!("{name}.{role}"), shape: shape.to_vec() };
    match (layer, input) {
        (Layer::Embedding { width, positions }, Shape::Tokens(length, vocabulary)) => {
            let mut all = vec![parameter("weight", &[vocabulary, *width])];
            all.extend(positions.then(|| parameter("position", &[length, *width])));
            all
        }
        (Layer::TextConv { outputs, kernel, .. }, Shape::Sequence(_, width)) => {
            vec![parameter("weight", &[*outputs, width, *kernel]), parameter("bias", &[*outputs])]
        }
        (Layer::LayerNorm, input) => {
            let width = width(input);
            vec![parameter("weight", &[width]), parameter("bias", &[width])]
        }
        (Layer::Attention { .. }, Shape::Sequence(_, width)) => vec![
            parameter("in.weight", &[3 * width, width]),
            parameter("in.bias", &[3 * width]),
            parameter("out.weight", &[width, width]),
            parameter("out.bias", &[width]),
        ],
        // A layer that takes no such shape has no place, and other layers are not of this file.
        (
            Layer::Embedding { .. }
            | Layer::Attention { .. }
            | Layer::TextConv { .. }
            | Layer::Gelu
            | Layer::TiedHead
            | Layer::Linear { .. }
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
            | Layer::Frozen { .. }
            | Layer::AuxiliaryHead { .. }
            | Layer::Relu
            | Layer::Dropout { .. }
            | Layer::Flatten,
            _,
        ) => Vec::new(),
    }
}

/// Operations of one value of the result; a multiply-add counts two. Attention: the four maps of its width, products with all keys
/// and with all values (half of which the causal order leaves out, as is usual they are counted), and 3 for each weight of each
/// head, whose share of one value is heads / width. The error function of GELU counts as one.
pub(super) fn flops_per_output(layer: &Layer, input: Shape) -> u64 {
    match (layer, input) {
        (Layer::Embedding { .. } | Layer::Gelu, _) => 1,
        (Layer::LayerNorm, _) => 5,
        (Layer::TiedHead, input) => 2 * width(input) as u64,
        (Layer::TextConv { kernel, .. }, Shape::Sequence(_, width)) => 2 * (width * kernel) as u64,
        (Layer::Attention { heads }, Shape::Sequence(length, width)) => {
            let softmax = (3 * length * heads).div_ceil(width.max(1));
            (8 * width + 4 * length + softmax) as u64
        }
        // As above.
        (
            Layer::Attention { .. }
            | Layer::TextConv { .. }
            | Layer::Linear { .. }
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
            | Layer::Frozen { .. }
            | Layer::AuxiliaryHead { .. }
            | Layer::Relu
            | Layer::Dropout { .. }
            | Layer::Flatten,
            _,
        ) => 0,
    }
}
