//! One cell's settings to what its runs do, with everything that is impossible about them.

use crate::all_reduce;
use crate::architecture::{self, Misfit, Task};
use crate::arm_keys::ELASTIC;
use crate::assign;
use crate::coding;
use crate::elastic;
use crate::files::Machine;
use crate::gossip;
use crate::key::{KeyId, id};
use crate::layers::LayerSetting;
use crate::method;
use crate::problem::Finding;
use crate::range;
use crate::setting::{Settings, Typed};
use crate::source::Span;
use crate::surroundings;
use crate::value;
use crate::{
    Cluster, Collective, Communication, Dataset, Extent, Init, KeptModels, LrScale, LrSchedule, LrShape,
    Measure, Metric, Model, Partition, ReduceOrder, RunSpec, Sampling, Schedule, Sgd, Source, Strategy,
    Target, Threads, Training,
};
use std::collections::BTreeMap;

const MODEL_KIND: KeyId = id("model.kind");
const INIT: KeyId = id("model.init");
const LAYERS: KeyId = id("model.layers");
const DATASET_KIND: KeyId = id("dataset.kind");
const DATASET_PATH: KeyId = id("dataset.path");
const TRAIN_SAMPLES: KeyId = id("dataset.train");
const TEST_SAMPLES: KeyId = id("dataset.test");
const DATASET_SEED: KeyId = id("dataset.seed");
const PARTITION_KIND: KeyId = id("dataset.partition.kind");
const ALPHA: KeyId = id("dataset.partition.alpha");
const SAMPLING: KeyId = id("dataset.sampling");
const VALIDATION: KeyId = id("dataset.validation");
const GLOBAL_BATCH: KeyId = id("train.global-batch");
const WORKER_BATCH: KeyId = id("train.per-worker-batch");
pub(crate) const EPOCHS: KeyId = id("train.epochs");
const STEPS: KeyId = id("train.steps");
pub(crate) const LR: KeyId = id("train.optimizer.lr");
pub(crate) const OWN_LR: KeyId = id("strategy.lr");
pub(crate) const MOMENTUM: KeyId = id("train.optimizer.momentum");
const WEIGHT_DECAY: KeyId = id("train.optimizer.weight-decay");
const LR_KIND: KeyId = id("train.lr-schedule.kind");
const LR_EVERY: KeyId = id("train.lr-schedule.every");
const LR_FACTOR: KeyId = id("train.lr-schedule.factor");
const LR_AT: KeyId = id("train.lr-schedule.at");
const LR_FLOOR: KeyId = id("train.lr-schedule.floor");
pub(crate) const LR_SCALE: KeyId = id("train.lr-schedule.scale");
const REFERENCE_BATCH: KeyId = id("train.lr-schedule.reference-batch");
pub(crate) const CLIP: KeyId = id("train.optimizer.clip");
const ACCUMULATE: KeyId = id("train.accumulate");
const WARMUP: KeyId = id("train.lr-schedule.warmup");
const EVALUATE: KeyId = id("train.evaluate");
const METRIC: KeyId = id("train.target.metric");
const AT_LEAST: KeyId = id("train.target.at-least");
const AT_MOST: KeyId = id("train.target.at-most");
const AFTER: KeyId = id("train.target.after");
const STOP: KeyId = id("train.target.stop");
pub(crate) const STRATEGY_KIND: KeyId = id("strategy.kind");
const FIRST_STEPS: KeyId = id("measure.trace.first-steps");
const TRACE_EVERY: KeyId = id("measure.trace.every");
const WEIGHT_HASH: KeyId = id("measure.weight-hash");
const SAMPLES: KeyId = id("measure.samples");
const MODELS: KeyId = id("measure.models");

/// What decides a model: its kind, where its own layers are written, and the data.
type Blueprint = (&'static str, Option<Span>, Task);

/// Builds specifications; remembers the models, since thousands of cells share a few.
pub(crate) struct Resolver<'a> {
    machine: Machine,
    /// Where the recipe's tables begin: the place for what is missing from them.
    sections: &'a BTreeMap<String, Span>,
    models: BTreeMap<Blueprint, (Model, Option<Misfit>)>,
}

/// One cell's settings and what is wrong about them so far.
struct Cell<'a> {
    settings: &'a Settings,
    findings: Vec<Finding>,
}

