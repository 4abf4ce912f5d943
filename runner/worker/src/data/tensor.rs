//! Samples as libtorch's tensors.

use super::{DataError, DataSet, Split};
use recipe::Shape;
use strategies::Batch;
use tch::Tensor;

impl DataSet {
    /// The normalised images of a batch of the training file, `[examples, channels, rows, columns]`.
    pub fn batch(&self, batch: &Batch) -> Result<Tensor, DataError> {
        self.inputs(Split::Training, &batch.examples)
    }

    /// The classes of a batch of the training file; of a text the next tokens, window after window.
    pub fn labels_of(&self, batch: &Batch) -> Result<Vec<i64>, DataError> {
        self.labels_at(Split::Training, &batch.examples)
    }

    /// The normalised images at some positions of a split's file, `[positions, channels, rows, columns]`; of a text its tokens as
    /// numbers, `[positions, tokens]`.
    pub fn inputs(&self, split: Split, positions: &[u32]) -> Result<Tensor, DataError> {
        let values = self.values(split, positions)?;
        let rows = positions.len() as i64;
        let shape = match self.shape() {
            Shape::Flat(size) | Shape::Tokens(size, _) => vec![rows, size as i64],
            Shape::Sequence(length, width) => vec![rows, length as i64, width as i64],
            Shape::Image(channels, height, width) => {
                vec![rows, channels as i64, height as i64, width as i64]
            }
        };
        Tensor::f_from_slice(&values)
            .and_then(|flat| flat.f_reshape(shape))
            .map_err(|error| DataError::Tensor { reason: error.to_string() })
    }
}
