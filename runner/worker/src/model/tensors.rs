//! The tensors of a layer over its span of the flat memory, and shapes as libtorch takes them.

use super::flat::{Gradient, View, ViewMut, Weights};
use recipe::{Parameter, PlacedLayer, Shape};
use tch::{TchError, Tensor};

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

/// How images lie in memory, in PyTorch's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MemoryFormat {
    /// One channel behind the other.
    Contiguous,
    /// The values of a pixel side by side, as oneDNN's convolutions read them without a copy of their own in each pass.
    ChannelsLast,
}

impl MemoryFormat {
    /// The faster one on a CPU for a model of such examples. If channels are last, oneDNN (AVX2) takes up to four times as long for
    /// the gradients of weights with large images, and as long as otherwise with small ones, while all else is faster.
    pub(super) fn of(input: Shape) -> Self {
        match input {
            Shape::Image(_, height, width) if height * width <= SMALL => Self::ChannelsLast,
            Shape::Image(..) | Shape::Flat(_) | Shape::Sequence(..) | Shape::Tokens(..) => Self::Contiguous,
        }
    }

    /// The format of a tensor; a convolution's weights should have that of its input. Images of one pixel, which have both, count as
    /// contiguous.
    pub(super) fn found_in(x: &Tensor) -> Self {
        match (&x.size()[..], &x.stride()[..]) {
            ([_, _, height, width], [_, 1, _, _]) if height * width > 1 => Self::ChannelsLast,
            _ => Self::Contiguous,
        }
    }

    /// With channels last, the same images in that format, copied only if they are not in it. All else is left as it is.
    pub(super) fn give(self, x: Tensor) -> Result<Tensor, TchError> {
        let (Self::ChannelsLast, &[examples, channels, height, width]) = (self, &x.size()[..]) else {
            return Ok(x);
        };
        let strides = [height * width * channels, 1, width * channels, channels];
        // The strides of a single channel are arbitrary, and libtorch knows the format by them.
        x.f_permute([0, 2, 3, 1])?.f_contiguous()?.f_as_strided(
            [examples, channels, height, width],
            strides,
            None,
        )
    }
}

/// The most pixels of a small image: those of CIFAR.
const SMALL: usize = 32 * 32;

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

#[cfg(test)]
mod tests {
    use super::*;
    use tch::{Device, Kind};

    #[test]
    fn images_keep_their_values_in_either_format() {
        let images = Tensor::arange(2 * 3 * 4 * 5, (Kind::Float, Device::Cpu)).reshape([2, 3, 4, 5]);
        let last = MemoryFormat::ChannelsLast.give(images.shallow_clone()).unwrap();
        assert_eq!((last.size(), last.stride()), (vec![2, 3, 4, 5], vec![60, 1, 15, 3]));
        assert!(last.equal(&images));
        assert_eq!(MemoryFormat::found_in(&last), MemoryFormat::ChannelsLast);
        assert_eq!(MemoryFormat::found_in(&images), MemoryFormat::Contiguous);
        let again = MemoryFormat::ChannelsLast.give(last.shallow_clone()).unwrap();
        assert_eq!(again.data_ptr(), last.data_ptr(), "what has the format is not copied");
        let same = MemoryFormat::Contiguous.give(last.shallow_clone()).unwrap();
        assert_eq!(same.data_ptr(), last.data_ptr());
        let rows = MemoryFormat::ChannelsLast.give(images.reshape([2, 60])).unwrap();
        assert_eq!(rows.data_ptr(), images.data_ptr(), "rows are no images");
        let grey = images.reshape([6, 1, 4, 5]);
        let last = MemoryFormat::ChannelsLast.give(grey.shallow_clone()).unwrap();
        assert_eq!((last.stride(), last.data_ptr()), (vec![20, 1, 5, 1], grey.data_ptr()));
        assert!(last.equal(&grey));
        assert_eq!(MemoryFormat::found_in(&last), MemoryFormat::ChannelsLast);
        let pixels = images.reshape([2, 60, 1, 1]);
        assert_eq!(MemoryFormat::found_in(&pixels), MemoryFormat::Contiguous);
        assert_eq!(
            MemoryFormat::ChannelsLast.give(pixels.shallow_clone()).unwrap().data_ptr(),
            pixels.data_ptr()
        );
    }

    #[test]
    fn channels_are_last_in_models_of_small_images() {
        let format = |shape| MemoryFormat::of(shape);
        assert_eq!(format(Shape::Image(3, 32, 32)), MemoryFormat::ChannelsLast);
        assert_eq!(format(Shape::Image(1, 28, 28)), MemoryFormat::ChannelsLast);
        assert_eq!(format(Shape::Image(3, 33, 32)), MemoryFormat::Contiguous);
        assert_eq!(format(Shape::Flat(1024)), MemoryFormat::Contiguous);
    }
}
