//! Settings of `train.lr-schedule` to its description.

use crate::keys::lookup::{KeyId, id};
use crate::resolve::cell::{Cell, GLOBAL_BATCH, WORKER_BATCH};
use crate::text::finding::Finding;
use crate::values::settings::Settings;
use crate::values::typed_key::{Defaulted, Optional};
use crate::values::value;
use crate::{Dataset, Extent, LrScale, LrScaleKind, LrSchedule, LrShape, LrShapeKind, Training};

const KIND: Defaulted<LrShapeKind> = Defaulted::choice("train.lr-schedule.kind");
const EVERY: Optional<Extent> = Optional::extent("train.lr-schedule.every");
const AT: KeyId = id("train.lr-schedule.at");
const FACTOR: Defaulted<f64> = Defaulted::number("train.lr-schedule.factor");
const FLOOR: Defaulted<f64> = Defaulted::number("train.lr-schedule.floor");
const WARMUP: Defaulted<Extent> = Defaulted::extent("train.lr-schedule.warmup");
const SCALE: Defaulted<LrScaleKind> = Defaulted::choice("train.lr-schedule.scale");
const REFERENCE_BATCH: Optional<u64> = Optional::whole("train.lr-schedule.reference-batch");

/// The schedule that the settings describe.
pub(crate) fn read(cell: &mut Cell<'_>) -> LrSchedule {
    let settings = cell.settings;
    let factor = FACTOR.of(settings) as f32;
    let shape = match KIND.of(settings) {
        LrShapeKind::Constant => LrShape::Constant,
        LrShapeKind::Step => {
            if settings.given(EVERY).is_none() {
                cell.miss(EVERY, " from a step schedule");
            }
            // Without it the cell is refused, and never run.
            LrShape::Step { every: EVERY.of(settings).unwrap_or(Extent::Epochs(1.0)), factor }
        }
        LrShapeKind::Milestones => {
            if settings.given(AT).is_none() {
                cell.miss(AT, " from a schedule with milestones");
            }
            LrShape::Milestones { at: settings.extents(AT).to_vec(), factor }
        }
        LrShapeKind::Cosine => LrShape::Cosine { floor: FLOOR.of(settings) as f32 },
    };
    LrSchedule { shape, warmup: WARMUP.of(settings), scale: scale(cell) }
}

/// What of a schedule lies behind the end of the training.
pub(crate) fn findings(settings: &Settings, train: &Training, dataset: &Dataset) -> Vec<Finding> {
    let Some(all) = dataset.source.training_samples() else { return Vec::new() };
    let trained_on = all.saturating_sub(dataset.held_out().unwrap_or_default());
    let samples = |extent: Extent| extent.samples(trained_on, train.global_batch);
    let end = samples(train.length);
    let late = |title: String, key: KeyId| {
        Finding::new("R210", title)
            .at_option(settings.span(key), "behind the end")
            .note(format!("it trains for {}", train.length))
            .cure("take less, or train for longer")
    };
    let LrSchedule { shape, warmup, .. } = &train.schedule;
    let mut findings = Vec::new();
    if samples(*warmup) > end {
        let title = format!("the rate still rises when the training ends: its warm-up takes {warmup}");
        findings.push(late(title, KeyId::from(WARMUP)));
    }
    match shape {
        LrShape::Step { every, .. } if samples(*every) >= end => {
            let title = format!("the rate never falls: it would for the first time after {every}");
            findings.push(late(title, KeyId::from(EVERY)));
        }
        LrShape::Milestones { at, .. } => {
            findings.extend(
                at.iter().find(|at| samples(**at) >= end).map(|at| {
                    late(format!("the rate never falls at {at}: the training is over by then"), AT)
                }),
            );
        }
        LrShape::Constant | LrShape::Step { .. } | LrShape::Cosine { .. } => {}
    }
    findings
}

fn scale(cell: &mut Cell<'_>) -> LrScale {
    match SCALE.of(cell.settings) {
        LrScaleKind::None => {
            refuse_reference(cell);
            LrScale::None
        }
        LrScaleKind::Linear => LrScale::Linear { reference_batch: reference_batch(cell) as u32 },
    }
}

fn refuse_reference(cell: &mut Cell<'_>) {
    if let Some(leaf) = cell.settings.given(REFERENCE_BATCH) {
        cell.findings.push(
            Finding::new(
                "R114",
                "`train.lr-schedule.reference-batch` has no effect on a rate that is not scaled",
            )
            .at_option(leaf.span, "without effect")
            .cure("write `scale = \"linear\"` beside it, or leave it out"),
        );
    }
}

fn reference_batch(cell: &mut Cell<'_>) -> u64 {
    let settings = cell.settings;
    if let Some(reference) = REFERENCE_BATCH.of(settings).or_else(|| WORKER_BATCH.of(settings)) {
        return reference;
    }
    // Without any batch, that is what is missing, and it is reported already.
    if GLOBAL_BATCH.of(settings).is_none() {
        return 1;
    }
    cell.findings.push(
        Finding::new("R010", "`train.lr-schedule.reference-batch` is missing: which batch is the rate right for?")
            .at_option(settings.span(SCALE), "scaled by the global batch divided by what?")
            .at_option(settings.span(GLOBAL_BATCH), "the same for any number of workers")
            .note("linear scaling follows the batch, not the workers: with a fixed global batch there is nothing to scale for")
            .cure("write `reference-batch = 32`, for example, give the batch as `per-worker-batch`, or leave `scale` out")
            .note(value::more(REFERENCE_BATCH.path())),
    );
    1
}
