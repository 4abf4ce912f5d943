//! A strategy's own settings to its description, and what cannot work about them.

use crate::assign::SERVERS;
use crate::elastic;
use crate::key::{KeyId, id};
use crate::problem::Finding;
use crate::resolve::{CLIP, EPOCHS, MOMENTUM, STRATEGY_KIND};
use crate::setting::Settings;
use crate::{Averaging, Extent, MixOrder, Serve, Strategy, Topology};

const STALENESS_BOUND: KeyId = id("strategy.staleness-bound");
pub(crate) const SERVE: KeyId = id("strategy.serve");
const OWN_MOMENTUM: KeyId = id("strategy.momentum");
const DEPTH: KeyId = id("strategy.depth");
const WARMUP_EPOCHS: KeyId = id("strategy.warmup-epochs");
pub(crate) const SEGMENTS: KeyId = id("strategy.gradient-segments");
pub(crate) const PERIOD: KeyId = id("strategy.period");
pub(crate) const TOPOLOGY: KeyId = id("strategy.topology");
const ORDER: KeyId = id("strategy.order");
const AVERAGING: KeyId = id("strategy.averaging");

/// "Rule of thumb is 0.9 or a similar value": You, Buluc and Demmel, SC17, section 5.1.
const RULE_OF_THUMB: f64 = 0.9;

/// The strategy that the settings describe.
pub(crate) fn strategy(settings: &Settings) -> Strategy {
    let staleness_bound = settings.whole(STALENESS_BOUND);
    match settings.choice(STRATEGY_KIND) {
        "ps-sync" => Strategy::PsSync,
        "async-sgd" => Strategy::AsyncSgd { serve: serve(settings), staleness_bound },
        "async-msgd" => Strategy::AsyncMsgd {
            momentum: momentum(settings) as f32,
            serve: serve(settings),
            staleness_bound,
        },
        "hogwild-sgd" => Strategy::HogwildSgd { staleness_bound },
        "pipe-sgd" => Strategy::PipeSgd {
            depth: settings.whole(DEPTH).unwrap_or(2) as u32,
            warmup: Extent::Epochs(settings.number(WARMUP_EPOCHS).unwrap_or(0.0)),
            segments: settings.whole(SEGMENTS).unwrap_or(1) as u32,
        },
        "local-sgd" => {
            Strategy::LocalSgd { period: settings.whole(PERIOD).unwrap_or(usual_period("local-sgd")) }
        }
        "d-psgd" => {
            let last = settings.choice(ORDER) == "step-then-mix";
            let order = if last { MixOrder::StepThenMix } else { MixOrder::MixThenStep };
            Strategy::DPsgd { topology: topology(settings), order }
        }
        "ad-psgd" => {
            let free = settings.choice(AVERAGING) == "continuous";
            let averaging = if free { Averaging::Continuous } else { Averaging::EachStep };
            Strategy::AdPsgd { topology: topology(settings), averaging }
        }
        "sgp" => Strategy::Sgp,
        kind => elastic::strategy(settings, kind).unwrap_or(Strategy::DSync),
    }
}

fn topology(settings: &Settings) -> Topology {
    match settings.choice(TOPOLOGY) {
        "exponential" => Topology::Exponential,
        "exponential-wide" => Topology::ExponentialWide,
        "complete" => Topology::Complete,
        _ => Topology::Ring,
    }
}

/// Steps between two averages or exchanges where nothing is said.
pub(crate) fn usual_period(kind: &str) -> u64 {
    if kind == "local-sgd" { 8 } else { 1 }
}

/// How many workers a server serves at a time where nothing is said: those of You, Buluc and Demmel one (SC17,
/// introduction), the sharded ones of EAMSGD in the comparison of Lian et al. (ICML 2018, section 5) all.
pub(crate) fn usual_serve(kind: &str) -> &'static str {
    if kind == "eamsgd" { "all" } else { "one" }
}

pub(crate) fn serve(settings: &Settings) -> Serve {
    let usual = usual_serve(settings.choice(STRATEGY_KIND));
    let chosen = Some(settings.choice(SERVE)).filter(|chosen| !chosen.is_empty());
    if chosen.unwrap_or(usual) == "all" { Serve::All } else { Serve::One }
}

pub(crate) fn momentum(settings: &Settings) -> f64 {
    let trained = settings.number(MOMENTUM).filter(|momentum| *momentum > 0.0);
    settings.number(OWN_MOMENTUM).or(trained).unwrap_or(RULE_OF_THUMB)
}

/// What a strategy cannot do with its settings.
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
        Strategy::PipeSgd { warmup, .. } => endless_warmup(settings, *warmup),
        Strategy::PsSync => divided_norm(settings),
        Strategy::DSync
        | Strategy::AsyncMsgd { .. }
        | Strategy::LocalSgd { .. }
        | Strategy::DPsgd { .. }
        | Strategy::AdPsgd { .. }
        | Strategy::Sgp
        | Strategy::MeasgdAsync { .. }
        | Strategy::Eamsgd { .. } => None,
    }
}

fn foreign_momentum(settings: &Settings, strategy: &Strategy, cure: &str) -> Option<Finding> {
    let momentum = settings.number(MOMENTUM).filter(|momentum| *momentum > 0.0)?;
    let kind = strategy.kind();
    Some(
        Finding::new("R118", format!("`{kind}` is defined without momentum, and {momentum} is asked for"))
            .at_option(settings.span(MOMENTUM), "the momentum")
            .at_option(settings.span(STRATEGY_KIND), "has none")
            .cure(format!("{cure}, or `momentum = 0.0`")),
    )
}

fn divided_norm(settings: &Settings) -> Option<Finding> {
    let servers = settings.whole(SERVERS).filter(|servers| *servers > 1)?;
    settings.number(CLIP)?;
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

fn endless_warmup(settings: &Settings, warmup: Extent) -> Option<Finding> {
    let (Extent::Epochs(warmup), Some(epochs)) = (warmup, settings.number(EPOCHS)) else { return None };
    (warmup >= epochs).then(|| {
        Finding::new(
            "R119",
            format!("after {warmup} epochs of warm-up nothing is left of {epochs} to pipeline"),
        )
        .at_option(settings.span(WARMUP_EPOCHS), "d-sync until then")
        .at_option(settings.span(EPOCHS), "the end of the training")
        .cure("warm up for less, train for longer, or take `kind = \"d-sync\"`")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Availability;
    use crate::names::STRATEGIES;
    use crate::setting::{Leaf, Typed};
    use std::sync::Arc;

    #[test]
    fn every_name_is_the_strategy_of_that_name() {
        for choice in STRATEGIES.iter().filter(|choice| choice.availability == Availability::Now) {
            let typed = Typed::Choice(choice.name);
            let leaf = Leaf { typed, text: String::new(), toml: String::new(), span: None };
            let mut settings = Settings::new();
            settings.put(STRATEGY_KIND, Arc::new(leaf));
            assert_eq!(strategy(&settings).kind(), choice.name);
        }
    }
}
