//! Tensors and operations of a layer in its place.

use super::sequence;
use crate::{Layer, Parameter, Paths, Shape};

/// The tensors of a layer, weights before biases; those inside of a block in its order.
pub(super) fn parameters(layer: &Layer, input: Shape, name: &str, paths: &Paths) -> Vec<Parameter> {
    let parameter = |role: &str, shape| Parameter { name: format!("{name}.{role}"), shape };
    let both = |weight, bias| vec![parameter("weight", weight), parameter("bias", vec![bias])];
    match (layer, input) {
        (Layer::Linear { outputs }, input) => both(vec![*outputs, sequence::width(input)], *outputs),
        (
            Layer::Embedding { .. } | Layer::LayerNorm | Layer::Attention { .. } | Layer::TextConv { .. },
            input,
        ) => sequence::parameters(layer, input, name),
        (Layer::Conv { outputs, kernel, bias, groups, .. }, Shape::Image(channels, ..)) => {
            let mut all = both(vec![*outputs, channels / groups, *kernel, *kernel], *outputs);
            all.truncate(if *bias { 2 } else { 1 });
            all
        }
        (Layer::BatchNorm, Shape::Image(channels, ..) | Shape::Flat(channels)) => {
            both(vec![channels], channels)
        }
        (
            Layer::Residual { .. }
            | Layer::Branches { .. }
            | Layer::Block { .. }
            | Layer::AuxiliaryHead { .. },
            _,
        ) => paths.layers().flat_map(|placed| placed.parameters.iter().cloned()).collect(),
        // A layer that takes no such shape has no place, and layers without weights have none to list.
        (Layer::Conv { .. }, Shape::Flat(_))
        | (Layer::Conv { .. } | Layer::BatchNorm, Shape::Tokens(..) | Shape::Sequence(..))
        | (
            Layer::MaxPool { .. }
            | Layer::AvgPool { .. }
            | Layer::GlobalAvgPool
            | Layer::GlobalMaxPool
            | Layer::LocalResponseNorm { .. }
            | Layer::Relu
            | Layer::Gelu
            | Layer::TiedHead
            | Layer::Frozen { .. }
            | Layer::Dropout { .. }
            | Layer::Flatten,
            _,
        ) => Vec::new(),
    }
}

/// Operations of one example's forward pass. The bias is what a sum starts from, so that it costs nothing. Batch norm adds a
/// value to two sums (the second of squares, 2), then multiplies and adds. Local response norm squares a value and adds `size` of
/// these, multiplies, adds, takes a power and divides.
pub(super) fn flops(layer: &Layer, input: Shape, output: Shape, paths: &Paths) -> u64 {
    let per_output = match (layer, input) {
        (Layer::Linear { .. }, input) => 2 * sequence::width(input) as u64,
        (
            Layer::Embedding { .. }
            | Layer::LayerNorm
            | Layer::Attention { .. }
            | Layer::TextConv { .. }
            | Layer::Gelu
            | Layer::TiedHead,
            input,
        ) => sequence::flops_per_output(layer, input),
        (Layer::Conv { kernel, groups, .. }, Shape::Image(channels, ..)) => {
            2 * (channels / groups * kernel * kernel) as u64
        }
        (Layer::MaxPool { kernel, .. } | Layer::AvgPool { kernel, .. }, _) => (kernel * kernel) as u64,
        (Layer::GlobalAvgPool | Layer::GlobalMaxPool, Shape::Image(_, rows, columns)) => {
            (rows * columns) as u64
        }
        (Layer::GlobalMaxPool, Shape::Sequence(length, _)) => length as u64,
        (Layer::BatchNorm, _) => 5,
        (Layer::LocalResponseNorm { size, .. }, _) => *size as u64 + 5,
        (Layer::Relu | Layer::Dropout { .. } | Layer::Residual { .. }, _) => 1,
        (
            Layer::Conv { .. } | Layer::GlobalAvgPool,
            Shape::Flat(_) | Shape::Tokens(..) | Shape::Sequence(..),
        )
        | (Layer::GlobalMaxPool, Shape::Flat(_) | Shape::Tokens(..))
        | (
            Layer::Flatten
            | Layer::Branches { .. }
            | Layer::Block { .. }
            | Layer::Frozen { .. }
            | Layer::AuxiliaryHead { .. },
            _,
        ) => 0,
    };
    let inside = paths.layers().fold(0, |sum: u64, placed| sum.saturating_add(placed.flops));
    per_output.saturating_mul(output.size() as u64).saturating_add(inside)
}
