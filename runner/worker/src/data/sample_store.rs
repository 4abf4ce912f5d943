//! Where the values of examples are: in memory, or in files that are read when a batch is put together.

use super::picture_files::PictureFiles;
use arrays::Features;

/// Where the values of examples are.
#[derive(Clone, Debug, PartialEq)]
pub enum SampleStore {
    /// All of them, as they are stored.
    Memory(Features),
    /// One file for each example.
    Pictures(PictureFiles),
}

impl From<Features> for SampleStore {
    fn from(features: Features) -> Self {
        Self::Memory(features)
    }
}
