//! Settings of `dataset` to its description.

use crate::keys::lookup::{KeyId, id};
use crate::values::settings::Settings;
use crate::values::typed_key::Defaulted;
use crate::{Dataset, DatasetKind, Partition, PartitionKind, Sampling, Source};

pub(crate) const KIND: Defaulted<DatasetKind> = Defaulted::choice("dataset.kind");
pub(crate) const PATH: KeyId = id("dataset.path");
pub(crate) const TRAIN_SAMPLES: Defaulted<u64> = Defaulted::whole("dataset.train");
const TEST_SAMPLES: Defaulted<u64> = Defaulted::whole("dataset.test");
const SEED: Defaulted<u64> = Defaulted::whole("dataset.seed");
const PARTITION: Defaulted<PartitionKind> = Defaulted::choice("dataset.partition.kind");
const ALPHA: Defaulted<f64> = Defaulted::number("dataset.partition.alpha");
const SAMPLING: Defaulted<Sampling> = Defaulted::choice("dataset.sampling");
pub(crate) const VALIDATION: Defaulted<f64> = Defaulted::number("dataset.validation");

/// The data set that the settings describe. Its path was set before, where the recipe gives none.
pub(crate) fn read(settings: &Settings) -> Dataset {
    let path = settings.path(PATH).cloned().unwrap_or_default();
    let source = match KIND.of(settings) {
        DatasetKind::Mnist => Source::Mnist { path },
        DatasetKind::FashionMnist => Source::FashionMnist { path },
        DatasetKind::Cifar10 => Source::Cifar10 { path },
        DatasetKind::Cifar100 => Source::Cifar100 { path },
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
