//! Data sets: read or drawn once, kept as bytes, normalised when a batch is put together.
//!
//! Reading needs no libtorch; tensors appear only at the end, in [`DataSet::batch`] and [`DataSet::inputs`].

mod cifar;
mod error;
mod file;
pub mod hostile;
mod idx;
mod samples;
mod set;
mod synthetic;
mod tensor;

pub use error::DataError;
pub use samples::Samples;
pub use set::{DataSet, Normal, Split};
