//! Settings of `communication.schedule` to its description, and what cannot work about it.

use crate::keys::lookup::KeyId;
use crate::resolve::compression;
use crate::resolve::shared_keys::{
    AVERAGE_EVERY, CLIP, COMPRESSION_KIND, GRADIENT_SEGMENTS, RANGE, STRATEGY_KIND,
};
use crate::resolve::training;
use crate::spec::compression::NeedsWhole;
use crate::text::finding::Finding;
use crate::values::settings::Settings;
use crate::values::typed_key::Defaulted;
use crate::{Compression, ExchangeThrough, RunSpec, Schedule, ScheduleKind, Sends, StrategyKind};

const KIND: Defaulted<ScheduleKind> = Defaulted::choice("communication.schedule.kind");
const SIZE: Defaulted<u64> = Defaulted::size("communication.schedule.size");

/// The keys of a schedule, which have no effect on a strategy without one.
pub(crate) fn keys() -> [KeyId; 2] {
    [KIND.into(), SIZE.into()]
}

/// The schedule of a strategy; `single` where its gradients cannot travel layer by layer.
pub(crate) fn read(kind: StrategyKind, settings: &Settings) -> Schedule {
    if !kind.takes_schedule() {
        return Schedule::Single;
    }
    match KIND.of(settings) {
        ScheduleKind::Single => Schedule::Single,
        ScheduleKind::PerLayer => Schedule::PerLayer,
        ScheduleKind::Fixed => Schedule::Fixed { bytes: SIZE.of(settings) },
        ScheduleKind::Merged => Schedule::Merged,
        ScheduleKind::MergedExact => Schedule::MergedExact,
    }
}

/// Errors and warnings about a schedule.
pub(crate) fn findings(kind: StrategyKind, settings: &Settings) -> Vec<Finding> {
    let schedule = read(kind, settings);
    if schedule == Schedule::Single {
        return Vec::new();
    }
    let all = [
        nothing_to_hide_behind(kind, settings, schedule),
        in_pieces_already(settings, schedule),
        unknown_norm(kind, settings, schedule),
        weights_only(settings, schedule),
        needs_whole_gradient(kind, settings, schedule),
        planned_for_servers(kind, settings, schedule),
    ];
    all.into_iter().flatten().collect()
}

/// Weights leave before the step is computed, and a plan is made from when gradients are there.
fn nothing_to_hide_behind(kind: StrategyKind, settings: &Settings, schedule: Schedule) -> Option<Finding> {
    (kind.profile().sends == Sends::Weights && schedule.measured_steps() > 0).then(|| {
        Finding::new("R197", format!("`{}` plans by when gradients are there, and `{kind}` sends weights", schedule.kind()))
            .at_option(settings.span(KIND), "a plan for gradients")
            .at_option(settings.span(STRATEGY_KIND), "its weights are all there when a step begins")
            .cure("take `single`, `per-layer` or `fixed` for this strategy, and the plan for those that send gradients")
    })
}

fn in_pieces_already(settings: &Settings, schedule: Schedule) -> Option<Finding> {
    let pieces = compression::pieces(settings);
    (pieces > 1).then(|| {
        Finding::new(
            "R171",
            format!("the schedule `{}` and `gradient-segments` both divide a gradient", schedule.kind()),
        )
        .at_option(settings.span(KIND), "at the ends of layers")
        .at_option(settings.span(GRADIENT_SEGMENTS), format!("into {pieces} pieces"))
        .cure("leave `gradient-segments` out, or take the schedule `single`")
    })
}

fn is_served_together(kind: StrategyKind) -> bool {
    kind.profile().exchange == ExchangeThrough::SyncServer
}

fn unknown_norm(kind: StrategyKind, settings: &Settings, schedule: Schedule) -> Option<Finding> {
    CLIP.of(settings).filter(|_| is_served_together(kind))?;
    Some(
        Finding::new(
            "R172",
            format!("with the schedule `{}`, the server cannot clip gradients", schedule.kind()),
        )
        .at_option(settings.span(KIND), "layers are updated before the others arrive")
        .at_option(settings.span(CLIP), "the norm of the whole")
        .cure("take the schedule `single`, `kind = \"d-sync\"`, or no clipping"),
    )
}

/// Weights that are averaged now and then leave when a step is over.
fn weights_only(settings: &Settings, schedule: Schedule) -> Option<Finding> {
    AVERAGE_EVERY.of(settings)?;
    Some(
        Finding::new(
            "R173",
            format!("with `average-every`, the schedule `{}` has no gradients to send", schedule.kind()),
        )
        .at_option(settings.span(KIND), "gradients leave during the backward pass")
        .at_option(settings.span(AVERAGE_EVERY), "weights are averaged after it")
        .cure("leave `average-every` out, so that gradients are averaged in each step, or take the schedule `single`"),
    )
}

fn needs_whole_gradient(kind: StrategyKind, settings: &Settings, schedule: Schedule) -> Option<Finding> {
    let Compression::Coded { codec, .. } = compression::read(kind, settings) else { return None };
    let (code, title, place) = match codec.needs_whole() {
        NeedsWhole::Nothing | NeedsWhole::Projection => return None,
        NeedsWhole::Factors => (
            "R154",
            format!("`{}` factors a gradient as a whole", codec.name()),
            settings.span(COMPRESSION_KIND),
        ),
        NeedsWhole::Range => (
            "R157",
            "a gradient that travels layer by layer leaves before its largest element is known".to_owned(),
            settings.span(RANGE),
        ),
    };
    let kind = schedule.kind();
    Some(
        Finding::new(code, title)
            .at_option(
                settings.span(KIND),
                format!("`{kind}`: the last layers leave during the backward pass"),
            )
            .at_option(place, "needs all of it")
            .cure("take the schedule `single`, or another compression"),
    )
}

/// With one bucket, gradients of workers that were served last travel while others are served already; with several, all are served together.
fn planned_for_servers(kind: StrategyKind, settings: &Settings, schedule: Schedule) -> Option<Finding> {
    (is_served_together(kind) && schedule.measured_steps() > 0).then(|| {
        let schedule = schedule.kind();
        Finding::new("R232", format!("`{schedule}` may be slower than `single` through servers"))
            .at_option(settings.span(KIND), "plans several buckets")
            .at_option(
                settings.span(STRATEGY_KIND),
                "serves the workers together in each bucket, not one after the other",
            )
            .cure("compare it with `single` and `per-layer`, or take `kind = \"d-sync\"`")
    })
}

/// A warning about a plan that comes too late.
pub(crate) fn never_planned(settings: &Settings, spec: &RunSpec) -> Option<Finding> {
    let schedule = spec.communication.schedule;
    let train = &spec.train;
    let measured = schedule.measured_steps();
    let steps = training::steps(settings, spec)?;
    (measured > 0 && steps <= measured).then(|| {
        let kind = schedule.kind();
        Finding::new("R231", format!("the run is over before `{kind}` has a plan"))
            .at_option(settings.span(KIND), format!("measures {measured} steps, in which it hides nothing"))
            .at_option(settings.span(STRATEGY_KIND), format!("trains for {}", train.length))
            .cure("train longer, or take `per-layer` or `fixed`, which measure nothing")
    })
}
