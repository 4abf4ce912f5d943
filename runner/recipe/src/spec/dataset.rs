//! Data sets, and how their samples are dealt to the workers.

use crate::Shape;
use crate::paths::tidy;
use crate::spec::arrays::ArrayProfile;
use crate::spec::augment::Augmentation;
use crate::spec::dataset_profile::{DatasetProfile, ShapedBy, Targets};
use crate::spec::family::family;
use crate::spec::labelled_text::LabelledTextProfile;
use crate::spec::pictures::PictureProfile;
use crate::spec::text::TextProfile;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Which data, and how it is dealt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Dataset {
    /// Where the samples come from.
    pub source: Source,
    /// How the samples are divided among the workers.
    pub partition: Partition,
    /// Share of the training set that is held out to choose rates on; 0 for none.
    pub validation: f64,
    /// How a pass over the samples is drawn.
    #[serde(default)]
    pub sampling: Sampling,
    /// How training pictures are changed each time they are met. Absent where they are not, so that earlier runs keep their identity.
    #[serde(default, skip_serializing_if = "Augmentation::is_none")]
    pub augment: Augmentation,
}

impl Dataset {
    /// Samples of the training set that are held out; `None` where its size is not known.
    pub fn held_out(&self) -> Option<u64> {
        let train = self.source.training_samples()?;
        Some((train as f64 * self.validation).round() as u64)
    }
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
        ImageFolder = "image-folder": "Your own pictures, JPEG or PNG: train/CLASS/*.jpg and test/CLASS/*.jpg (or val) in the folder \
            `dataset.path`. Classes are the folders in train, by the order of their names. Each picture is scaled until its \
            shorter side has `resize` pixels; the middle square of `crop` pixels is what a model sees, in colour. Pictures are \
            decoded while workers train, and never all in memory.",
        Npy = "npy": "Your own data: the NumPy arrays train_x.npy, train_y.npy, test_x.npy and test_y.npy of the \
            folder `dataset.path`. Features are [samples, values] or [samples, channels, rows, columns], of bytes, \
            which are normalised as pictures are, or of floats, which are taken as they are; labels are integers from 0 on.",
        Safetensors = "safetensors": "Your own data as safetensors: train.safetensors and test.safetensors of the folder \
            `dataset.path`, each with the tensors x and y, which are what the arrays of `npy` are.",
        TextLines = "text-lines": "Your own text: the file `dataset.path`, in which a model learns which token comes next. It is cut \
            into windows of `context` tokens, one behind the other: each is a sample, each token is a target once per pass. The \
            last `test-share` of the windows are the test set.",
        Text = "text": "Your own texts with a label each: train.csv and test.csv of the folder `dataset.path`, with the label in the \
            first column and the text in the others, which are joined by a space. Labels are any words; the classes are those of \
            train.csv, in byte order. The vocabulary is that of train.csv.",
    }
}

impl DatasetKind {
    /// Whether `nodes.copy-data` copies it to other machines: it copies single files, and not the thousands of a folder of pictures.
    pub(crate) const fn is_copied(self) -> bool {
        match self {
            Self::ImageFolder => false,
            Self::Synthetic
            | Self::Mnist
            | Self::FashionMnist
            | Self::Cifar10
            | Self::Cifar100
            | Self::Npy
            | Self::Safetensors
            | Self::TextLines
            | Self::Text => true,
        }
    }

    /// The folder that `bakeoff data fetch` puts its files in, below the folder of all data sets; `None` for one that cannot be
    /// fetched.
    pub const fn fetched_folder(self) -> Option<&'static str> {
        match self {
            Self::Mnist => Some("mnist"),
            Self::FashionMnist => Some("fashion-mnist"),
            Self::Cifar10 => Some("cifar-10"),
            Self::Cifar100 => Some("cifar-100"),
            Self::Synthetic
            | Self::ImageFolder
            | Self::Npy
            | Self::Safetensors
            | Self::TextLines
            | Self::Text => None,
        }
    }
}