impl<'a> Resolver<'a> {
    pub(crate) fn new(machine: Machine, sections: &'a BTreeMap<String, Span>) -> Self {
        Self { machine, sections, models: BTreeMap::new() }
    }

    /// What a cell's runs do, and why they cannot where they cannot.
    ///
    /// The specification is complete in any case: an excluded cell may be an impossible one.
    pub(crate) fn resolve(&mut self, settings: &Settings) -> (RunSpec, Vec<Finding>) {
        let mut cell = Cell { settings, findings: Vec::new() };
        let strategy = method::strategy(settings);
        cell.findings.extend(method::findings(settings, &strategy));
        let (cluster, findings) = assign::cluster(settings, &strategy, self.machine);
        cell.findings.extend(findings);
        cell.findings.extend(coding::findings(settings));
        cell.findings.extend(range::findings(settings, cluster.workers()));
        cell.findings.extend(gossip::findings(settings, &strategy, cluster.workers()));
        let workers = cluster.workers();
        let dataset = Self::dataset(settings);
        let (emulation, findings) = surroundings::emulation(settings, &cluster, self.machine);
        cell.findings.extend(findings);
        let train = self.training(&mut cell, workers, &dataset);
        cell.findings.extend(elastic::findings(settings, (&strategy, workers), &train));
        let spec = RunSpec {
            model: self.model(&mut cell),
            train,
            communication: communication(&mut cell, &strategy, &cluster),
            dataset,
            cluster,
            strategy,
            compression: coding::compression(settings),
            measure: measure(settings),
            emulation,
            // Decided for all cells of a condition, when all are known.
            threads: Threads::default(),
        };
        cell.findings.extend(coding::nothing_to_factor(settings, &spec.model));
        cell.findings.extend(elastic::long_period(settings, &spec.strategy, batches(settings, &spec)));
        (spec, cell.findings)
    }

    fn section(&self, name: &str) -> Option<Span> {
        self.sections.get(name).copied()
    }

    fn missing(&self, key: KeyId, why: &str) -> Finding {
        let key = key.key();
        let section = key.path.split('.').next().unwrap_or_default();
        Finding::new("R010", format!("`{}` is missing{why}", key.path))
            .at_option(self.section(section), format!("`{}` belongs here", key.name()))
            .cure(format!("write `{} = {}`, for example", key.name(), key.example))
            .note(value::more(key.path))
    }

    fn model(&mut self, cell: &mut Cell<'_>) -> Model {
        let settings = cell.settings;
        let kind = settings.choice(MODEL_KIND);
        let task = task(settings.choice(DATASET_KIND));
        let own: &[LayerSetting] = match settings.get(LAYERS).map(|leaf| &leaf.typed) {
            Some(Typed::Layers(layers)) => layers,
            _ => &[],
        };
        if kind == "sequential" && own.is_empty() {
            cell.findings.push(self.missing(LAYERS, " from a sequential model"));
        }
        let (model, misfit) = self.models.entry((kind, settings.span(LAYERS), task)).or_insert_with(|| {
            let layers = architecture::layers(kind, task.classes)
                .unwrap_or_else(|| own.iter().map(|setting| setting.layer.clone()).collect());
            architecture::place(kind, &layers, task)
        });
        if let Some(misfit) = misfit
            && !(kind == "sequential" && own.is_empty())
        {
            let span = own.get(misfit.layer).map(|setting| setting.span).filter(|_| kind == "sequential");
            let number = misfit.layer + 1;
            cell.findings.push(
                Finding::new("R109", format!("layer {number} of the model does not fit: {}", misfit.reason))
                    .at_option(span.or(settings.span(MODEL_KIND)), "does not fit")
                    .at_option(settings.span(DATASET_KIND), "the data"),
            );
        }
        let init = match settings.choice(INIT) {
            "xavier" => Init::Xavier,
            "kaiming" => Init::Kaiming,
            _ => Init::Pytorch,
        };
        Model { init, ..model.clone() }
    }

