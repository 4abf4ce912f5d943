//! In which order images lie in memory while they pass the layers.

use recipe::Shape;
use tch::{TchError, Tensor};

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
        let (&[_, _, height, width], &[_, 1, _, _]) = (&x.size()[..], &x.stride()[..]) else {
            return Self::Contiguous;
        };
        if height * width > 1 { Self::ChannelsLast } else { Self::Contiguous }
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
