//! The model of a run: described layers, or a TorchScript file.

use super::{ModelError, ScriptLearner, TorchLearner, TrainedModel};
use crate::data::DataSet;
use recipe::Model;
use std::sync::Arc;

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