    fn dataset(settings: &Settings) -> Dataset {
        let path = settings.path(DATASET_PATH).cloned().unwrap_or_default();
        let kind = settings.choice(DATASET_KIND);
        let source = match kind {
            "mnist" => Source::Mnist { path },
            "fashion-mnist" => Source::FashionMnist { path },
            "cifar10" => Source::Cifar10 { path },
            "cifar100" => Source::Cifar100 { path },
            _ => Source::Synthetic {
                train: settings.whole(TRAIN_SAMPLES).unwrap_or(0) as u32,
                test: settings.whole(TEST_SAMPLES).unwrap_or(0) as u32,
                seed: settings.whole(DATASET_SEED).unwrap_or(0),
            },
        };
        let partition = match settings.choice(PARTITION_KIND) {
            "sharded" => Partition::Sharded,
            "dirichlet" => Partition::Dirichlet { alpha: settings.number(ALPHA).unwrap_or(1.0) },
            _ => Partition::Shared,
        };
        let sampling = match settings.choice(SAMPLING) {
            "with-replacement" => Sampling::WithReplacement,
            _ => Sampling::Permutation,
        };
        Dataset { source, partition, validation: settings.number(VALIDATION).unwrap_or(0.0), sampling }
    }

    fn training(&self, cell: &mut Cell<'_>, workers: u32, dataset: &Dataset) -> Training {
        let settings = cell.settings;
        let global_batch = self.batch(cell, workers);
        samples(cell, global_batch, workers, dataset);
        Training {
            global_batch,
            length: self.length(cell),
            optimizer: Sgd {
                lr: settings.number(OWN_LR).or(settings.number(LR)).unwrap_or(0.0) as f32,
                momentum: settings.number(MOMENTUM).unwrap_or(0.0) as f32,
                weight_decay: settings.number(WEIGHT_DECAY).unwrap_or(0.0) as f32,
                clip: settings.number(CLIP).map(|norm| norm as f32),
            },
            accumulate: settings.whole(ACCUMULATE).unwrap_or(1) as u32,
            schedule: self.lr_schedule(cell),
            evaluate: settings.extent(EVALUATE).unwrap_or(Extent::Epochs(1.0)),
            target: self.target(cell),
        }
    }

    /// Samples per step of all workers together.
    fn batch(&self, cell: &mut Cell<'_>, workers: u32) -> u32 {
        let settings = cell.settings;
        let batch = match (settings.whole(GLOBAL_BATCH), settings.whole(WORKER_BATCH)) {
            (Some(global), None) => global,
            (None, Some(own)) => own * u64::from(workers),
            (Some(global), Some(_)) => {
                cell.findings.push(
                    Finding::new(
                        "R016",
                        "`train.global-batch` and `train.per-worker-batch` say the same twice",
                    )
                    .at_option(settings.span(WORKER_BATCH), "one of the two")
                    .at_option(settings.span(GLOBAL_BATCH), "the other")
                    .cure("keep `global-batch` to compare the same training on different numbers of workers"),
                );
                global
            }
            (None, None) => {
                cell.findings.push(self.missing(GLOBAL_BATCH, " (or `train.per-worker-batch`)"));
                u64::from(workers)
            }
        };
        if batch < u64::from(workers) {
            cell.findings.push(
                Finding::new(
                    "R101",
                    format!("a global batch of {batch} cannot be shared by {workers} workers"),
                )
                .at_option(settings.span(GLOBAL_BATCH), "samples per step of all workers together")
                .at_option(settings.span(assign::WORKERS).or(settings.span(assign::USE)), "the workers")
                .cure("take a larger batch or fewer workers"),
            );
        }
        u32::try_from(batch).unwrap_or(u32::MAX)
    }

    fn length(&self, cell: &mut Cell<'_>) -> Extent {
        let settings = cell.settings;
        match (settings.number(EPOCHS), settings.whole(STEPS)) {
            (Some(epochs), None) => Extent::Epochs(epochs),
            (None, Some(steps)) => Extent::Steps(steps),
            (Some(epochs), Some(_)) => {
                cell.findings.push(
                    Finding::new("R016", "`train.epochs` and `train.steps` both say how long to train")
                        .at_option(settings.span(STEPS), "one of the two")
                        .at_option(settings.span(EPOCHS), "the other")
                        .cure("keep one of them"),
                );
                Extent::Epochs(epochs)
            }
            (None, None) => {
                cell.findings.push(self.missing(EPOCHS, " (or `train.steps`)"));
                Extent::Steps(1)
            }
        }
    }

