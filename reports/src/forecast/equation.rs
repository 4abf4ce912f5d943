//! Which equations of which paper a step is predicted by, in a few words.

use recipe::{RunSpec, Schedule, Strategy, SyncVariant};

/// In how many messages a gradient travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Messages {
    One,
    /// Layer by layer, or in groups of layers.
    Several,
}

/// The equations of a run's step.
pub(super) fn equation(spec: &RunSpec, messages: Messages) -> &'static str {
    let whole = messages == Messages::One;
    match &spec.strategy {
        Strategy::DSync if whole => "Pipe-SGD Eq. 2",
        Strategy::DSync => layers(spec.communication.schedule),
        Strategy::PipeSgd { depth, .. } if *depth < 2 && whole => "Pipe-SGD Eq. 2",
        Strategy::PipeSgd { depth, .. } if *depth < 2 => layers(spec.communication.schedule),
        Strategy::PipeSgd { segments, .. } if whole && *segments > 1 => {
            "Pipe-SGD Eq. 4, communication of Eq. 6"
        }
        Strategy::PipeSgd { .. } if whole => "Pipe-SGD Eq. 4",
        Strategy::PipeSgd { .. } => "Pipe-SGD Eq. 4, sum of the messages",
        Strategy::LocalSgd { .. } | Strategy::Slowmo { .. } => "Pipe-SGD Eq. 2, one exchange per period",
        Strategy::PsSync if whole => "Pipe-SGD Eq. 2, workers served one by one",
        Strategy::PsSync => "messages one by one through the servers",
        Strategy::EasgdSync { variant: SyncVariant::Master | SyncVariant::FirstWorker, .. } => {
            "Pipe-SGD Eq. 2, SC17's log P down and up"
        }
        Strategy::EasgdSync { variant: SyncVariant::Overlapped, .. } => {
            "Pipe-SGD Eq. 4, SC17's log P both ways at once"
        }
        Strategy::Gmp { .. } => "exchanges within groups, averages between them",
        Strategy::AsyncSgd { .. }
        | Strategy::AsyncMsgd { .. }
        | Strategy::HogwildSgd { .. }
        | Strategy::EasgdOriginal { .. }
        | Strategy::EasgdAsync { .. }
        | Strategy::MeasgdAsync { .. }
        | Strategy::EasgdHogwild { .. }
        | Strategy::Eamsgd { .. }
        | Strategy::DPsgd { .. }
        | Strategy::AdPsgd { .. }
        | Strategy::Sgp
        | Strategy::Custom { .. } => "none",
    }
}

fn layers(schedule: Schedule) -> &'static str {
    match schedule {
        Schedule::Single | Schedule::PerLayer => "MG-WFBP Eq. 6 to 8",
        Schedule::Fixed { .. } | Schedule::Merged | Schedule::MergedExact => "MG-WFBP Eq. 19 to 21",
    }
}
