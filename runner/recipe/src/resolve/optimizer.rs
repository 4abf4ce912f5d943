//! Settings of the optimizer to its description, and the strategies that cannot take it.

use crate::resolve::cell::Cell;
use crate::resolve::shared_keys::{CLIP, MOMENTUM, MP, SERVERS, STRATEGY_KIND};
use crate::text::finding::Finding;
use crate::text::source::Span;
use crate::values::settings::Settings;
use crate::values::typed_key::{Defaulted, Optional};
use crate::{OptimizerKind, OptimizerSettings, Strategy, UpdateRule};

const KIND: Defaulted<OptimizerKind> = Defaulted::choice("train.optimizer.kind");
const LR: Defaulted<f64> = Defaulted::number("train.optimizer.lr");
const OWN_LR: Optional<f64> = Optional::number("strategy.lr");
const NESTEROV: Defaulted<bool> = Defaulted::flag("train.optimizer.nesterov");
const WEIGHT_DECAY: Defaulted<f64> = Defaulted::number("train.optimizer.weight-decay");
const BETA1: Defaulted<f64> = Defaulted::number("train.optimizer.beta1");
const BETA2: Defaulted<f64> = Defaulted::number("train.optimizer.beta2");
const EPSILON: Defaulted<f64> = Defaulted::number("train.optimizer.epsilon");
const TRUST: Defaulted<f64> = Defaulted::number("train.optimizer.trust");

/// The optimizer that the settings describe.
pub(crate) fn read(cell: &mut Cell<'_>) -> OptimizerSettings {
    let settings = cell.settings;
    let momentum = MOMENTUM.of(settings) as f32;
    let clip = CLIP.of(settings).map(|norm| norm as f32);
    let (momentum, clip, rule) = match KIND.of(settings) {
        OptimizerKind::Sgd if NESTEROV.of(settings) => (momentum, clip, UpdateRule::Nesterov),
        OptimizerKind::Sgd => (momentum, clip, UpdateRule::Sgd),
        OptimizerKind::Adamw => {
            let beta1 = BETA1.of(settings);
            let beta2 = BETA2.of(settings);
            let epsilon = EPSILON.of(settings);
            (0.0, clip, UpdateRule::Adamw { beta1, beta2, epsilon })
        }
        OptimizerKind::Lars => {
            if settings.given(LR).is_none() && settings.given(OWN_LR).is_none() {
                cell.findings.push(no_rate(settings));
            }
            (momentum, None, UpdateRule::Lars { trust: TRUST.of(settings) })
        }
    };
    let lr = learning_rate(settings) as f32;
    let weight_decay = WEIGHT_DECAY.of(settings) as f32;
    OptimizerSettings { lr, momentum, weight_decay, clip, rule }
}

/// The rate before any schedule: the strategy's own, else that of the recipe.
pub(crate) fn learning_rate(settings: &Settings) -> f64 {
    OWN_LR.of(settings).unwrap_or_else(|| LR.of(settings))
}

/// Problems of an optimizer, and of strategies that cannot take it.
pub(crate) fn findings(
    settings: &Settings,
    optimizer: &OptimizerSettings,
    strategy: &Strategy,
) -> Vec<Finding> {
    let (name, asked) = match optimizer.rule {
        UpdateRule::Sgd => return Vec::new(),
        UpdateRule::Nesterov => ("nesterov", settings.span(NESTEROV)),
        UpdateRule::Adamw { .. } | UpdateRule::Lars { .. } => (optimizer.kind().name(), settings.span(KIND)),
    };
    let all = [
        no_momentum(settings, optimizer),
        method_of_its_own(settings, strategy, name, asked),
        divided_matrices(settings, optimizer, strategy),
    ];
    all.into_iter().flatten().collect()
}

fn no_rate(settings: &Settings) -> Finding {
    Finding::new("R010", "`train.optimizer.lr` is missing: `lars` has no usual one")
        .at_option(settings.span(KIND), "needs a rate")
        .cure("write `lr = 5.0`, for example: `trust` makes a thousandth of it the step of a matrix")
        .missing("train.optimizer.lr")
}

fn no_momentum(settings: &Settings, optimizer: &OptimizerSettings) -> Option<Finding> {
    (optimizer.rule == UpdateRule::Nesterov && optimizer.momentum == 0.0).then(|| {
        Finding::new("R162", "`nesterov` looks ahead along the momentum, and there is none")
            .at_option(settings.span(NESTEROV), "needs a momentum")
            .at_option(settings.span(MOMENTUM), "none")
            .cure("write `momentum = 0.9`, for example, or leave `nesterov` out")
    })
}

fn method_of_its_own(
    settings: &Settings,
    strategy: &Strategy,
    name: &str,
    asked: Option<Span>,
) -> Option<Finding> {
    let kind = strategy.kind();
    let own = kind.own_rule()?;
    Some(
        Finding::new("R161", format!("`{kind}` has an update rule of its own: `{name}` does not act in it"))
            .at_option(asked, "another rule")
            .at_option(settings.span(STRATEGY_KIND), own)
            .cure("take plain `kind = \"sgd\"`, or a strategy like `d-sync`, `ps-sync`, `local-sgd` or `d-psgd`"),
    )
}

/// The rate of LARS depends on the norms of whole matrices.
fn divided_matrices(
    settings: &Settings,
    optimizer: &OptimizerSettings,
    strategy: &Strategy,
) -> Option<Finding> {
    if optimizer.kind() != OptimizerKind::Lars {
        return None;
    }
    let (code, title, place, cure) = match strategy {
        Strategy::PsSync | Strategy::AsyncSgd { .. } => {
            let servers = Some(SERVERS.of(settings)).filter(|servers| *servers > 1)?;
            let title =
                format!("{servers} servers cannot scale rates by `lars`: each has a part of the matrices");
            (
                "R120",
                title,
                settings.span(SERVERS),
                "take one server, `kind = \"d-sync\"`, or another optimizer",
            )
        }
        Strategy::Gmp { mp: 2.., .. } => {
            let title = "groups cannot scale rates by `lars`: each worker has a part of the split matrices";
            ("R138", title.to_owned(), settings.span(MP), "take `mp = 1`, or another optimizer")
        }
        // The workers hold whole models, or the strategy is refused.
        Strategy::Gmp { .. }
        | Strategy::DSync
        | Strategy::PipeSgd { .. }
        | Strategy::LocalSgd { .. }
        | Strategy::Slowmo { .. }
        | Strategy::DPsgd { .. }
        | Strategy::AdPsgd { .. }
        | Strategy::Sgp
        | Strategy::AsyncMsgd { .. }
        | Strategy::HogwildSgd { .. }
        | Strategy::EasgdOriginal { .. }
        | Strategy::EasgdAsync { .. }
        | Strategy::MeasgdAsync { .. }
        | Strategy::EasgdHogwild { .. }
        | Strategy::EasgdSync { .. }
        | Strategy::Eamsgd { .. }
        | Strategy::Custom { .. } => return None,
    };
    Some(
        Finding::new(code, title)
            .at_option(place, "each holds a part")
            .at_option(settings.span(KIND), "the norms of whole matrices")
            .cure(cure),
    )
}