    fn lr_schedule(&self, cell: &mut Cell<'_>) -> LrSchedule {
        let settings = cell.settings;
        let factor = settings.number(LR_FACTOR).unwrap_or(1.0) as f32;
        let shape = match settings.choice(LR_KIND) {
            "step" => {
                if settings.given(LR_EVERY).is_none() {
                    cell.findings.push(self.missing(LR_EVERY, " from a step schedule"));
                }
                LrShape::Step { every: settings.extent(LR_EVERY).unwrap_or(Extent::Epochs(1.0)), factor }
            }
            "milestones" => {
                if settings.given(LR_AT).is_none() {
                    cell.findings.push(self.missing(LR_AT, " from a schedule with milestones"));
                }
                LrShape::Milestones { at: settings.extents(LR_AT).to_vec(), factor }
            }
            "cosine" => LrShape::Cosine { floor: settings.number(LR_FLOOR).unwrap_or(0.0) as f32 },
            _ => LrShape::Constant,
        };
        let scale = Self::lr_scale(cell);
        LrSchedule { shape, warmup: settings.extent(WARMUP).unwrap_or(Extent::Steps(0)), scale }
    }

    fn lr_scale(cell: &mut Cell<'_>) -> LrScale {
        let settings = cell.settings;
        let reference = settings.whole(REFERENCE_BATCH);
        if settings.choice(LR_SCALE) != "linear" {
            if let Some(leaf) = settings.given(REFERENCE_BATCH) {
                cell.findings.push(
                    Finding::new(
                        "R114",
                        "`train.lr-schedule.reference-batch` has no effect on a rate that is not scaled",
                    )
                    .at_option(leaf.span, "without effect")
                    .cure("write `scale = \"linear\"` beside it, or leave it out"),
                );
            }
            return LrScale::None;
        }
        // Without any batch, that is what is missing, and it is reported already.
        if reference.is_none()
            && settings.whole(WORKER_BATCH).is_none()
            && settings.whole(GLOBAL_BATCH).is_some()
        {
            cell.findings.push(
                Finding::new("R010", "`train.lr-schedule.reference-batch` is missing: which batch is the rate right for?")
                    .at_option(settings.span(LR_SCALE), "scaled by the global batch divided by what?")
                    .at_option(settings.span(GLOBAL_BATCH), "the same for any number of workers")
                    .note("linear scaling follows the batch, not the workers: with a fixed global batch there is nothing to scale for")
                    .cure("write `reference-batch = 32`, for example, give the batch as `per-worker-batch`, or leave `scale` out")
                    .note(value::more(REFERENCE_BATCH.key().path)),
            );
        }
        let reference = reference.or(settings.whole(WORKER_BATCH)).unwrap_or(1);
        LrScale::Linear { reference_batch: reference as u32 }
    }

    fn target(&self, cell: &mut Cell<'_>) -> Option<Target> {
        let settings = cell.settings;
        [METRIC, AT_LEAST, AT_MOST, AFTER, STOP].iter().find_map(|key| settings.given(*key))?;
        let name = settings.choice(METRIC);
        let metric = *Metric::ALL.iter().find(|metric| metric.name() == name)?;
        let (right, wrong) =
            if metric.higher_is_better() { (AT_LEAST, AT_MOST) } else { (AT_MOST, AT_LEAST) };
        if settings.given(wrong).is_some() {
            let (wrong, right) = (wrong.key().name(), right.key().name());
            cell.findings.push(
                Finding::new("R112", format!("a target for {metric} has `{right}`, not `{wrong}`"))
                    .at_option(
                        settings.span(if right == "at-least" { AT_MOST } else { AT_LEAST }),
                        "other way round",
                    )
                    .at_option(settings.span(METRIC), "the metric"),
            );
        } else if settings.given(right).is_none() {
            cell.findings.push(self.missing(right, ": a target says what is to be reached"));
        }
        if metric.needs_validation() && settings.number(VALIDATION).unwrap_or(0.0) <= 0.0 {
            cell.findings.push(
                Finding::new("R108", format!("{metric} cannot be measured: nothing is held out"))
                    .at_option(settings.span(METRIC), "needs a validation split")
                    .at_option(settings.span(VALIDATION), "nothing is held out")
                    .cure("set `dataset.validation = 0.1`, or take a test metric"),
            );
        }
        let threshold = settings.number(right).unwrap_or(0.0);
        Some(Target { metric, threshold, after: settings.duration(AFTER), stop: settings.flag(STOP) })
    }
}

