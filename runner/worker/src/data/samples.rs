//! Images with their classes, as bytes.

use recipe::Shape;

/// Images of one shape, and the class of each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Samples {
    /// Channels, rows, columns.
    pub shape: Shape,
    /// Image after image; within one channel by channel, row by row; 0 dark, 255 bright.
    pub pixels: Vec<u8>,
    /// One class for each image.
    pub labels: Vec<u8>,
}

impl Samples {
    /// Number of images.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// The pixels of one image.
    pub fn image(&self, position: usize) -> Option<&[u8]> {
        let size = self.shape.size();
        let begin = position.checked_mul(size)?;
        self.pixels.get(begin..begin.checked_add(size)?)
    }

    /// Number of channels; of a flat vector one.
    pub fn channels(&self) -> usize {
        match self.shape {
            Shape::Flat(_) => 1,
            Shape::Image(channels, _, _) => channels,
        }
    }
}
