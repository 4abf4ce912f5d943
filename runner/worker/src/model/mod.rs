//! Models in libtorch, with a backward pass written by hand.

mod dropout;
mod evaluate;
mod flat;
mod initial;
mod kernel;
mod learner;
mod loss;
mod section;

pub use evaluate::Evaluation;
pub use initial::initial_weights;
pub use learner::{ModelError, TorchLearner};
pub use section::layout;
