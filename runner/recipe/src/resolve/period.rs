//! Periods that are too long for the training.

use crate::Strategy;
use crate::resolve::shared_keys::PERIOD;
use crate::spec::strategy_kind::ExchangeThrough;
use crate::text::finding::Finding;
use crate::values::settings::Settings;

/// A period after which much of the training has no effect, or a setting has none. `batches` is the number of steps of the
/// training, where that is known before the data is read.
pub(crate) fn long_period(settings: &Settings, strategy: &Strategy, batches: Option<u64>) -> Option<Finding> {
    let batches = batches?;
    match (strategy, strategy.kind().profile().exchange) {
        (Strategy::Slowmo { period, slow_momentum, .. }, _) => {
            idle_momentum(settings, SlowRound { period: *period, batches, slow_momentum: *slow_momentum })
        }
        (_, ExchangeThrough::Centre) => seldom_visited(settings, strategy.period(), batches),
        (
            _,
            ExchangeThrough::AllReduce
            | ExchangeThrough::SyncServer
            | ExchangeThrough::AsyncServer
            | ExchangeThrough::Neighbours,
        ) => None,
    }
}

/// The first round of an outer optimizer, and the training, in steps.
struct SlowRound {
    period: u64,
    batches: u64,
    slow_momentum: f32,
}

/// A training of one round: its outer step is taken with the momentum of the start, which is 0.
fn idle_momentum(settings: &Settings, round: SlowRound) -> Option<Finding> {
    let SlowRound { period, batches, slow_momentum } = round;
    if period < batches || slow_momentum <= 0.0 {
        return None;
    }
    let what =
        format!("the slow momentum has no effect: a period of {period} steps in a training of {batches}");
    Some(
        Finding::new("R135", what)
            .at_option(settings.span(PERIOD), "steps between two averages")
            .note("the outer optimizer takes one step, at the end, before its momentum has a direction")
            .cure(format!("take a period of up to {}, or train for longer", (batches / 10).max(1))),
    )
}

/// A training in which workers exchange with the centre once or not at all.
fn seldom_visited(settings: &Settings, period: u64, batches: u64) -> Option<Finding> {
    if period == 1 || period.saturating_mul(2) < batches {
        return None;
    }
    let (code, what) = if period >= batches {
        (
            "R133",
            format!(
                "no worker exchanges with the centre: a period of {period} steps in a training of {batches}"
            ),
        )
    } else {
        ("R207", format!("each worker exchanges with the centre once, after {period} of {batches} steps"))
    };
    Some(
        Finding::new(code, what)
            .at_option(settings.span(PERIOD), "steps between two exchanges")
            .note("what a worker does after its last exchange never reaches the centre, which the run is judged by")
            .cure(format!("take a period of up to {}, or train for longer", (batches / 10).max(1))),
    )
}