/// Whether there is enough data, as far as that is known before it is read.
fn samples(cell: &mut Cell<'_>, batch: u32, workers: u32, dataset: &Dataset) {
    let settings = cell.settings;
    let Source::Synthetic { train, .. } = dataset.source else { return };
    let held_out = (f64::from(train) * dataset.validation).round() as u32;
    let left = train.saturating_sub(held_out);
    if batch.max(workers) > left {
        cell.findings.push(
            Finding::new(
                "R111",
                format!("a global batch of {batch} is more than the {left} training samples"),
            )
            .at_option(settings.span(GLOBAL_BATCH).or(settings.span(WORKER_BATCH)), "the batch")
            .at_option(settings.span(TRAIN_SAMPLES).or(settings.span(VALIDATION)), "the data")
            .cure("take a smaller batch or draw more samples with `dataset.train`"),
        );
    }
    if dataset.validation > 0.0 && held_out == 0 {
        cell.findings.push(
            Finding::new(
                "R111",
                format!("{} of {train} samples is not a single one to hold out", dataset.validation),
            )
            .at_option(settings.span(VALIDATION), "too small"),
        );
    }
}

/// Steps of a training, where they are given and known before the data is read.
fn batches(settings: &Settings, spec: &RunSpec) -> Option<u64> {
    if settings.number(EPOCHS).is_none() && settings.whole(STEPS).is_none() {
        return None;
    }
    let Training { length, global_batch, .. } = &spec.train;
    match (length, &spec.dataset.source) {
        (Extent::Steps(steps), _) => Some(*steps),
        (Extent::Epochs(_), Source::Synthetic { train, .. }) => {
            let held_out = (f64::from(*train) * spec.dataset.validation).round() as u64;
            let known = u64::from(*train).saturating_sub(held_out);
            Some(length.samples(known, *global_batch) / u64::from(*global_batch).max(1))
        }
        (Extent::Epochs(_), _) => None,
    }
}

/// What the examples of a data set look like.
fn task(dataset: &str) -> Task {
    match dataset {
        "cifar10" => Task { input: (3, 32, 32), classes: 10 },
        "cifar100" => Task { input: (3, 32, 32), classes: 100 },
        _ => Task { input: (1, 28, 28), classes: 10 },
    }
}

/// Keys that change nothing about a strategy: servers add in rank order or as gradients come, and there is no
/// all-reduce, and neighbours of gossip do not either.
pub(crate) fn ignored(strategy: &str, key: KeyId) -> bool {
    if key == coding::PARAMETERS {
        return coding::sends_no_weights(strategy);
    }
    let reduces = !matches!(
        strategy,
        "ps-sync" | "async-sgd" | "async-msgd" | "hogwild-sgd" | "d-psgd" | "ad-psgd" | "sgp"
    ) && !ELASTIC.contains(&strategy);
    !reduces && all_reduce::KEYS.contains(&key)
}

fn communication(cell: &mut Cell<'_>, strategy: &Strategy, cluster: &Cluster) -> Communication {
    // A centre on the first worker has its own tree.
    let own_way =
        strategy.servers() > 0 || gossip::is(strategy) || matches!(strategy, Strategy::EasgdSync { .. });
    let (collective, reduce_order) = if own_way {
        (Collective::Star, ReduceOrder::Rank)
    } else {
        all_reduce::read(cell.settings, cluster, &mut cell.findings)
    };
    Communication { collective, schedule: Schedule::Single, reduce_order }
}

fn measure(settings: &Settings) -> Measure {
    Measure {
        trace_first_steps: settings.whole(FIRST_STEPS).unwrap_or(0),
        trace_every: settings.whole(TRACE_EVERY).unwrap_or(0),
        hash_every_step: settings.choice(WEIGHT_HASH) == "step",
        samples: settings.flag(SAMPLES),
        models: if settings.choice(MODELS) == "all" { KeptModels::All } else { KeptModels::Judged },
    }
}
