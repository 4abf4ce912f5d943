//! Data sets from bytes that lie in memory instead of in files: the door through which a fuzzer comes in.

use super::file::Packed;
use super::{DataError, Images, cifar, idx};

/// How bytes are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileForm {
    /// Bytes as they are, not packed.
    Plain,
    /// As a gzip file.
    Gzip,
}

impl FileForm {
    fn file(self, bytes: &[u8]) -> Packed {
        Packed::from_bytes(bytes.to_vec(), self == Self::Gzip)
    }
}

/// Reads a pair of IDX files.
pub fn read_idx(images: &[u8], labels: &[u8], packing: FileForm) -> Result<Images, DataError> {
    idx::parse(&packing.file(images), &packing.file(labels))
}

/// Reads a file of CIFAR-10.
pub fn read_cifar_10(bytes: &[u8], packing: FileForm) -> Result<Images, DataError> {
    cifar::samples_10(&packing.file(bytes))
}

/// Reads a file of CIFAR-100.
pub fn read_cifar_100(bytes: &[u8], packing: FileForm) -> Result<Images, DataError> {
    cifar::samples_100(&packing.file(bytes))
}
