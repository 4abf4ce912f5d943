//! The model that a run trains, whatever computes it.

use super::Evaluation;
use crate::data::{DataSet, Split};
use std::sync::Arc;
use strategies::{Learner, StepError, Vector};

/// A model that can be trained and evaluated.
pub trait TrainedModel: Learner {
    /// The data set it learns from.
    fn data(&self) -> &Arc<DataSet>;

    /// Evaluates `weights` on all samples of a split, without dropout: means over samples, summed in 64 bits. `None` where the
    /// split has no samples.
    fn evaluate(&mut self, weights: &Vector, split: Split) -> Result<Option<Evaluation>, StepError>;

    /// The weights that are not trained and in no file, from the input to the scores; none in most models.
    fn frozen_weights(&self) -> Vector;
}
