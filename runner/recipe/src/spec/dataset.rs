//! Data sets, and how their samples are dealt to the workers.

use crate::files::tidy;
use crate::spec::family::family;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Which data, and how it is dealt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Dataset {
    /// Where the samples come from.
    pub source: Source,
    /// Who gets which.
    pub partition: Partition,
    /// Share of the training set that is held out to choose rates on; 0 for none.
    pub validation: f64,
    /// How a pass over the samples is drawn.
    #[serde(default)]
    pub sampling: Sampling,
}

family! {
    /// How a pass over the samples is drawn.
    #[derive(Default, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum Sampling {
        #[default]
        Permutation = "permutation": "Each sample once per pass, in an order of its own each time.",
        WithReplacement = "with-replacement": "Each sample of a pass is drawn from all of them, or from all of \
            the worker's own part, whatever was drawn before; a pass is as long as otherwise.",
    }
}

family! {
    /// The data sets that a recipe can name.
    pub enum DatasetKind {
        Synthetic = "synthetic": "Drawn glyphs of ten classes, 28 x 28 grey; built in, nothing to download.",
        Mnist = "mnist": "Handwritten digits, 28 x 28 grey, ten classes: the four IDX files.",
        FashionMnist = "fashion-mnist": "Pictures of clothes in the form of MNIST, ten classes: the four \
            IDX files.",
        Cifar10 = "cifar10": "Photographs, 32 x 32 in colour, ten classes: the binary batches.",
        Cifar100 = "cifar100": "Photographs, 32 x 32 in colour, a hundred classes: the binary files.",
    }
    later {
        "image-folder": "One folder of images per class.",
        "text": "Lines of text with a label.",
    }
}

/// What others need to know of a data set before it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatasetProfile {
    /// Channels, rows and columns of an example.
    pub input: (usize, usize, usize),
    /// Labels are below it.
    pub classes: usize,
    /// The files that a worker reads; `None` for a data set that is built in.
    pub files: Option<DatasetFiles>,
}

/// The files of a data set. Each may lie there compressed, with `.gz` at the end of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatasetFiles {
    /// The folder that `bakeoff data fetch` puts them in, below the folder of all data sets.
    pub folder: &'static str,
    /// Files that must all be there.
    pub required: &'static [&'static str],
    /// Files of which at least one must be there, unless there are none; all that are there are read.
    pub some: &'static [&'static str],
}

const IDX_FILES: &[&str] = &[
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
];
const CIFAR10_BATCHES: &[&str] =
    &["data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin"];

impl DatasetKind {
    /// What others need to know of it before it is read.
    pub const fn profile(self) -> DatasetProfile {
        const GREY: (usize, usize, usize) = (1, 28, 28);
        const COLOUR: (usize, usize, usize) = (3, 32, 32);
        match self {
            Self::Synthetic => DatasetProfile { input: GREY, classes: 10, files: None },
            Self::Mnist => DatasetProfile {
                input: GREY,
                classes: 10,
                files: Some(DatasetFiles { folder: "mnist", required: IDX_FILES, some: &[] }),
            },
            Self::FashionMnist => DatasetProfile {
                input: GREY,
                classes: 10,
                files: Some(DatasetFiles { folder: "fashion-mnist", required: IDX_FILES, some: &[] }),
            },
            Self::Cifar10 => DatasetProfile {
                input: COLOUR,
                classes: 10,
                files: Some(DatasetFiles {
                    folder: "cifar-10",
                    required: &["test_batch.bin"],
                    some: CIFAR10_BATCHES,
                }),
            },
            Self::Cifar100 => DatasetProfile {
                input: COLOUR,
                classes: 100,
                files: Some(DatasetFiles {
                    folder: "cifar-100",
                    required: &["train.bin", "test.bin"],
                    some: &[],
                }),
            },
        }
    }
}

/// Where samples come from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Source {
    /// Drawn glyphs of ten classes, 28 x 28 grey; built in, a pure function of `seed` and position.
    Synthetic {
        /// Training samples.
        train: u32,
        /// Test samples.
        test: u32,
        /// Seed of the drawing; independent of the run's seed, so that all repeats see the same data.
        seed: u64,
    },
    /// The four IDX files of MNIST (or a set of the same format), plain or gzip.
    Mnist {
        /// The folder, made absolute when the recipe was read.
        path: PathBuf,
    },
    /// The four IDX files of Fashion-MNIST, plain or gzip.
    FashionMnist {
        /// The folder, made absolute when the recipe was read.
        path: PathBuf,
    },
    /// The binary batches of CIFAR-10, plain or gzip, whichever are present.
    Cifar10 {
        /// The folder, made absolute when the recipe was read.
        path: PathBuf,
    },
    /// The binary files of CIFAR-100, plain or gzip; fine labels.
    Cifar100 {
        /// The folder, made absolute when the recipe was read.
        path: PathBuf,
    },
}