/// Where samples come from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Source {
    /// Drawn glyphs of ten classes, 28 x 28 grey; built in, a pure function of `seed` and position.
    Synthetic {
        /// Number of training samples.
        train: u32,
        /// Number of test samples.
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
    /// A user's own pictures.
    ImageFolder {
        /// The folder, made absolute when the recipe was read.
        path: PathBuf,
        /// The pictures found there when the recipe was read, and the part seen of each; a worker that finds any others refuses the folder.
        pictures: PictureProfile,
    },
    /// A user's own NumPy arrays.
    Npy {
        /// The folder, made absolute when the recipe was read.
        path: PathBuf,
        /// Profile found there when the recipe was read; a worker that finds anything else refuses it.
        arrays: ArrayProfile,
    },
    /// A user's own arrays in safetensors files.
    Safetensors {
        /// The folder, made absolute when the recipe was read.
        path: PathBuf,
        /// Profile found there when the recipe was read; a worker that finds anything else refuses it.
        arrays: ArrayProfile,
    },
    /// A user's own text.
    TextLines {
        /// The file, made absolute when the recipe was read.
        path: PathBuf,
        /// Profile found there when the recipe was read, and how it is cut; a worker refuses anything else.
        text: TextProfile,
    },
    /// A user's own texts with a label each.
    Text {
        /// The folder, made absolute when the recipe was read.
        path: PathBuf,
        /// How they are read, and what was found there when the recipe was read; a worker that finds anything else refuses it.
        texts: LabelledTextProfile,
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
            Self::ImageFolder { .. } => DatasetKind::ImageFolder,
            Self::Npy { .. } => DatasetKind::Npy,
            Self::Safetensors { .. } => DatasetKind::Safetensors,
            Self::TextLines { .. } => DatasetKind::TextLines,
            Self::Text { .. } => DatasetKind::Text,
        }
    }

    /// Shape of an example, number of classes and kind of targets, as a model needs them.
    pub fn profile(&self) -> DatasetProfile {
        const GREY: Shape = Shape::Image(1, 28, 28);
        const COLOUR: Shape = Shape::Image(3, 32, 32);
        match self {
            Self::Synthetic { .. } | Self::Mnist { .. } | Self::FashionMnist { .. } => {
                DatasetProfile::of_classes(GREY, 10)
            }
            Self::Cifar10 { .. } => DatasetProfile::of_classes(COLOUR, 10),
            Self::Cifar100 { .. } => DatasetProfile::of_classes(COLOUR, 100),
            Self::ImageFolder { pictures, .. } => {
                let side = pictures.crop as usize;
                let input = Shape::Image(3, side, side);
                let profile = DatasetProfile::of_classes(input, pictures.classes as usize);
                DatasetProfile { shaped_by: ShapedBy::Crop, ..profile }
            }
            Self::Npy { arrays, .. } | Self::Safetensors { arrays, .. } => {
                let profile = DatasetProfile::of_classes(arrays.shape, arrays.classes as usize);
                DatasetProfile { shaped_by: ShapedBy::Arrays, ..profile }
            }
            Self::TextLines { text, .. } => DatasetProfile {
                input: Shape::Tokens(text.context as usize, text.vocabulary as usize),
                classes: text.vocabulary as usize,
                targets: Targets::NextTokens,
                shaped_by: ShapedBy::Context,
            },
            Self::Text { texts, .. } => texts.of_samples(),
        }
    }

    /// Seed that belongs to the data: samples are drawn from it, or only those that are held out; the same for every seed of a run.
    pub fn seed(&self) -> u64 {
        match self {
            Self::Synthetic { seed, .. } => *seed,
            Self::Mnist { .. }
            | Self::FashionMnist { .. }
            | Self::Cifar10 { .. }
            | Self::Cifar100 { .. }
            | Self::ImageFolder { .. }
            | Self::Npy { .. }
            | Self::Safetensors { .. }
            | Self::TextLines { .. }
            | Self::Text { .. } => 0,
        }
    }

    /// Samples of the training file, held-out ones included; `None` where they are counted only when a worker reads them.
    pub fn training_samples(&self) -> Option<u64> {
        match self {
            Self::Synthetic { train, .. } => Some(u64::from(*train)),
            Self::ImageFolder { pictures, .. } => {
                Some(u64::from(pictures.train)).filter(|samples| *samples > 0)
            }
            Self::Npy { arrays, .. } | Self::Safetensors { arrays, .. } => {
                Some(u64::from(arrays.train)).filter(|samples| *samples > 0)
            }
            Self::TextLines { text, .. } => Some(u64::from(text.train)).filter(|samples| *samples > 0),
            Self::Text { texts, .. } => Some(u64::from(texts.size.train)).filter(|samples| *samples > 0),
            Self::Mnist { .. } | Self::FashionMnist { .. } | Self::Cifar10 { .. } | Self::Cifar100 { .. } => {
                None
            }
        }
    }

    /// Samples of the test file.
    pub fn test_samples(&self) -> u64 {
        match self {
            Self::Synthetic { test, .. } => u64::from(*test),
            Self::ImageFolder { pictures, .. } => u64::from(pictures.test),
            Self::Npy { arrays, .. } | Self::Safetensors { arrays, .. } => u64::from(arrays.test),
            Self::TextLines { text, .. } => u64::from(text.test),
            Self::Text { texts, .. } => u64::from(texts.size.test),
            Self::Mnist { .. } | Self::FashionMnist { .. } | Self::Cifar10 { .. } | Self::Cifar100 { .. } => {
                10_000
            }
        }
    }

    /// The same data set in another folder; one that is built in has none. A file that the recipe names may be named itself.
    #[must_use]
    pub fn at(&self, folder: &Path) -> Self {
        let path = folder.to_owned();
        match self {
            Self::Synthetic { .. } => self.clone(),
            Self::Mnist { .. } => Self::Mnist { path },
            Self::FashionMnist { .. } => Self::FashionMnist { path },
            Self::Cifar10 { .. } => Self::Cifar10 { path },
            Self::Cifar100 { .. } => Self::Cifar100 { path },
            Self::ImageFolder { pictures, .. } => Self::ImageFolder { path, pictures: *pictures },
            Self::Npy { arrays, .. } => Self::Npy { path, arrays: *arrays },
            Self::Safetensors { arrays, .. } => Self::Safetensors { path, arrays: *arrays },
            Self::Text { texts, .. } => Self::Text { path, texts: *texts },
            Self::TextLines { path: file, text } => {
                let same = path.file_name() == file.file_name();
                let path = if same { path } else { path.join(file.file_name().unwrap_or_default()) };
                Self::TextLines { path, text: *text }
            }
        }
    }

    /// The command that fetches its files into its folder, where `data` is the folder of all data sets; `None` for one that
    /// cannot be fetched.
    pub fn fetch_command(&self, data: &Path) -> Option<String> {
        let kind = self.kind();
        let path = self.path()?;
        if usual_path(kind, data)? == path {
            return Some(format!("bakeoff data fetch {kind}"));
        }
        let path = path.display().to_string();
        let plain = path.chars().all(|letter| letter.is_alphanumeric() || "/._-+".contains(letter));
        let path = if plain { path } else { format!("'{}'", path.replace('\'', r"'\''")) };
        Some(format!("bakeoff data fetch {kind} --folder {path}"))
    }
}

/// The folder of a kind of data set that a recipe does not place, where `data` is the folder of all of them; `None` for
/// one that cannot be fetched.
pub(crate) fn usual_path(kind: DatasetKind, data: &Path) -> Option<PathBuf> {
    Some(tidy(&data.join(kind.fetched_folder()?)))
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

    #[test]
    fn a_named_file_keeps_its_name_in_another_folder() {
        let text = TextProfile::UNKNOWN;
        let source = Source::TextLines { path: "/a/corpus.txt".into(), text };
        let expected = |path: &str| Source::TextLines { path: path.into(), text };
        assert_eq!(source.at(Path::new("/b")), expected("/b/corpus.txt"));
        assert_eq!(source.at(Path::new("/b/corpus.txt")), expected("/b/corpus.txt"));
    }
}
