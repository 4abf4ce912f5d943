//! The memory that the processes of a run take on one machine.

use super::files::{copies_of, state_vectors};
use super::{FLOAT, Part, mebibytes};
use crate::Inventory;
use recipe::{ArrayValues, LayeredModel, Model, PayloadPath, Role, RunSpec, Source};

/// A worker process before it has a model or data: program, libraries and their first allocations.
pub(super) const PROCESS: u64 = 150 << 20;
/// More than any machine has, and little enough that sums over all ranks are in range.
const BEYOND_ALL: u64 = 1 << 46;
/// Vectors as long as the weights that every rank has: the weights, their gradient, the optimizer's first (a velocity), one that
/// is sent, one that is received, and the copy for the evaluator.
const VECTORS: u64 = 6;
/// The different words of labelled texts while they are counted: half a million of them, at about 128 bytes each.
const COUNTED_WORDS: u64 = 64 << 20;
/// Shared memory of a rank beside its packets, in bytes: a step of its growth, and for each other rank a page of
/// marks and a line of 64 KiB.
pub(super) const SHARED_STEP: u64 = 4 << 20;
pub(super) const SHARED_MARKS: u64 = 4096 + (64 << 10);

/// Memory that the processes of a run need, in bytes.
pub(super) struct Needs {
    weights: u64,
    /// Weights that are not trained.
    frozen: u64,
    /// Of a worker, the part of the weights that it holds.
    held: u64,
    /// Vectors as long as the weights, of a worker and of a server.
    vectors_of_worker: u64,
    vectors_of_server: u64,
    data: u64,
    /// Of a worker's share of the batch.
    activations: u64,
    /// Of each rank, in memory that ranks share.
    shared: u64,
    workers: u64,
    servers: u64,
    copies: u64,
    /// Vectors as long as the weights that the evaluator holds beside those of every model.
    of_evaluator: u64,
    /// Results of layers while models are evaluated.
    evaluated: u64,
    evaluator: bool,
}

/// Vectors as long as the weights that a model in a file takes beside those of every model: its initial weights, the module's
/// own tensors and their gradients; of an evaluator a second module.
struct FileVectors {
    worker: u64,
    evaluator: u64,
}

impl FileVectors {
    fn of(model: &Model) -> Self {
        match model {
            Model::Layers(_) => Self { worker: 0, evaluator: 0 },
            Model::File(_) => Self { worker: 3, evaluator: 3 },
        }
    }
}

impl Needs {
    pub(super) fn of(part: &Part<'_>, inventory: &Inventory) -> Self {
        let spec = part.spec;
        let workers = u64::from(part.workers);
        let servers = u64::from(part.servers);
        // A strategy of another crate has no servers.
        let custom = spec.strategy.custom_name().and_then(|name| inventory.strategies.get(name)).copied();
        let of_file = FileVectors::of(&spec.model);
        let own = |role| spec.strategy.own_vectors(role, spec.cluster.workers());
        // AdamW has two; which rank has the optimizer depends on the strategy.
        let vectors = VECTORS + spec.train.optimizer.vectors().saturating_sub(1);
        let all = u64::from(spec.cluster.workers());
        let batch = u64::from(spec.train.global_batch).div_ceil(all.max(1));
        Self {
            weights: FLOAT * spec.model.parameter_count() as u64,
            frozen: FLOAT * spec.model.frozen_weights() as u64,
            held: FLOAT * spec.parameters_per_worker() as u64,
            // A saved state is held until it is on the disk.
            vectors_of_worker: vectors
                + custom.unwrap_or(0)
                + of_file.worker
                + own(Role::Worker)
                + spec.compression.own_vectors()
                + state_vectors(spec, Role::Worker),
            vectors_of_server: vectors + own(Role::Server) + state_vectors(spec, Role::Server),
            data: data_of(&spec.dataset.source, batch),
            // Each with its gradient.
            activations: (batch * 2 * FLOAT)
                .saturating_mul(spec.activations_per_sample() as u64)
                .min(BEYOND_ALL),
            shared: shared_of(spec),
            workers,
            servers,
            copies: copies_of(spec),
            of_evaluator: of_file.evaluator,
            evaluated: spec.model.layered().map_or(0, evaluated_of),
            evaluator: part.evaluator,
        }
    }

    fn worker(&self) -> u64 {
        // Before a rank keeps its part, it draws the whole model and passes a batch through it once.
        let start = if self.held < self.weights { 2 * self.weights + self.held } else { 0 };
        let vectors = start.max(self.vectors_of_worker * self.held);
        PROCESS + vectors + self.frozen + self.data + self.activations + self.shared
    }

