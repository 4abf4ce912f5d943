//! Settings of `train` to its description, and what cannot work about batch, length and target.

use crate::keys::lookup::KeyId;
use crate::resolve::cell::Cell;
use crate::resolve::shared_keys::{
    ACCUMULATE, DATASET_KIND, DATASET_PATH, EPOCHS, GLOBAL_BATCH, STEPS, STRATEGY_KIND, TRAIN_SAMPLES,
    USED_NODES, VALIDATION, WORKER_BATCH, WORKERS,
};
use crate::resolve::{checkpoint, lr_schedule, optimizer};
use crate::text::finding::Finding;
use crate::values::settings::Settings;
use crate::values::typed_key::{Defaulted, Optional};
use crate::{Dataset, DatasetKind, Extent, Metric, RunSpec, Target, TargetMetric, Targets, Training};
use std::time::Duration;

const EVALUATE: Defaulted<Extent> = Defaulted::extent("train.evaluate");
const METRIC: Defaulted<TargetMetric> = Defaulted::choice("train.target.metric");
const AT_LEAST: Optional<f64> = Optional::number("train.target.at-least");
const AT_MOST: Optional<f64> = Optional::number("train.target.at-most");
const AFTER: Optional<Duration> = Optional::duration("train.target.after");
const STOP: Defaulted<bool> = Defaulted::flag("train.target.stop");

/// The training that the settings describe.
pub(crate) fn read(cell: &mut Cell<'_>, workers: u32, dataset: &Dataset) -> Training {
    let settings = cell.settings;
    let global_batch = batch(cell, workers);
    check_samples(cell, global_batch, workers, dataset);
    cell.findings.extend(empty_pieces(cell, global_batch, workers));
    let optimizer = optimizer::read(cell);
    Training {
        global_batch,
        length: length(cell),
        optimizer,
        accumulate: ACCUMULATE.of(settings) as u32,
        schedule: lr_schedule::read(cell),
        evaluate: EVALUATE.of(settings),
        checkpoint: STRATEGY_KIND.of(settings).and_then(|kind| checkpoint::read(settings, kind)),
        target: target(cell, dataset),
    }
}

/// More pieces of a worker's share of the batch than it has samples.
fn empty_pieces(cell: &Cell<'_>, global_batch: u32, workers: u32) -> Option<Finding> {
    let settings = cell.settings;
    let pieces = ACCUMULATE.of(settings);
    let batch = settings.span(GLOBAL_BATCH).or(settings.span(WORKER_BATCH))?;
    let share = u64::from(global_batch / workers.max(1));
    (pieces > share.max(1)).then(|| {
        Finding::new("R196", format!("{pieces} pieces of a share of {share} samples: some would be empty"))
            .at_option(settings.span(ACCUMULATE), "pieces of each worker's share")
            .at_option(Some(batch), "the batch")
            .cure(format!("set `train.accumulate` to at most {}, or take a larger batch", share.max(1)))
    })
}

/// Samples per step of all workers together.
fn batch(cell: &mut Cell<'_>, workers: u32) -> u32 {
    let settings = cell.settings;
    let batch = match (GLOBAL_BATCH.of(settings), WORKER_BATCH.of(settings)) {
        (Some(global), None) => global,
        (None, Some(own)) => own * u64::from(workers),
        (Some(global), Some(_)) => {
            cell.findings.push(
                Finding::new("R016", "`train.global-batch` and `train.per-worker-batch` say the same twice")
                    .at_option(settings.span(WORKER_BATCH), "one of the two")
                    .at_option(settings.span(GLOBAL_BATCH), "the other")
                    .cure("keep `global-batch` to compare the same training on different numbers of workers"),
            );
            global
        }
        (None, None) => {
            cell.miss(GLOBAL_BATCH, " (or `train.per-worker-batch`)");
            u64::from(workers)
        }
    };
    if batch < u64::from(workers) {
        cell.findings.push(
            Finding::new("R101", format!("a global batch of {batch} cannot be shared by {workers} workers"))
                .at_option(settings.span(GLOBAL_BATCH), "samples per step of all workers together")
                .at_option(settings.span(WORKERS).or(settings.span(USED_NODES)), "the workers")
                .cure("take a larger batch or fewer workers"),
        );
    }
    u32::try_from(batch).unwrap_or(u32::MAX)
}

fn length(cell: &mut Cell<'_>) -> Extent {
    let settings = cell.settings;
    match (EPOCHS.of(settings), STEPS.of(settings)) {
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
            cell.miss(EPOCHS, " (or `train.steps`)");
            Extent::Steps(1)
        }
    }
}

