//! Settings of `train.lr-schedule` to its description.

use crate::keys::lookup::{KeyId, id};
use crate::resolve::cell::Cell;
use crate::resolve::shared_keys::{GLOBAL_BATCH, WORKER_BATCH};
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

/// A training in samples, as far as its schedule goes.
struct Horizon<'a> {
    settings: &'a Settings,
    train: &'a Training,
    trained_on: u64,
}

impl<'a> Horizon<'a> {
    /// `None` before the data is read.
    fn of(settings: &'a Settings, train: &'a Training, dataset: &Dataset) -> Option<Self> {
        let all = dataset.source.training_samples()?;
        let trained_on = all.saturating_sub(dataset.held_out().unwrap_or_default());
        Some(Self { settings, train, trained_on })
    }

    fn samples(&self, extent: Extent) -> u64 {
        extent.samples(self.trained_on, self.train.global_batch)
    }

    fn late(&self, title: String, key: KeyId) -> Finding {
        Finding::new("R210", title)
            .at_option(self.settings.span(key), "behind the end")
            .note(format!("it trains for {}", self.train.length))
            .cure("take less, or train for longer")
    }

    fn warm_up(&self) -> Option<Finding> {
        let warmup = self.train.schedule.warmup;
        (self.samples(warmup) > self.samples(self.train.length)).then(|| {
            let title = format!("the rate still rises when the training ends: its warm-up takes {warmup}");
            self.late(title, KeyId::from(WARMUP))
        })
    }

    fn never_falls(&self) -> Option<Finding> {
        let end = self.samples(self.train.length);
        match &self.train.schedule.shape {
            LrShape::Step { every, .. } if self.samples(*every) >= end => {
                let title = format!("the rate never falls: it would for the first time after {every}");
                Some(self.late(title, KeyId::from(EVERY)))
            }
            LrShape::Milestones { at, .. } => {
                let late = at.iter().find(|at| self.samples(**at) >= end)?;
                Some(self.late(format!("the rate never falls at {late}: the training is over by then"), AT))
            }
            LrShape::Constant | LrShape::Step { .. } | LrShape::Cosine { .. } => None,
        }
    }
}

/// Problems of a schedule with parts behind the end of the training.
pub(crate) fn findings(settings: &Settings, train: &Training, dataset: &Dataset) -> Vec<Finding> {
    let horizon = Horizon::of(settings, train, dataset);
    horizon
        .into_iter()
        .flat_map(|horizon| horizon.warm_up().into_iter().chain(horizon.never_falls()))
        .collect()
}

/// A warm-up that the training does not see the end of.
pub(crate) fn long_warm_up(settings: &Settings, train: &Training, dataset: &Dataset) -> Option<Finding> {
    Horizon::of(settings, train, dataset)?.warm_up()
}

/// A fall of the rate that the training to the end reaches, and rungs of a search do not: `rungs` are their lengths, the shortest first.
pub(crate) fn unreached(
    settings: &Settings,
    train: &Training,
    dataset: &Dataset,
    rungs: &[Extent],
) -> Option<Finding> {
    let horizon = Horizon::of(settings, train, dataset)?;
    let (first, key) = match &train.schedule.shape {
        LrShape::Step { every, .. } => (*every, KeyId::from(EVERY)),
        LrShape::Milestones { at, .. } => (*at.iter().min_by_key(|at| horizon.samples(**at))?, AT),
        LrShape::Constant | LrShape::Cosine { .. } => return None,
    };
    let falls = horizon.samples(first);
    let before: Vec<&Extent> = rungs.iter().filter(|rung| horizon.samples(**rung) <= falls).collect();
    // A third of an epoch has many digits.
    let last = match **before.last()? {
        Extent::Epochs(epochs) => Extent::Epochs((epochs * 100.0).round() / 100.0),
        steps @ Extent::Steps(_) => steps,
    };
    if horizon.samples(train.length) <= falls {
        return None;
    }
    let (which, train_for) = match before.len() {
        1 => ("the first rung".to_owned(), "trains"),
        several => (format!("the first {several} rungs"), "train"),
    };
    let longest = if before.len() == 1 { "" } else { "at most " };
    let title = format!(
        "{which} of `[search]` {train_for} for {longest}{last}, and the rate falls only after {first}"
    );
    Some(
        Finding::new("R215", title)
            .at_option(settings.span(key), "after these rungs")
            .note("settings are judged there by the rate that they begin with")
            .cure("let the rate fall earlier, take fewer rungs or a smaller factor, or `kind = \"cosine\"`, which falls over the length of each rung"),
    )
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
    // A missing batch is reported already.
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
