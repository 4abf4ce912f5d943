//! Settings of hybrid data and model parallelism, and what cannot work about them.

use crate::resolve::shared_keys::{
    ACCUMULATE, AVERAGE_EVERY, AVERAGED_BY, CLIP, COMPRESSION_KIND, MODEL_KIND, MODEL_LAYERS, MP, RANGE,
    SERVERS, STRATEGY_KIND, USED_NODES, WORKERS,
};
use crate::spec::compression::NeedsWhole;
use crate::text::finding::Finding;
use crate::values::settings::Settings;
use crate::values::typed_key::Defaulted;
use crate::{AveragedBy, Compression, FcUpdate, Layer, Model, ModuloScheme, RunSpec, Strategy};

const SCHEME: Defaulted<ModuloScheme> = Defaulted::choice("strategy.scheme");
const FC_UPDATE: Defaulted<FcUpdate> = Defaulted::choice("strategy.fc-update");
const LEAST_CCR: Defaulted<f64> = Defaulted::number("strategy.least-ccr");

/// The strategy that the settings describe.
pub(crate) fn read(settings: &Settings) -> Strategy {
    let mp = MP.of(settings) as u32;
    let average_every = AVERAGE_EVERY.of(settings);
    let averaged_by = AVERAGED_BY.of(settings);
    // A group of one has no rounds and splits nothing: whatever these settings say, its runs are the same.
    if mp == 1 {
        let scheme = ModuloScheme::Shares;
        let fc_update = FcUpdate::PerRound;
        return Strategy::Gmp { mp, scheme, fc_update, average_every, least_ccr: 0.0, averaged_by };
    }
    Strategy::Gmp {
        mp,
        scheme: SCHEME.of(settings),
        fc_update: FC_UPDATE.of(settings),
        average_every,
        least_ccr: LEAST_CCR.of(settings),
        averaged_by,
    }
}

/// Problems of groups that split the run's model.
pub(crate) fn findings(settings: &Settings, spec: &RunSpec) -> Vec<Finding> {
    let Strategy::Gmp { mp, average_every, .. } = spec.strategy else { return Vec::new() };
    let mut findings: Vec<Finding> =
        average_every.and_then(|_| coded_averages(settings, spec)).into_iter().collect();
    findings.extend(idle_servers(settings));
    if mp > 1 {
        let all = [
            uneven_groups(settings, spec, mp),
            nothing_to_split(settings, spec, mp),
            divided_norm(settings, mp),
            micro_batches(settings, spec, mp),
            coded_parts(settings, spec, mp),
            nothing_travels(settings, spec),
            norm_of_rounds(settings, spec),
            heads_of_rounds(settings, spec),
            frozen_below_split(settings, spec),
        ];
        findings.extend(all.into_iter().flatten());
    }
    findings
}

/// Servers of workers that average by themselves.
fn idle_servers(settings: &Settings) -> Option<Finding> {
    let servers = SERVERS.of(settings);
    (servers > 1 && AVERAGED_BY.of(settings) == AveragedBy::Workers).then(|| {
        let what = format!("there is nothing to do for {servers} servers: the workers average by themselves");
        Finding::new("R174", what)
            .at_option(settings.span(SERVERS), "servers that add")
            .at_option(settings.span(STRATEGY_KIND), "its workers have an all-reduce")
            .cure("write `averaged-by = \"servers\"`, or leave `servers` out")
    })
}

fn uneven_groups(settings: &Settings, spec: &RunSpec, mp: u32) -> Option<Finding> {
    let workers = spec.cluster.workers();
    (!workers.is_multiple_of(mp)).then(|| {
        let divisors: Vec<String> =
            (1..=workers).filter(|size| workers.is_multiple_of(*size)).map(|size| size.to_string()).collect();
        Finding::new("R136", format!("{workers} workers cannot be divided into groups of {mp}"))
            .at_option(settings.span(MP), "workers of each group")
            .at_option(settings.span(WORKERS).or(settings.span(USED_NODES)), "the workers")
            .cure(format!("take `mp = {}`, or a multiple of {mp} workers", divisors.join("` or `mp = ")))
    })
}

fn nothing_to_split(settings: &Settings, spec: &RunSpec, mp: u32) -> Option<Finding> {
    spec.model_partition().split().is_empty().then(|| {
        let threshold = LEAST_CCR.of(settings);
        Finding::new("R137", format!("no layer of the model can be split among {mp} workers"))
            .at_option(settings.span(MP), "workers of each group")
            .at_option(settings.span(LEAST_CCR).filter(|_| threshold > 0.0), "the least ratio of computation to communication")
            .note("linear layers are split that have an output for each worker, and after which only rectifiers and dropout follow")
            .cure(cure_of_nothing(&spec.model, threshold))
    })
}

fn cure_of_nothing(model: &Model, threshold: f64) -> &'static str {
    let Some(model) = model.layered() else {
        return "take `mp = 1`: the layers of a model file stay whole";
    };
    let linear = model.layers.iter().any(|placed| matches!(placed.layer, Layer::Linear { .. }));
    match (linear, threshold > 0.0) {
        (false, _) => "take `mp = 1`, or a model with linear layers",
        (true, false) => "take `mp = 1`, a smaller `mp`, or a model with wider linear layers",
        (true, true) => {
            "take `mp = 1`, a smaller `mp`, or a model with wider linear layers; or lower `least-ccr`"
        }
    }
}

fn divided_norm(settings: &Settings, mp: u32) -> Option<Finding> {
    CLIP.of(settings)?;
    Some(
        Finding::new(
            "R138",
            format!("groups of {mp} workers cannot clip gradients: none of them has all of one"),
        )
        .at_option(settings.span(MP), "each holds a part of the model")
        .at_option(settings.span(CLIP), "the norm of the whole")
        .cure("take `mp = 1`, or no clipping"),
    )
}

