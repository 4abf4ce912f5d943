//! Settings of a strategy to its description, and what cannot work about them.

use crate::resolve::shared_keys::{
    CLIP, EPOCHS, GRADIENT_SEGMENTS, MOMENTUM, PERIOD, SERVE, SERVERS, STEPS, STRATEGY_KIND, TOPOLOGY,
};
use crate::resolve::{custom, elastic, hybrid};
use crate::text::finding::Finding;
use crate::values::settings::Settings;
use crate::values::typed_key::{Defaulted, Optional};
use crate::{Averaging, Extent, MixOrder, RunSpec, Strategy, StrategyKind};

const STALENESS_BOUND: Optional<u64> = Optional::whole("strategy.staleness-bound");
const OWN_MOMENTUM: Optional<f64> = Optional::number("strategy.momentum");
const DEPTH: Defaulted<u64> = Defaulted::whole("strategy.depth");
const WARMUP_EPOCHS: Defaulted<f64> = Defaulted::number("strategy.warmup-epochs");
const SLOW_MOMENTUM: Defaulted<f64> = Defaulted::number("strategy.slow-momentum");
const SLOW_LR: Defaulted<f64> = Defaulted::number("strategy.slow-lr");
const ORDER: Defaulted<MixOrder> = Defaulted::choice("strategy.order");
const AVERAGING: Defaulted<Averaging> = Defaulted::choice("strategy.averaging");
const OVERLAP: Defaulted<bool> = Defaulted::flag("strategy.overlap");
const LOOK_AHEAD: Defaulted<bool> = Defaulted::flag("strategy.look-ahead");

/// "Rule of thumb is 0.9 or a similar value": You, Buluc and Demmel, SC17, section 5.1.
const RULE_OF_THUMB: f64 = 0.9;

/// The strategy of a kind that the settings describe.
pub(crate) fn read(kind: StrategyKind, settings: &Settings) -> Strategy {
    let staleness_bound = STALENESS_BOUND.of(settings);
    let serve = SERVE.of(settings).unwrap_or(kind.profile().serve);
    let period = PERIOD.of(settings).unwrap_or(kind.profile().period);
    let momentum = momentum(settings) as f32;
    let moving_rate = elastic::moving_rate(settings);
    match kind {
        StrategyKind::PsSync => Strategy::PsSync,
        StrategyKind::DSync => Strategy::DSync,
        StrategyKind::AsyncSgd => Strategy::AsyncSgd { serve, staleness_bound },
        StrategyKind::AsyncMsgd => Strategy::AsyncMsgd { momentum, serve, staleness_bound },
        StrategyKind::HogwildSgd => Strategy::HogwildSgd { staleness_bound },
        StrategyKind::PipeSgd => Strategy::PipeSgd {
            depth: DEPTH.of(settings) as u32,
            warmup: Extent::Epochs(WARMUP_EPOCHS.of(settings)),
            segments: GRADIENT_SEGMENTS.of(settings) as u32,
        },
        StrategyKind::LocalSgd => Strategy::LocalSgd { period },
        StrategyKind::Slowmo => Strategy::Slowmo {
            period,
            slow_momentum: SLOW_MOMENTUM.of(settings) as f32,
            slow_lr: SLOW_LR.of(settings) as f32,
        },
        StrategyKind::DPsgd => Strategy::DPsgd { topology: TOPOLOGY.of(settings), order: ORDER.of(settings) },
        StrategyKind::AdPsgd => {
            Strategy::AdPsgd { topology: TOPOLOGY.of(settings), averaging: AVERAGING.of(settings) }
        }
        StrategyKind::Sgp => Strategy::Sgp,
        StrategyKind::EasgdOriginal => Strategy::EasgdOriginal { moving_rate, overlap: OVERLAP.of(settings) },
        StrategyKind::EasgdAsync => Strategy::EasgdAsync { moving_rate, period, serve },
        StrategyKind::MeasgdAsync => Strategy::MeasgdAsync { moving_rate, momentum, period, serve },
        StrategyKind::EasgdHogwild => Strategy::EasgdHogwild { moving_rate, period },
        StrategyKind::EasgdSync => Strategy::EasgdSync { moving_rate, variant: elastic::variant(settings) },
        StrategyKind::Eamsgd => {
            let look_ahead = LOOK_AHEAD.of(settings);
            Strategy::Eamsgd { moving_rate, momentum, period, serve, look_ahead }
        }
        StrategyKind::Gmp => hybrid::read(settings),
        StrategyKind::Custom => custom::strategy(settings),
    }
}

