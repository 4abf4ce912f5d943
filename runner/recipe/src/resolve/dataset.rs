//! Settings of `dataset` to its description; of a user's arrays, that is also what they are.

use crate::files::{ArrayProblem, Files};
use crate::keys::lookup::{KeyId, id};
use crate::resolve::cell::Cell;
use crate::text::finding::Finding;
use crate::values::typed_key::Defaulted;
use crate::values::value;
use crate::{ArrayProfile, Dataset, DatasetKind, Partition, PartitionKind, Sampling, Source};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub(crate) const KIND: Defaulted<DatasetKind> = Defaulted::choice("dataset.kind");
pub(crate) const PATH: KeyId = id("dataset.path");
pub(crate) const TRAIN_SAMPLES: Defaulted<u64> = Defaulted::whole("dataset.train");
const TEST_SAMPLES: Defaulted<u64> = Defaulted::whole("dataset.test");
const SEED: Defaulted<u64> = Defaulted::whole("dataset.seed");
const PARTITION: Defaulted<PartitionKind> = Defaulted::choice("dataset.partition.kind");
const ALPHA: Defaulted<f64> = Defaulted::number("dataset.partition.alpha");
const SAMPLING: Defaulted<Sampling> = Defaulted::choice("dataset.sampling");
pub(crate) const VALIDATION: Defaulted<f64> = Defaulted::number("dataset.validation");

/// What the folders of arrays hold, each looked at once.
pub(crate) struct Folders<'a> {
    files: &'a dyn Files,
    seen: BTreeMap<PathBuf, Result<ArrayProfile, Vec<ArrayProblem>>>,
}

impl<'a> Folders<'a> {
    pub(crate) fn new(files: &'a dyn Files) -> Self {
        Self { files, seen: BTreeMap::new() }
    }

    /// The arrays that a cell names, or what stands for them where they cannot be used.
    fn arrays(&mut self, cell: &mut Cell<'_>, path: &Path) -> ArrayProfile {
        let Some(span) = cell.settings.given(PATH).map(|leaf| leaf.span) else {
            cell.miss(PATH, ": your own arrays are in a folder of yours");
            return ArrayProfile::UNKNOWN;
        };
        let found = self.seen.entry(path.to_owned()).or_insert_with(|| self.files.arrays(path));
        match found {
            Ok(profile) => *profile,
            Err(problems) => {
                cell.findings.extend(problems.iter().map(|problem| {
                    Finding::new("R023", problem.reason.clone())
                        .at_option(span.or(cell.settings.span(KIND)), "this folder")
                        .note(value::more("R023"))
                        .cure(problem.cure.clone())
                }));
                ArrayProfile::UNKNOWN
            }
        }
    }
}

/// The data set that the settings describe. Its path was set before, where the recipe gives none and there is a usual one.
pub(crate) fn read(cell: &mut Cell<'_>, folders: &mut Folders<'_>) -> Dataset {
    let settings = cell.settings;
    let path = settings.path(PATH).cloned().unwrap_or_default();
    let source = match KIND.of(settings) {
        DatasetKind::Mnist => Source::Mnist { path },
        DatasetKind::FashionMnist => Source::FashionMnist { path },
        DatasetKind::Cifar10 => Source::Cifar10 { path },
        DatasetKind::Cifar100 => Source::Cifar100 { path },
        DatasetKind::Npy => {
            let arrays = folders.arrays(cell, &path);
            Source::Npy { path, arrays }
        }
        DatasetKind::Synthetic => Source::Synthetic {
            train: TRAIN_SAMPLES.of(settings) as u32,
            test: TEST_SAMPLES.of(settings) as u32,
            seed: SEED.of(settings),
        },
    };
    let partition = match PARTITION.of(settings) {
        PartitionKind::Shared => Partition::Shared,
        PartitionKind::Sharded => Partition::Sharded,
        PartitionKind::Dirichlet => Partition::Dirichlet { alpha: ALPHA.of(settings) },
    };
    let sampling = SAMPLING.of(settings);
    Dataset { source, partition, validation: VALIDATION.of(settings), sampling }
}