fn micro_batches(settings: &Settings, spec: &RunSpec, mp: u32) -> Option<Finding> {
    (spec.train.accumulate > 1).then(|| {
        Finding::new("R139", format!("groups of {mp} workers take their batch in rounds, not in micro-batches"))
            .at_option(settings.span(ACCUMULATE), "micro-batches of each worker")
            .at_option(settings.span(MP), "rounds of the group")
            .cure("leave `accumulate` out; with `scheme = \"b/k\"` the group works on one worker's number of samples at a time")
    })
}

/// A codec that needs the whole gradient, whose parts are on several workers.
fn coded_parts(settings: &Settings, spec: &RunSpec, mp: u32) -> Option<Finding> {
    let Compression::Coded { codec, .. } = spec.compression else { return None };
    let (what, span) = match codec.needs_whole() {
        NeedsWhole::Nothing => return None,
        NeedsWhole::Range => ("one range".to_owned(), settings.span(RANGE)),
        NeedsWhole::Projection | NeedsWhole::Factors => {
            (format!("the projection of `{}`", codec.name()), settings.span(COMPRESSION_KIND))
        }
    };
    Some(
        Finding::new("R140", format!("{what} is for a whole gradient, and groups of {mp} workers split it"))
            .at_option(span, "of a whole gradient")
            .at_option(settings.span(MP), "each holds a part of the model")
            .cure("take `mp = 1`, or another codec"),
    )
}

/// A codec where one group holds the model, and splits all of it.
fn nothing_travels(settings: &Settings, spec: &RunSpec) -> Option<Finding> {
    let Compression::Coded { codec, .. } = spec.compression else { return None };
    let partition = spec.model_partition();
    let split = partition.below().is_empty() && partition.whole_above().is_empty();
    let alone = partition.parts() > 1 && spec.cluster.workers() as usize == partition.parts();
    (split && alone).then(|| {
        let what = format!(
            "`{}` has nothing to encode: each worker alone holds its part of each layer",
            codec.name()
        );
        Finding::new("R252", what)
            .at_option(settings.span(COMPRESSION_KIND), "encodes gradients that are averaged")
            .at_option(settings.span(MP), "one group of all workers")
            .cure("take no compression, a smaller `mp`, or a model with layers that are not split")
    })
}

/// Batch norm in a layer that passes the rows of a group in rounds.
fn norm_of_rounds(settings: &Settings, spec: &RunSpec) -> Option<Finding> {
    let model = spec.model.layered()?;
    let above = spec.model_partition().above();
    let weighted = |place: &usize| !model.layers[*place].parameters.is_empty();
    // Layers below the first weights belong to them.
    let begin = match above.start {
        0 => 0,
        start => (0..model.layers.len()).filter(weighted).nth(start)?,
    };
    let layer = model.layers[begin..].iter().find(|placed| placed.looks_across_batch())?;
    let what =
        format!("{} of the model would normalise the rows of a round, not a worker's batch", layer.name);
    Some(
        Finding::new("R149", what)
            .at_option(settings.span(MODEL_LAYERS).or(settings.span(MODEL_KIND)), "batch norm above split layers")
            .at_option(settings.span(MP), "works on rows of all its workers in rounds")
            .cure("put batch norm below the first layer that is split, or take `mp = 1`; with a higher `least-ccr` fewer layers are split"),
    )
}

/// A second loss in the middle of a model, of the worker's own batch.
fn heads_of_rounds(settings: &Settings, spec: &RunSpec) -> Option<Finding> {
    let model = spec.model.layered()?;
    let head = model.layers.iter().find(|placed| matches!(placed.layer, Layer::AuxiliaryHead { .. }))?;
    let what = format!("{} of the model has a loss of a worker's batch, not of a round", head.name);
    Some(
        Finding::new("R175", what)
            .at_option(settings.span(MODEL_LAYERS).or(settings.span(MODEL_KIND)), "an auxiliary head")
            .at_option(settings.span(MP), "works on rows of all its workers in rounds")
            .cure("take `mp = 1`, or the model without its auxiliary heads"),
    )
}

/// Frozen layers that belong to a split layer, whose rows are those of the whole group.
fn frozen_below_split(settings: &Settings, spec: &RunSpec) -> Option<Finding> {
    let model = spec.model.layered()?;
    if spec.model_partition().split().start > 0 {
        return None;
    }
    let below = model.layers.iter().take_while(|placed| placed.parameters.is_empty());
    let frozen = below.filter(|placed| matches!(placed.layer, Layer::Frozen { .. })).last()?;
    let what = format!("each worker of a group would compute {} for the rows of all of them", frozen.name);
    Some(
        Finding::new("R176", what)
            .at_option(
                settings.span(MODEL_LAYERS).or(settings.span(MODEL_KIND)),
                "frozen layers below the first one that is split",
            )
            .at_option(settings.span(MP), "workers of each group")
            .cure("take `mp = 1`: a model of which little is trained has little to divide"),
    )
}

fn coded_averages(settings: &Settings, spec: &RunSpec) -> Option<Finding> {
    let Compression::Coded { codec, .. } = spec.compression else { return None };
    let what =
        format!("`{}` has nothing to encode: with `average-every`, workers send weights only", codec.name());
    Some(
        Finding::new("R141", what)
            .at_option(settings.span(COMPRESSION_KIND), "encodes gradients")
            .at_option(settings.span(AVERAGE_EVERY), "averages weights")
            .at_option(settings.span(STRATEGY_KIND), "the strategy")
            .cure("leave `average-every` out, so that gradients are averaged in each step, or take no compression"),
    )
}