/// The strategy's own momentum, else that of the optimizer where it has one.
fn momentum(settings: &Settings) -> f64 {
    let trained = Some(MOMENTUM.of(settings)).filter(|momentum| *momentum > 0.0);
    OWN_MOMENTUM.of(settings).or(trained).unwrap_or(RULE_OF_THUMB)
}

/// Problem of a strategy with its settings, if there is one.
pub(crate) fn findings(settings: &Settings, strategy: &Strategy) -> Option<Finding> {
    match strategy {
        Strategy::AsyncSgd { .. } | Strategy::HogwildSgd { .. } => {
            foreign_momentum(settings, strategy, "take `kind = \"async-msgd\"`, whose server has a velocity")
        }
        Strategy::EasgdOriginal { .. }
        | Strategy::EasgdAsync { .. }
        | Strategy::EasgdHogwild { .. }
        | Strategy::EasgdSync { .. } => {
            let cure = "take `kind = \"measgd-async\"` or `\"eamsgd\"`, whose workers have velocities";
            foreign_momentum(settings, strategy, cure)
        }
        Strategy::PsSync => divided_norm(settings),
        Strategy::Custom { .. } => custom::STRATEGY.findings(settings, settings.span(STRATEGY_KIND)),
        Strategy::DSync
        | Strategy::PipeSgd { .. }
        | Strategy::AsyncMsgd { .. }
        | Strategy::LocalSgd { .. }
        | Strategy::Slowmo { .. }
        | Strategy::DPsgd { .. }
        | Strategy::AdPsgd { .. }
        | Strategy::Sgp
        | Strategy::Gmp { .. }
        | Strategy::MeasgdAsync { .. }
        | Strategy::Eamsgd { .. } => None,
    }
}

fn foreign_momentum(settings: &Settings, strategy: &Strategy, cure: &str) -> Option<Finding> {
    let momentum = Some(MOMENTUM.of(settings)).filter(|momentum| *momentum > 0.0)?;
    let kind = strategy.kind();
    Some(
        Finding::new("R118", format!("`{kind}` is defined without momentum, and {momentum} is asked for"))
            .at_option(settings.span(MOMENTUM), "the momentum")
            .at_option(settings.span(STRATEGY_KIND), "has none")
            .cure(format!("{cure}, or `momentum = 0.0`")),
    )
}

fn divided_norm(settings: &Settings) -> Option<Finding> {
    let servers = Some(SERVERS.of(settings)).filter(|servers| *servers > 1)?;
    CLIP.of(settings)?;
    Some(
        Finding::new(
            "R120",
            format!("{servers} servers cannot clip the mean gradient: none of them has all of it"),
        )
        .at_option(settings.span(SERVERS), "each holds a part")
        .at_option(settings.span(CLIP), "the norm of the whole")
        .cure("take one server, `kind = \"d-sync\"`, or no clipping"),
    )
}

/// A warm-up of `pipe-sgd` that is as long as the training.
pub(crate) fn endless_warmup(settings: &Settings, spec: &RunSpec) -> Option<Finding> {
    let Strategy::PipeSgd { warmup: Extent::Epochs(warmup), .. } = spec.strategy else { return None };
    let length = spec.train.length;
    let epochs = match length {
        Extent::Epochs(_) => EPOCHS.of(settings)?,
        Extent::Steps(_) => STEPS.of(settings)? as f64 / spec.steps_of_epoch()? as f64,
    };
    (warmup >= epochs).then(|| {
        Finding::new(
            "R119",
            format!("after {} of warm-up nothing is left of {length} to pipeline", Extent::Epochs(warmup)),
        )
        .at_option(settings.span(WARMUP_EPOCHS), "d-sync until then")
        .at_option(settings.span(EPOCHS).or(settings.span(STEPS)), "the end of the training")
        .cure("warm up for less, train for longer, or take `kind = \"d-sync\"`")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_the_strategy_of_that_kind() {
        for kind in StrategyKind::ALL {
            assert_eq!(read(*kind, &Settings::new()).kind(), *kind);
        }
    }
}
