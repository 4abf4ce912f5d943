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
