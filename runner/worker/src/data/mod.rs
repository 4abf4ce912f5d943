//! Data sets: read or drawn once, pixels kept as bytes and normalised when a batch is put together; pictures in files decoded then.
//!
//! Reading needs no libtorch; tensors appear only at the end, in [`DataSet::batch`] and [`DataSet::inputs`].

mod augment;
mod cifar;
mod error;
mod feed;
mod file;
pub mod fuzz_targets;
mod idx;
mod images;
mod labelled_text;
mod loaded;
mod normal;
mod npy;
mod picture_files;
mod pictures;
mod sample_store;
mod samples;
mod set;
mod synthetic;
mod tensor;
mod text;

pub use augment::Change;
pub use error::DataError;
pub use feed::Feed;
pub use images::Images;
pub use normal::Normal;
pub use picture_files::PictureFiles;
pub use sample_store::SampleStore;
pub use samples::{Example, Samples};
pub use set::{DataSet, Split};
