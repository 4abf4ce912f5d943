//! The model that a run trains: described layers, or a TorchScript file.

use super::{Evaluation, ModelError, ScriptLearner, TorchLearner};
use crate::data::{DataSet, Split};
use recipe::Model;
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

/// The model of a run, on a GPU or on the CPU; `seed` is the run's.
pub fn open(
    model: &Model,
    data: Arc<DataSet>,
    seed: u64,
    gpu: Option<u32>,
) -> Result<Box<dyn TrainedModel>, ModelError> {
    if let Some(index) = gpu {
        // Before any model: libtorch decides once whether there are GPUs.
        torch_native::use_gpus().map_err(|error| ModelError::gpu(index, &error))?;
    }
    Ok(match model {
        Model::Layers(model) => Box::new(TorchLearner::new(model.clone(), data, seed)?.on_gpu(gpu)?),
        Model::File(file) => Box::new(ScriptLearner::new(file.clone(), data, seed)?.on_gpu(gpu)?),
    })
}