fn target(cell: &mut Cell<'_>, dataset: &Dataset) -> Option<Target> {
    let settings = cell.settings;
    let keys = [METRIC.into(), AT_LEAST.into(), AT_MOST.into(), AFTER.into(), STOP.into()];
    keys.into_iter().find_map(|key: KeyId| settings.given(key))?;
    let metric = METRIC.of(settings).metric();
    let (right, wrong) = if metric.higher_is_better() { (AT_LEAST, AT_MOST) } else { (AT_MOST, AT_LEAST) };
    if settings.given(wrong).is_some() {
        cell.findings.push(
            Finding::new(
                "R112",
                format!("a target for {metric} has `{}`, not `{}`", right.name(), wrong.name()),
            )
            .at_option(settings.span(wrong), "other way round")
            .at_option(settings.span(METRIC), "the metric"),
        );
    } else if settings.given(right).is_none() {
        cell.miss(right, ": a target names the value to reach");
    }
    if metric.needs_validation() && VALIDATION.of(settings) <= 0.0 {
        cell.findings.push(
            Finding::new("R108", format!("{metric} cannot be measured: nothing is held out"))
                .at_option(settings.span(METRIC), "needs a validation split")
                .at_option(settings.span(VALIDATION), "nothing is held out")
                .cure("set `dataset.validation = 0.1`, or take a test metric"),
        );
    }
    if metric.needs_text() && dataset.source.profile().targets == Targets::Class {
        cell.findings.push(
            Finding::new("R181", format!("{metric} is that of a text, and the data has classes"))
                .at_option(settings.span(METRIC), "of a text")
                .at_option(settings.span(DATASET_KIND), "has classes")
                .cure("take an accuracy or a loss, or `dataset.kind = \"text-lines\"`"),
        );
    }
    cell.findings.extend(too_few_classes(cell, metric, dataset));
    cell.findings.extend(too_low_a_perplexity(cell, metric));
    // A target without a threshold is refused above, and its cell is never run.
    let threshold = right.of(settings).unwrap_or_default();
    Some(Target { metric, threshold, after: AFTER.of(settings), stop: STOP.of(settings) })
}

/// A perplexity that no model reaches.
fn too_low_a_perplexity(cell: &Cell<'_>, metric: Metric) -> Option<Finding> {
    let settings = cell.settings;
    let low = metric.needs_text() && AT_MOST.of(settings).is_some_and(|most| most < 1.0);
    low.then(|| {
        Finding::new("R195", format!("a {metric} is never below 1"))
            .at_option(settings.span(AT_MOST), "no model reaches it")
            .cure("1 is the perplexity of a model that knows each token beforehand; take a loss for a target in nats")
    })
}

/// A target among the five highest scores, where five are half of the classes or more, or where there are no classes.
fn too_few_classes(cell: &Cell<'_>, metric: Metric, dataset: &Dataset) -> Option<Finding> {
    let profile = dataset.source.profile();
    let most = Metric::FEW_CLASSES;
    let has = match profile.targets {
        Targets::NextTokens => "no classes".to_owned(),
        Targets::Class if profile.classes <= most => format!("{} classes", profile.classes),
        Targets::Class => return None,
    };
    let known = dataset.source.training_samples().is_some();
    (metric.needs_classes() && known).then(|| {
        Finding::new(
            "R194",
            format!("{metric} is that of data with more than {most} classes, and these have {has}"),
        )
        .at_option(cell.settings.span(METRIC), "of many classes")
        .at_option(cell.settings.span(DATASET_KIND), format!("has {has}"))
        .cure("take an accuracy or a loss")
    })
}

/// Whether there is enough data, as far as that is known before it is read.
fn check_samples(cell: &mut Cell<'_>, batch: u32, workers: u32, dataset: &Dataset) {
    let settings = cell.settings;
    let Some(train) = dataset.source.training_samples() else { return };
    let held_out = dataset.held_out().unwrap_or_default();
    let left = train.saturating_sub(held_out);
    if u64::from(batch.max(workers)) > left {
        let more = match dataset.source.kind() {
            DatasetKind::Synthetic => "draw more samples with `dataset.train`",
            DatasetKind::TextLines => "give a longer text or a shorter `dataset.context`",
            DatasetKind::Mnist
            | DatasetKind::FashionMnist
            | DatasetKind::Cifar10
            | DatasetKind::Cifar100
            | DatasetKind::ImageFolder
            | DatasetKind::Npy
            | DatasetKind::Safetensors
            | DatasetKind::Text => "give more samples",
        };
        cell.findings.push(
            Finding::new(
                "R111",
                format!("a global batch of {batch} is more than the {left} training samples"),
            )
            .at_option(settings.span(GLOBAL_BATCH).or(settings.span(WORKER_BATCH)), "the batch")
            .at_option(
                settings.span(TRAIN_SAMPLES).or(settings.span(DATASET_PATH)).or(settings.span(VALIDATION)),
                "the data",
            )
            .cure(format!("take a smaller batch or {more}")),
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

/// Steps of a training; `None` where the length is missing or their number depends on data that has not been read.
pub(crate) fn steps(settings: &Settings, spec: &RunSpec) -> Option<u64> {
    if EPOCHS.of(settings).is_none() && STEPS.of(settings).is_none() {
        return None;
    }
    spec.steps()
}
