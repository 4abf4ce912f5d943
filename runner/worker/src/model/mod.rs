//! Models in libtorch: layers with a backward pass written by hand, and TorchScript files.

mod batch_norm;
mod cut;
mod down;
mod dropout;
mod evaluate;
mod evaluation;
mod flat;
mod frozen;
mod gpu;
mod head;
mod initial;
mod kernel;
mod learner;
mod loss;
mod memory_format;
mod model_error;
mod open;
mod operation;
mod passes;
mod recording;
mod script;
mod section;
mod tensors;
mod tied;
mod trained;

pub use evaluation::Evaluation;
pub use initial::initial_weights;
pub use learner::TorchLearner;
pub use model_error::ModelError;
pub use open::open;
pub use script::{ScriptLearner, describe};
pub use section::layout;
pub use trained::TrainedModel;
