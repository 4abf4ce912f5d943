//! Images with their classes, as bytes: what readers of public data sets bring.

use super::Samples;
use arrays::Features;
use recipe::Shape;

/// Images of one shape, and the class of each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Images {
    /// Shape of one image: channels, rows, columns.
    pub shape: Shape,
    /// Image after image; within one channel by channel, row by row; 0 dark, 255 bright.
    pub pixels: Vec<u8>,
    /// One class for each image.
    pub labels: Vec<u8>,
}

impl Images {
    /// Number of images, which is the number of labels.
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
}

impl From<Images> for Samples {
    fn from(images: Images) -> Self {
        Self {
            shape: images.shape,
            features: Features::Bytes(images.pixels).into(),
            labels: images.labels.into_iter().map(u32::from).collect(),
        }
    }
}
