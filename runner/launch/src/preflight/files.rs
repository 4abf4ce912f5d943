//! The files that a run writes.

use super::FLOAT;
use crate::checkpoints::KEPT;
use recipe::{Epoch, Extent, KeptModels, Role, RunSpec, Source};

/// Bytes of a sample's id in the log of events: MessagePack's longest form of 32 bits.
pub(super) const SAMPLE_ID: u64 = 5;

/// A snapshot of a whole model, in bytes.
fn snapshot_of(spec: &RunSpec) -> u64 {
    FLOAT * spec.model.parameter_count() as u64
}

/// The weights that are drawn and not trained, in bytes.
fn frozen_of(spec: &RunSpec) -> u64 {
    FLOAT * spec.model.drawn_frozen_weights() as u64
}

/// Snapshots at each evaluation point: one per worker if the models differ.
pub(super) fn copies_of(spec: &RunSpec) -> u64 {
    if spec.strategy.models_differ() { u64::from(spec.cluster.workers()).max(1) } else { 1 }
}

/// Bytes of a run that are kept: its first and its last model, its frozen weights once, and if asked for the models of all ranks
/// and the ids of its samples.
pub(super) fn kept_of(spec: &RunSpec) -> u64 {
    let ids = if spec.measure.samples { samples_of(spec, spec.train.length) } else { 0 };
    let models = match spec.measure.models {
        KeptModels::None => 0,
        KeptModels::Judged => 2,
        KeptModels::All => 2 + copies_of(spec),
    };
    let frozen = match spec.measure.models {
        KeptModels::None => 0,
        KeptModels::Judged | KeptModels::All => frozen_of(spec),
    };
    ids.saturating_mul(SAMPLE_ID)
        .saturating_add(snapshot_of(spec).saturating_mul(models))
        .saturating_add(frozen)
}

/// The snapshots of a run that are deleted after their evaluation, in bytes: at worst all of them wait for the end of the
/// ranks. If several ranks take snapshots, the first and the last of all but one are deleted too, and there may be a mean
/// of the last.
pub(super) fn passing_snapshots_of(spec: &RunSpec) -> u64 {
    let epoch = Epoch { training_samples: training_samples(spec), global_batch: spec.train.global_batch };
    let count = spec.train.evaluate.times(samples_of(spec, spec.train.length), epoch);
    let copies = copies_of(spec);
    let ends = match spec.strategy.parts() {
        1 if copies > 1 => 2 * copies - 1,
        1 => 0,
        // The parts of the first and the last model, which are kept as a whole.
        _ => 2,
    };
    let parts = count.saturating_mul(copies).saturating_add(ends).saturating_mul(spec.bytes_of_parts());
    match spec.measure.models {
        // The whole models, and the frozen weights, that are there until the run ends.
        KeptModels::None => parts.saturating_add(2 * snapshot_of(spec)).saturating_add(frozen_of(spec)),
        KeptModels::Judged | KeptModels::All => parts,
    }
}

/// Vectors as long as the weights in the saved state of a rank, at most: the weights, and what optimizer, strategy and codec hold; 0
/// without checkpoints.
pub(super) fn state_vectors(spec: &RunSpec, role: Role) -> u64 {
    if spec.train.checkpoint.is_none() {
        return 0;
    }
    let codec = if role == Role::Worker { spec.compression.own_vectors() } else { 0 };
    let optimizer = spec.train.optimizer.vectors().max(1);
    1 + optimizer + spec.strategy.own_vectors(role, spec.cluster.workers()) + codec
}

/// The checkpoints of a run at one time, in bytes: those that are kept, and the one that is being written.
pub(super) fn checkpoints_of(spec: &RunSpec) -> u64 {
    let states = spec.cluster.placements.iter().map(|placement| state_vectors(spec, placement.role));
    let each = states.sum::<u64>().saturating_mul(FLOAT * spec.parameters_per_worker() as u64);
    each.saturating_mul(KEPT as u64 + 1)
}

/// The samples in an extent of the training.
fn samples_of(spec: &RunSpec, extent: Extent) -> u64 {
    extent.samples(training_samples(spec), spec.train.global_batch)
}

/// Samples of the training file.
fn training_samples(spec: &RunSpec) -> u64 {
    match &spec.dataset.source {
        Source::Synthetic { train, .. } => u64::from(*train),
        Source::Mnist { .. } | Source::FashionMnist { .. } => 60_000,
        Source::Cifar10 { .. } | Source::Cifar100 { .. } => 50_000,
        Source::ImageFolder { pictures, .. } => u64::from(pictures.train),
        Source::Npy { arrays, .. } | Source::Safetensors { arrays, .. } => u64::from(arrays.train),
        Source::TextLines { text, .. } => u64::from(text.train),
        Source::Text { texts, .. } => u64::from(texts.size.train),
    }
}