impl Source {
    /// The recipe's `kind`, which is also the name that `bakeoff data` takes.
    pub fn kind(&self) -> DatasetKind {
        match self {
            Self::Synthetic { .. } => DatasetKind::Synthetic,
            Self::Mnist { .. } => DatasetKind::Mnist,
            Self::FashionMnist { .. } => DatasetKind::FashionMnist,
            Self::Cifar10 { .. } => DatasetKind::Cifar10,
            Self::Cifar100 { .. } => DatasetKind::Cifar100,
        }
    }

    /// The folder with its files; `None` for one that is built in.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Synthetic { .. } => None,
            Self::Mnist { path }
            | Self::FashionMnist { path }
            | Self::Cifar10 { path }
            | Self::Cifar100 { path } => Some(path),
        }
    }

    /// Samples of the test file.
    pub fn test_samples(&self) -> u64 {
        match self {
            Self::Synthetic { test, .. } => u64::from(*test),
            Self::Mnist { .. } | Self::FashionMnist { .. } | Self::Cifar10 { .. } | Self::Cifar100 { .. } => {
                10_000
            }
        }
    }

    /// The same data set in another folder; one that is built in has none.
    #[must_use]
    pub fn at(&self, folder: &Path) -> Self {
        let path = folder.to_owned();
        match self {
            Self::Synthetic { .. } => self.clone(),
            Self::Mnist { .. } => Self::Mnist { path },
            Self::FashionMnist { .. } => Self::FashionMnist { path },
            Self::Cifar10 { .. } => Self::Cifar10 { path },
            Self::Cifar100 { .. } => Self::Cifar100 { path },
        }
    }

    /// The command that fetches its files into its folder, where `data` is the folder of all data sets; `None` for one that
    /// is built in.
    pub fn fetch_command(&self, data: &Path) -> Option<String> {
        let (kind, path) = (self.kind(), self.path()?);
        if usual_path(kind, data).is_some_and(|usual| usual == path) {
            return Some(format!("bakeoff data fetch {kind}"));
        }
        let path = path.display().to_string();
        let plain = path.chars().all(|letter| letter.is_alphanumeric() || "/._-+".contains(letter));
        let path = if plain { path } else { format!("'{}'", path.replace('\'', r"'\''")) };
        Some(format!("bakeoff data fetch {kind} --folder {path}"))
    }
}

/// The folder of a kind of data set that a recipe does not place, where `data` is the folder of all of them; `None` for
/// one that is built in.
pub(crate) fn usual_path(kind: DatasetKind, data: &Path) -> Option<PathBuf> {
    Some(tidy(&data.join(kind.profile().files?.folder)))
}

family! {
    /// How samples are dealt to the workers.
    pub enum PartitionKind {
        Shared = "shared": "One pass over all samples per epoch, dealt to the workers by position.",
        Sharded = "sharded": "Each worker keeps one fixed part.",
        Dirichlet = "dirichlet": "Fixed parts in which the classes are unevenly spread.",
    }
}

/// Who gets which samples.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Partition {
    /// One pass over all samples per epoch, dealt by position.
    Shared,
    /// Each worker keeps one fixed part, in an order of its own each epoch.
    Sharded,
    /// As `sharded`, but each class is spread over the workers by a draw from a Dirichlet distribution.
    Dirichlet {
        /// Concentration: small values give each worker few classes.
        alpha: f64,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_names_the_folder_only_where_it_is_not_the_usual_one() {
        let command = |path: &str| Source::Cifar10 { path: path.into() }.fetch_command(Path::new("/a/data"));
        assert_eq!(command("/a/data/cifar-10").unwrap(), "bakeoff data fetch cifar10");
        assert_eq!(command("/b").unwrap(), "bakeoff data fetch cifar10 --folder /b");
        assert_eq!(
            command("/my data/it's").unwrap(),
            r"bakeoff data fetch cifar10 --folder '/my data/it'\''s'"
        );
        assert_eq!(Source::Synthetic { train: 1, test: 1, seed: 1 }.fetch_command(Path::new("/a")), None);
    }
}
