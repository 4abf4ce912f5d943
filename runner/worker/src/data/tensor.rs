//! Samples as libtorch's tensors.

use super::{DataError, DataSet, Split};
use recipe::Shape;
use strategies::Batch;
use tch::Tensor;

impl DataSet {
    /// The normalised images of a batch of the training file, `[examples, channels, rows, columns]`, as they are in the run of
    /// `seed`.
    pub fn batch(&self, batch: &Batch, seed: u64) -> Result<Tensor, DataError> {
        self.tensor(&self.training_values(batch, seed)?, batch.examples.len())
    }

    /// The classes of a batch of the training file; of a text the next tokens, window after window.
    pub fn labels_of(&self, batch: &Batch) -> Result<Vec<i64>, DataError> {
        self.labels_at(Split::Training, &batch.examples)
    }

    /// The normalised images at some positions of a split's file, `[positions, channels, rows, columns]`; of a text its tokens as
    /// numbers, `[positions, tokens]`.
    pub fn inputs(&self, split: Split, positions: &[u32]) -> Result<Tensor, DataError> {
        self.tensor(&self.values(split, positions)?, positions.len())
    }

    /// The values of `rows` samples, in their shape.
    pub(super) fn tensor(&self, values: &[f32], rows: usize) -> Result<Tensor, DataError> {
        let rows = rows as i64;
        let shape = match self.shape() {
            Shape::Flat(size) | Shape::Tokens(size, _) => vec![rows, size as i64],
            Shape::Sequence(length, width) => vec![rows, length as i64, width as i64],
            Shape::Image(channels, height, width) => {
                vec![rows, channels as i64, height as i64, width as i64]
            }
        };
        Tensor::f_from_slice(values)
            .and_then(|flat| flat.f_reshape(shape))
            .map_err(|error| DataError::Tensor { reason: error.to_string() })
    }
}
