//! The worker process: models in libtorch, data sets, one rank of a run, and the evaluator of its snapshots.
//!
//! Weights live in the caller's flat [`strategies::Vector`]; libtorch's tensors only view that memory. Modules that need
//! no libtorch (data sets, initial weights, snapshots) do not touch it.

mod checkpoint;
mod clock;
mod control_listener;
pub mod data;
mod emulation;
pub mod evaluation;
pub mod evaluator;
pub mod join;
pub mod mean;
pub mod model;
mod program;
pub mod rank;
mod recorder;
mod runtime;
pub mod snapshot;
mod start_barrier;
mod stop;
mod stream;
mod strikes;
pub mod threads;

pub use program::main_with;
