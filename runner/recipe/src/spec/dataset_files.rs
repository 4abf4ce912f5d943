//! The files of a data set: where they lie, and their names.

use crate::Source;
use std::path::Path;

/// Where the samples of a data set lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SampleFiles<'a> {
    /// In no file: they are drawn.
    BuiltIn,
    /// In a file that the recipe names itself.
    NamedFile(&'a Path),
    /// In a folder with a file for each sample.
    Pictures(&'a Path),
    /// In files of a folder, by their names.
    Folder(&'a Path, DatasetFiles),
}

/// The files of a data set in its folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatasetFiles {
    /// Files that must all be there.
    pub required: &'static [&'static str],
    /// Files of which at least one must be there, unless there are none; all that are there are read.
    pub some: &'static [&'static str],
    /// Suffixes that may follow each name, in the order in which files are looked for.
    pub endings: &'static [&'static str],
}

/// Published files may lie there compressed.
const PLAIN_OR_PACKED: &[&str] = &["", ".gz"];
const PLAIN: &[&str] = &[""];

impl DatasetFiles {
    /// Those of MNIST, and of sets of the same format.
    pub const IDX: Self = Self {
        required: &[
            "train-images-idx3-ubyte",
            "train-labels-idx1-ubyte",
            "t10k-images-idx3-ubyte",
            "t10k-labels-idx1-ubyte",
        ],
        some: &[],
        endings: PLAIN_OR_PACKED,
    };
    /// The binary batches of CIFAR-10.
    pub const CIFAR10: Self = Self {
        required: &["test_batch.bin"],
        some: &[
            "data_batch_1.bin",
            "data_batch_2.bin",
            "data_batch_3.bin",
            "data_batch_4.bin",
            "data_batch_5.bin",
        ],
        endings: PLAIN_OR_PACKED,
    };
    /// The binary files of CIFAR-100.
    pub const CIFAR100: Self =
        Self { required: &["train.bin", "test.bin"], some: &[], endings: PLAIN_OR_PACKED };
    /// A user's own NumPy arrays.
    pub const ARRAYS: Self = Self {
        required: &["train_x.npy", "train_y.npy", "test_x.npy", "test_y.npy"],
        some: &[],
        endings: PLAIN,
    };
    /// A user's own arrays as safetensors.
    pub const TENSORS: Self =
        Self { required: &["train.safetensors", "test.safetensors"], some: &[], endings: PLAIN };
    /// A user's own texts with a label each.
    pub const TEXTS: Self = Self { required: &["train.csv", "test.csv"], some: &[], endings: PLAIN };
}

impl Source {
    /// Where the samples lie that a worker reads.
    pub fn files(&self) -> SampleFiles<'_> {
        match self {
            Self::Synthetic { .. } => SampleFiles::BuiltIn,
            Self::TextLines { path, .. } => SampleFiles::NamedFile(path),
            Self::ImageFolder { path, .. } => SampleFiles::Pictures(path),
            Self::Mnist { path } | Self::FashionMnist { path } => {
                SampleFiles::Folder(path, DatasetFiles::IDX)
            }
            Self::Cifar10 { path } => SampleFiles::Folder(path, DatasetFiles::CIFAR10),
            Self::Cifar100 { path } => SampleFiles::Folder(path, DatasetFiles::CIFAR100),
            Self::Npy { path, .. } => SampleFiles::Folder(path, DatasetFiles::ARRAYS),
            Self::Safetensors { path, .. } => SampleFiles::Folder(path, DatasetFiles::TENSORS),
            Self::Text { path, .. } => SampleFiles::Folder(path, DatasetFiles::TEXTS),
        }
    }

    /// The folder with its files, or its only file; `None` for one that is built in.
    pub fn path(&self) -> Option<&Path> {
        match self.files() {
            SampleFiles::BuiltIn => None,
            SampleFiles::NamedFile(path) | SampleFiles::Pictures(path) | SampleFiles::Folder(path, _) => {
                Some(path)
            }
        }
    }
}
