//! Data sets, and how their samples are dealt to the workers.

use crate::files::tidy;
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

/// How a pass over samples is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Sampling {
    /// Each sample once, in an order of its own for each pass.
    #[default]
    Permutation,
    /// Each sample of the pass from all of them, independently: as many draws as there are samples.
    WithReplacement,
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
    /// As a recipe calls it, and `bakeoff data`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Synthetic { .. } => "synthetic",
            Self::Mnist { .. } => "mnist",
            Self::FashionMnist { .. } => "fashion-mnist",
            Self::Cifar10 { .. } => "cifar10",
            Self::Cifar100 { .. } => "cifar100",
        }
    }

    /// The folder with its files, where it is read from files.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Synthetic { .. } => None,
            Self::Mnist { path }
            | Self::FashionMnist { path }
            | Self::Cifar10 { path }
            | Self::Cifar100 { path } => Some(path),
        }
    }

    /// What to type so that its files come to its folder, where `data` is the folder of all data sets.
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

/// The folder of a kind of data set where a recipe names none, where `data` is the folder of all of them.
pub(crate) fn usual_path(kind: &str, data: &Path) -> Option<PathBuf> {
    let name = match kind {
        "mnist" | "fashion-mnist" => kind,
        "cifar10" => "cifar-10",
        "cifar100" => "cifar-100",
        _ => return None,
    };
    Some(tidy(&data.join(name)))
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
