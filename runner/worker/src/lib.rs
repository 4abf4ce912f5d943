//! What a rank computes with: models in libtorch, data sets, snapshots and their evaluation.
//!
//! Weights live in the caller's flat [`strategies::Vector`]; libtorch's tensors only look at that memory.
//! Whatever does not need libtorch (data sets, initial weights, snapshots) does not touch it.

pub mod data;
mod emulation;
pub mod evaluation;
pub mod evaluator;
pub mod mean;
pub mod model;
pub mod rank;
mod recorder;
mod runtime;
pub mod snapshot;
mod stream;
pub mod threads;
