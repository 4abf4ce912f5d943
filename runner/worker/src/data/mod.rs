//! Data sets: read or drawn once, pixels kept as bytes and normalised when a batch is put together.
//!
//! Reading needs no libtorch; tensors appear only at the end, in [`DataSet::batch`] and [`DataSet::inputs`].

mod cifar;
mod error;
mod file;
pub mod hostile;
mod idx;
mod images;
mod labelled_text;
mod npy;
mod samples;
mod set;
mod synthetic;
mod tensor;
mod text;

pub use error::DataError;
pub use images::Images;
pub use samples::{Example, Samples};
pub use set::{DataSet, Normal, Split};
