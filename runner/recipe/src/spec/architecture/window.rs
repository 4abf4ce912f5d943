//! How often a window fits a side of an image.

/// A window that slides over a side of an image. As in PyTorch, a remainder shorter than the stride is not covered, or with
/// `ceil` by a window more, unless that would begin behind the image and the padding before it.
#[derive(Clone, Copy)]
pub(super) struct Window {
    pub(super) kernel: usize,
    pub(super) stride: usize,
    pub(super) padding: usize,
    pub(super) ceil: bool,
}

impl Window {
    /// Its positions along a side.
    pub(super) fn slide(self, side: usize) -> Result<usize, String> {
        let Self { kernel, stride, padding, ceil } = self;
        let wide = side + 2 * padding;
        if kernel > wide {
            return Err(format!("a window of {kernel} does not fit a side of {wide}"));
        }
        let left = wide - kernel;
        let more = ceil && left.div_ceil(stride) * stride < side + padding;
        Ok(if more { left.div_ceil(stride) } else { left / stride } + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of a result of `torch.nn.MaxPool2d(kernel, stride, padding, ceil_mode)`, by PyTorch 2.11.
    #[test]
    fn a_remainder_is_covered_as_by_pytorch() {
        for ((kernel, stride, padding, side), [down, up]) in [
            ((2, 3, 1, 2), [1, 1]),
            ((3, 2, 0, 32), [15, 16]),
            ((3, 2, 0, 4), [1, 2]),
            ((2, 2, 0, 5), [2, 3]),
            ((3, 2, 1, 4), [2, 3]),
        ] {
            let slide = |ceil| Window { kernel, stride, padding, ceil }.slide(side);
            assert_eq!((slide(false), slide(true)), (Ok(down), Ok(up)), "{kernel} {stride} {padding} {side}");
        }
        assert!(Window { kernel: 3, stride: 1, padding: 0, ceil: true }.slide(2).is_err());
    }
}
