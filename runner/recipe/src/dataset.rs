//! Data sets, and how their samples are dealt to the workers.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Which data, and how it is dealt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Dataset {
    /// Where the samples come from.
    pub source: Source,
    /// Who gets which.
    pub partition: Partition,
    /// Share of the training set that is held out to choose rates on; 0 for none.
    pub validation: f64,
}

/// Where samples come from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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

/// Who gets which samples.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Partition {
    /// One permutation per epoch, dealt by position.
    Shared,
    /// Each worker keeps one fixed part, in an order of its own each epoch.
    Sharded,
    /// As `sharded`, but each class is spread over the workers by a draw from a Dirichlet distribution.
    Dirichlet {
        /// Concentration: small values give each worker few classes.
        alpha: f64,
    },
}