    fn server(&self) -> u64 {
        PROCESS + self.vectors_of_server * self.weights + self.shared
    }

    /// The model and a buffer; where models are averaged, their sums of 64 bits as well.
    fn evaluator(&self) -> u64 {
        let vectors = self.of_evaluator + if self.copies > 1 { 4 } else { 2 };
        PROCESS + vectors * self.weights + self.frozen + self.evaluated + self.data
    }

    /// The memory of all processes of the run, in bytes.
    pub(super) fn all(&self) -> u64 {
        let evaluator = if self.evaluator { self.evaluator() } else { 0 };
        self.workers * self.worker() + self.servers * self.server() + evaluator
    }

    /// The sum in words.
    pub(super) fn words(&self) -> String {
        let mut parts = Vec::new();
        if self.workers > 0 {
            parts.push(format!(
                "{} x {} for a worker: {} to run, {} x {} of weights, {} of data, {} of activations",
                self.workers,
                mebibytes(self.worker()),
                mebibytes(PROCESS),
                self.vectors_of_worker,
                mebibytes(self.held),
                mebibytes(self.data),
                mebibytes(self.activations)
            ));
        }
        if self.servers > 0 {
            parts.push(format!("{} x {} for a server", self.servers, mebibytes(self.server())));
        }
        if self.shared > 0 {
            parts.push(format!("{} of each rank is memory that ranks share", mebibytes(self.shared)));
        }
        if self.evaluator {
            parts.push(format!("{} for the evaluator", mebibytes(self.evaluator())));
        }
        parts.join("; ")
    }
}

/// The results of layers that live at once while samples are evaluated: what goes into the largest, what comes out, and what it computes
/// in between.
fn evaluated_of(model: &LayeredModel) -> u64 {
    const ALIVE: u64 = 4;
    ALIVE * FLOAT * (model.evaluated_at_once() * model.largest_result()) as u64
}

/// Bytes of shared memory that each rank takes beyond the vectors on their way: a packet that is still read while
/// the next is written.
fn shared_of(spec: &RunSpec) -> u64 {
    match spec.communication.transport {
        PayloadPath::Zeromq => 0,
        PayloadPath::SharedMemory => {
            SHARED_STEP
                + SHARED_MARKS * u64::from(spec.cluster.ranks())
                + FLOAT * spec.model.parameter_count() as u64
        }
    }
}

/// Of each picture of a folder, a name as cameras and data sets give it, with its end, its class and its number.
const NAME_OF_PICTURE: u64 = 48;
/// Decoded pictures that are being scaled: a few of 12 million pixels.
const DECODING: u64 = 64 << 20;
/// Batches of pictures that wait decoded, and the one that is being made ready.
const READY_BATCHES: u64 = 3;

/// The data as a process holds it, in bytes: one for each pixel, four for each float, twice four for each token (and more while a text is
/// read). Of a folder of
/// pictures, the names and a few batches of `batch` samples.
fn data_of(source: &Source, batch: u64) -> u64 {
    match source {
        Source::Synthetic { train, test, .. } => (u64::from(*train) + u64::from(*test)) * 28 * 28,
        Source::Mnist { .. } | Source::FashionMnist { .. } => 70_000 * 28 * 28,
        Source::Cifar10 { .. } | Source::Cifar100 { .. } => 60_000 * 3 * 32 * 32,
        Source::ImageFolder { pictures, .. } => {
            let names = NAME_OF_PICTURE * (u64::from(pictures.train) + u64::from(pictures.test));
            let seen = FLOAT * 3 * u64::from(pictures.crop) * u64::from(pictures.crop);
            names + DECODING + READY_BATCHES.saturating_mul(batch.saturating_mul(seen)).min(BEYOND_ALL)
        }
        Source::Npy { arrays, .. } | Source::Safetensors { arrays, .. } => {
            let value = match arrays.values {
                ArrayValues::Bytes => 1,
                ArrayValues::Floats => FLOAT,
            };
            let samples = u64::from(arrays.train) + u64::from(arrays.test);
            samples.saturating_mul(value.saturating_mul(arrays.shape.size() as u64))
        }
        // Each token is an input and a target; the text itself is read first.
        Source::TextLines { text, .. } => (2 * FLOAT + 4) * text.tokens,
        // Room for samples grows by doubling; the words of the training file are counted first.
        Source::Text { texts, .. } => {
            let samples = u64::from(texts.size.train) + u64::from(texts.size.test);
            samples.saturating_mul(2 * FLOAT * u64::from(texts.context)).saturating_add(COUNTED_WORDS)
        }
    }
}
