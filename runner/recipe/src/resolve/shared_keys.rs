//! Keys of which several files read the value or name the place: here, so that no file depends on another for a key alone.
//! A key that only one file needs is declared there.

use crate::keys::lookup::{KeyId, id};
use crate::values::typed_key::{Defaulted, Optional};
use crate::{
    AveragedBy, CollectiveKind, CompressionKind, DatasetKind, ModelKind, QuantizeRange, ReduceOrder, Serve,
    StrategyKind, TextTokens, Topology,
};
use std::time::Duration;

pub(crate) const MODEL_KIND: Defaulted<ModelKind> = Defaulted::choice("model.kind");
pub(crate) const MODEL_LAYERS: KeyId = id("model.layers");

pub(crate) const DATASET_KIND: Defaulted<DatasetKind> = Defaulted::choice("dataset.kind");
pub(crate) const DATASET_PATH: KeyId = id("dataset.path");
pub(crate) const TRAIN_SAMPLES: Defaulted<u64> = Defaulted::whole("dataset.train");
pub(crate) const CONTEXT: Defaulted<u64> = Defaulted::whole("dataset.context");
pub(crate) const TOKENS: Defaulted<TextTokens> = Defaulted::choice("dataset.tokens");
pub(crate) const VALIDATION: Defaulted<f64> = Defaulted::number("dataset.validation");

/// Samples per step of all workers together.
pub(crate) const GLOBAL_BATCH: Optional<u64> = Optional::whole("train.global-batch");
/// Samples per step of each worker.
pub(crate) const WORKER_BATCH: Optional<u64> = Optional::whole("train.per-worker-batch");
pub(crate) const EPOCHS: Optional<f64> = Optional::number("train.epochs");
pub(crate) const STEPS: Optional<u64> = Optional::whole("train.steps");
pub(crate) const ACCUMULATE: Defaulted<u64> = Defaulted::whole("train.accumulate");
pub(crate) const MOMENTUM: Defaulted<f64> = Defaulted::number("train.optimizer.momentum");
pub(crate) const CLIP: Optional<f64> = Optional::number("train.optimizer.clip");

pub(crate) const USED_NODES: KeyId = id("nodes.use");
pub(crate) const INVENTORY: KeyId = id("nodes.inventory");
pub(crate) const WORKERS: Optional<u64> = Optional::whole("nodes.workers");
pub(crate) const THREADS: Optional<u64> = Optional::whole("nodes.threads");
pub(crate) const COPY_DATA: Defaulted<bool> = Defaulted::flag("nodes.copy-data");

/// The kind of the cell's strategy; [`crate::Strategy::kind`] is the same once the settings are resolved.
pub(crate) const STRATEGY_KIND: Optional<StrategyKind> = Optional::choice("strategy.kind");
pub(crate) const SERVERS: Defaulted<u64> = Defaulted::whole("strategy.servers");
pub(crate) const SERVE: Optional<Serve> = Optional::choice("strategy.serve");
pub(crate) const PERIOD: Optional<u64> = Optional::whole("strategy.period");
pub(crate) const GRADIENT_SEGMENTS: Defaulted<u64> = Defaulted::whole("strategy.gradient-segments");
pub(crate) const TOPOLOGY: Defaulted<Topology> = Defaulted::choice("strategy.topology");
pub(crate) const RHO: Optional<f64> = Optional::number("strategy.rho");
pub(crate) const MOVING_RATE: Optional<f64> = Optional::number("strategy.moving-rate");
pub(crate) const MP: Defaulted<u64> = Defaulted::whole("strategy.mp");
pub(crate) const AVERAGE_EVERY: Optional<u64> = Optional::whole("strategy.average-every");
pub(crate) const AVERAGED_BY: Defaulted<AveragedBy> = Defaulted::choice("strategy.averaged-by");

pub(crate) const COLLECTIVE_KIND: Defaulted<CollectiveKind> =
    Defaulted::choice("communication.collective.kind");
pub(crate) const REDUCE_ORDER: Defaulted<ReduceOrder> = Defaulted::choice("communication.reduce-order");

pub(crate) const COMPRESSION_KIND: Defaulted<CompressionKind> = Defaulted::choice("compression.kind");
pub(crate) const CODED_PARAMETERS: Defaulted<bool> = Defaulted::flag("compression.parameters");
pub(crate) const RANGE: Defaulted<QuantizeRange> = Defaulted::choice("compression.range");

pub(crate) const RUN_TIMEOUT: Optional<Duration> = Optional::duration("limits.run-timeout");
