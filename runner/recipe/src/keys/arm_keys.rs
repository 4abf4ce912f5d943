//! The keys that describe an arm.

use crate::keys::key::{Ends, Key, Kind, Range};
use crate::spec::family::Family;
use crate::{
    AveragedBy, Averaging, CollectiveKind, CompressionKind, FcUpdate, MixOrder, ModuloScheme, QuantizeRange,
    ReduceOrder, ScheduleKind, Serve, StrategyKind, SyncVariant, Topology, TransportKind,
};

/// The codecs whose error is small enough for weights.
pub(crate) const DENSE: &[&str] = &[
    CompressionKind::Truncate16.name(),
    CompressionKind::Quantize8.name(),
    CompressionKind::Fp16.name(),
    CompressionKind::Bf16.name(),
];
/// All codecs, those of other crates included.
pub(crate) const LOSSY: &[&str] = &[
    CompressionKind::Truncate16.name(),
    CompressionKind::Quantize8.name(),
    CompressionKind::Fp16.name(),
    CompressionKind::Bf16.name(),
    CompressionKind::TopK.name(),
    CompressionKind::RandomK.name(),
    CompressionKind::Sign.name(),
    CompressionKind::Terngrad.name(),
    CompressionKind::Qsgd.name(),
    CompressionKind::Powersgd.name(),
    CompressionKind::Custom.name(),
];
/// A share above zero.
const SOME: Range = Range { least: 1e-9, most: 1.0, ends: Ends::Closed };

/// The strategies of elastic averaging.
const ELASTIC: &[&str] = &[
    StrategyKind::EasgdOriginal.name(),
    StrategyKind::EasgdAsync.name(),
    StrategyKind::MeasgdAsync.name(),
    StrategyKind::EasgdHogwild.name(),
    StrategyKind::EasgdSync.name(),
    StrategyKind::Eamsgd.name(),
];

/// This part of the table.
pub(crate) const KEYS: &[Key] = &[
    Key::new(
        "strategy",
        Kind::Table,
        "How the ranks train together: one `[strategy]`, or one `[[strategy]]` for each arm of the comparison.",
    )
    .arm(),
    Key::new("strategy.name", Kind::Text, "The arm's name in reports; by default its kind.")
        .example("\"tuned\"")
        .sweep(),
    Key::new("strategy.kind", Kind::Choice(StrategyKind::CHOICES), "Which strategy.").example("\"d-sync\"").sweep(),
    Key::new(
        "strategy.baseline",
        Kind::Flag,
        "Whether the other arms are compared with this one; by default the first strategy that no axis multiplies.",
    )
    .default("false")
    .example("true")
    .sweep(),
    Key::new(
        "strategy.servers",
        Kind::Whole(1, 64),
        "Servers that share the weights: each holds a part of them, or of what `gmp` averages. They take no worker's slot.",
    )
    .of(&[StrategyKind::Gmp.name(), StrategyKind::PsSync.name(), StrategyKind::AsyncSgd.name(), StrategyKind::AsyncMsgd.name(), StrategyKind::HogwildSgd.name(), StrategyKind::EasgdAsync.name(), StrategyKind::MeasgdAsync.name(), StrategyKind::EasgdHogwild.name(), StrategyKind::Eamsgd.name()])
    .default("1")
    .arm(),
    Key::new(
        "strategy.serve",
        Kind::Choice(Serve::CHOICES),
        "How many workers each server serves at a time: by default one, as the masters of the source, and all where the source \
         shards its servers (`eamsgd`). Servers without a lock always serve all.",
    )
    .of(&[StrategyKind::AsyncSgd.name(), StrategyKind::AsyncMsgd.name(), StrategyKind::EasgdAsync.name(), StrategyKind::MeasgdAsync.name(), StrategyKind::Eamsgd.name()])
    .example("\"all\"")
    .arm(),
    Key::new(
        "strategy.staleness-bound",
        Kind::Whole(0, 1_000_000),
        "Steps by which a worker may be ahead of the slowest one (stale synchronous parallel); by default as many \
         as it likes.",
    )
    .of(&[StrategyKind::AsyncSgd.name(), StrategyKind::AsyncMsgd.name(), StrategyKind::HogwildSgd.name()])
    .example("4")
    .arm(),
    Key::new(
        "strategy.momentum",
        Kind::Number(Range::BELOW_ONE),
        "Momentum of the server's velocity, or of each elastic worker's; by default that of `train.optimizer` where it \
         has one, else 0.9.",
    )
    .of(&[StrategyKind::AsyncMsgd.name(), StrategyKind::MeasgdAsync.name(), StrategyKind::Eamsgd.name()])
    .example("0.9")
    .arm(),
    Key::new(
        "strategy.depth",
        Kind::Whole(1, 64),
        "Steps from a gradient to its update: with 1 nothing overlaps, more than 2 pays off rarely.",
    )
    .of(&[StrategyKind::PipeSgd.name()])
    .default("2")
    .arm(),
    Key::new(
        "strategy.warmup-epochs",
        Kind::Number(Range::AT_LEAST_ZERO),
        "Epochs of `d-sync` before the pipeline is turned on.",
    )
    .of(&[StrategyKind::PipeSgd.name()])
    .default("0")
    .example("5")
    .arm(),
    Key::new(
        "strategy.gradient-segments",
        Kind::Whole(1, 1024),
        "Pieces in which a gradient travels, each as soon as the backward pass is through it; with 1 all of it after \
         the pass.",
    )
    .of(&[StrategyKind::PipeSgd.name()])
    .default("1")
    .example("4")
    .arm(),
    Key::new(
        "strategy.period",
        Kind::Whole(1, 1_000_000_000),
        "Local steps from one average of all models, or from a worker's exchange with the centre, to the next; by \
         default 8 for `local-sgd` and `slowmo`, and 1 for elastic methods.",
    )
    .of(&[StrategyKind::LocalSgd.name(), StrategyKind::Slowmo.name(), StrategyKind::EasgdAsync.name(), StrategyKind::MeasgdAsync.name(), StrategyKind::EasgdHogwild.name(), StrategyKind::Eamsgd.name()])
    .example("8")
    .arm(),
    Key::new(
        "strategy.slow-momentum",
        Kind::Number(Range::BELOW_ONE),
        "Momentum of the outer optimizer, from one average of all models to the next; with 0 and `slow-lr = 1` it is \
         `local-sgd`. By default that of PyTorch's `SlowMomentumOptimizer` (torchdistx).",
    )
    .of(&[StrategyKind::Slowmo.name()])
    .default("0.5")
    .arm(),
    Key::new(
        "strategy.slow-lr",
        Kind::Number(Range::POSITIVE),
        "Step of the outer optimizer, as a multiple of the way that the average of all models went since the last one.",
    )
    .of(&[StrategyKind::Slowmo.name()])
    .default("1")
    .example("0.9")
    .arm(),
    Key::new(
        "strategy.custom",
        Kind::Text,
        "The name of the strategy in the registry of your `bakeoff-worker` (`BAKEOFF_WORKER` names the program).",
    )
    .of(&[StrategyKind::Custom.name()])
    .example("\"lazy-sgd\"")
    .arm(),
    Key::new("strategy.settings", Kind::TextList, "The numbers of the strategy, each as `name = number`.")
        .of(&[StrategyKind::Custom.name()])
        .example("[\"period = 4\"]")
        .arm(),
    Key::new(
        "strategy.rho",
        Kind::Number(Range::POSITIVE),
        "How strongly worker and centre are drawn to each other, as a multiple of the learning rate: each goes \
         rate * rho of the way to the other. Either this or `moving-rate`.",
    )
    .of(ELASTIC)
    .example("2.5")
    .arm(),
    Key::new(
        "strategy.moving-rate",
        Kind::Number(Range::POSITIVE),
        "Part of the way that worker and centre go towards each other, whatever the learning rate; without `rho` by \
         default 0.9 / workers. So its authors take it (Zhang, Choromanska and LeCun, NIPS 2015: beta = 0.9).",
    )
    .of(ELASTIC)
    .example("0.225")
    .arm(),
    Key::new(
        "strategy.overlap",
        Kind::Flag,
        "Whether weights travel while the worker whose turn it is computes; without, it is the paper's Original EASGD*.",
    )
    .of(&[StrategyKind::EasgdOriginal.name()])
    .default("true")
    .example("false")
    .arm(),
    Key::new(
        "strategy.variant",
        Kind::Whole(1, SyncVariant::ALL.len() as u64),
        "1: a tree of the workers and a master of its own; 2: the master is the first worker; 3: as 2, and weights \
         travel, and the centre moves, during forward and backward pass. The weights are the same.",
    )
    .of(&[StrategyKind::EasgdSync.name()])
    .default("3")
    .example("1")
    .arm(),
    Key::new(
        "strategy.look-ahead",
        Kind::Flag,
        "Whether gradients are those of the weights after the velocity's next move (Nesterov), as in the source.",
    )
    .of(&[StrategyKind::Eamsgd.name()])
    .default("true")
    .example("false")
    .arm(),
    Key::new(
        "strategy.lr",
        Kind::Number(Range::POSITIVE),
        "Learning rate of this strategy only: a fair comparison gives each its own good one. A server that applies each worker's \
         gradient by itself moves p times as far per sample as `d-sync` at one rate. By default `train.optimizer.lr`.",
    )
    .example("0.05")
    .arm(),
    Key::new("strategy.topology", Kind::Choice(Topology::CHOICES), "Who averages with whom.")
        .of(&[StrategyKind::DPsgd.name(), StrategyKind::AdPsgd.name()])
        .default("\"ring\"")
        .arm(),
    Key::new("strategy.order", Kind::Choice(MixOrder::CHOICES), "Whether neighbours average before or after the step.")
        .of(&[StrategyKind::DPsgd.name()])
        .default("\"mix-then-step\"")
        .arm(),
    Key::new(
        "strategy.averaging",
        Kind::Choice(Averaging::CHOICES),
        "How often an active worker averages with a neighbour: the bytes that travel grow with it.",
    )
    .of(&[StrategyKind::AdPsgd.name()])
    .default("\"each-step\"")
    .arm(),
    Key::new(
        "strategy.mp",
        Kind::Whole(1, 1024),
        "Workers of each group, which hold one model together: with 1 each holds all of it. Divides the workers.",
    )
    .of(&[StrategyKind::Gmp.name()])
    .default("1")
    .example("2")
    .arm(),
    Key::new(
        "strategy.scheme",
        Kind::Choice(ModuloScheme::CHOICES),
        "Which samples a group works on in each round of a step: B is a worker's batch, K is `mp`.",
    )
    .of(&[StrategyKind::Gmp.name()])
    .default("\"b/k\"")
    .example("\"bk\"")
    .arm(),
    Key::new(
        "strategy.fc-update",
        Kind::Choice(FcUpdate::CHOICES),
        "When the layers that a group computes together are updated.",
    )
    .of(&[StrategyKind::Gmp.name()])
    .default("\"per-round\"")
    .example("\"per-batch\"")
    .arm(),
    Key::new(
        "strategy.average-every",
        Kind::Whole(1, 1_000_000_000),
        "Steps from one average of the weights to the next, as in the paper; without it gradients are averaged in each step.",
    )
    .of(&[StrategyKind::Gmp.name()])
    .example("10")
    .arm(),
    Key::new(
        "strategy.least-ccr",
        Kind::Number(Range::AT_LEAST_ZERO),
        "Linear layers are split whose ratio of computation to communication is above this: operations of both passes, for each \
         value that travels. For a layer from i to o values it is 3 i o / (i + o).",
    )
    .of(&[StrategyKind::Gmp.name()])
    .default("0")
    .example("100")
    .arm(),
    Key::new(
        "strategy.averaged-by",
        Kind::Choice(AveragedBy::CHOICES),
        "Which ranks add what workers average. Servers hold no weights, and no collective is used then.",
    )
    .of(&[StrategyKind::Gmp.name()])
    .default("\"workers\"")
    .example("\"servers\"")
    .arm(),
    Key::new("strategy.communication", Kind::Table, "As `communication`, for this strategy only.").arm(),
    Key::new("strategy.compression", Kind::Table, "As `compression`, for this strategy only.").arm(),
    Key::new("communication", Kind::Table, "How vectors travel; a strategy's own settings go before these.").arm(),
    Key::new(
        "communication.collective",
        Kind::Table,
        "The algorithm of an all-reduce. Strategies without one ignore a value for all, and refuse a value of their own.",
    )
    .arm(),
    Key::new("communication.collective.kind", Kind::Choice(CollectiveKind::CHOICES), "Which algorithm.")
        .default("\"ring\"")
        .arm(),
    Key::new(
        "communication.collective.segments",
        Kind::Whole(1, 4096),
        "Segments of each chunk of the ring: of 1, nothing overlaps; of many, each message is small.",
    )
    .of(&[CollectiveKind::PipelinedRing.name()])
    .default("4")
    .arm(),
    Key::new(
        "communication.collective.group-size",
        Kind::Whole(2, 65_536),
        "Ranks of a group, neighbours by number; the last group may be smaller. Without it, the ranks of a machine \
         are a group.",
    )
    .of(&[CollectiveKind::Hierarchical.name()])
    .example("2")
    .arm(),
    Key::new(
        "communication.schedule",
        Kind::Table,
        "Which gradients travel together, and when; of `d-sync`, `ps-sync`, `pipe-sgd` and `gmp`; of `easgd-sync` which weights. Strategies without one ignore a value \
         for all, and refuse a value of their own.",
    )
    .arm(),
    Key::new("communication.schedule.kind", Kind::Choice(ScheduleKind::CHOICES), "Which rule.").default("\"single\"").arm(),
    Key::new(
        "communication.schedule.size",
        Kind::Size,
        "A message ends with the layer by which it has at least this many bytes of gradients, before they are coded.",
    )
    .of(&[ScheduleKind::Fixed.name()])
    .default("\"25MiB\"")
    .example("\"1MiB\"")
    .arm(),
    Key::new(
        "communication.reduce-order",
        Kind::Choice(ReduceOrder::CHOICES),
        "In which order an element's parts are added: `rank`, which `ring`, `star` and `all-gather` can do, gives the same bits \
         for every schedule and for a parameter server.",
    )
    .default("\"ring\"")
    .arm(),
    Key::new(
        "communication.transport",
        Kind::Choice(TransportKind::CHOICES),
        "The transport of messages; the numbers that come out are the same.",
    )
    .default("\"zeromq\"")
    .arm(),
    Key::new("compression", Kind::Table, "The codec of vectors on the wire. Beside a server gradients are coded on their way up; weights on their way down \
         only with `compression.parameters`, which `top-k`, `sign`, `terngrad`, `qsgd` and `custom` do not have.").arm(),
    Key::new(
        "compression.kind",
        Kind::Choice(CompressionKind::CHOICES),
        "The codec, on the hops of an all-reduce and on the way to a server. One worker codes nothing.",
    )
    .default("\"none\"")
    .arm(),
    Key::new(
        "compression.parameters",
        Kind::Flag,
        "Whether weights are coded as gradients are: those that a server returns, and models that are averaged. \
         Initial weights never are.",
    )
    .of(DENSE)
    .default("false")
    .arm(),
    Key::new(
        "compression.error-feedback",
        Kind::Flag,
        "Whether the coding error of a gradient is remembered where it arose, and added to the next one.",
    )
    .of(LOSSY)
    .default("false")
    .arm(),
    Key::new(
        "compression.range",
        Kind::Choice(QuantizeRange::CHOICES),
        "Whose largest element sets the steps. One range for a whole gradient needs `d-sync` or `pipe-sgd`, a gradient that \
         travels whole, and at most 126 workers, fewer under error feedback; its steps grow with the workers.",
    )
    .of(&[CompressionKind::Quantize8.name()])
    .default("\"chunk\"")
    .arm(),
    Key::new(
        "compression.ratio",
        Kind::Share(SOME),
        "Share of the values that travels, rounded up to whole ones; of all that are encoded together.",
    )
    .of(&[CompressionKind::TopK.name(), CompressionKind::RandomK.name()])
    .default("\"1%\"")
    .arm(),
    Key::new(
        "compression.bucket",
        Kind::Whole(1, 1 << 30),
        "Neighbouring values that share a scale: the more, the fewer bytes and the more noise.",
    )
    .of(&[CompressionKind::Terngrad.name(), CompressionKind::Qsgd.name()])
    .default("512")
    .arm(),
    Key::new(
        "compression.levels",
        Kind::Whole(1, 32_767),
        "Levels on each side of zero: of 7, a value takes 4 bits, of 127 it takes 8.",
    )
    .of(&[CompressionKind::Qsgd.name()])
    .default("7")
    .arm(),
    Key::new(
        "compression.rank",
        Kind::Whole(1, 1024),
        "Columns of the factors of each matrix; a matrix that is no larger than its factors travels as it is.",
    )
    .of(&[CompressionKind::Powersgd.name()])
    .default("2")
    .arm(),
    Key::new(
        "compression.custom",
        Kind::Text,
        "The name of the codec in the registry of your `bakeoff-worker` (`BAKEOFF_WORKER` names the program).",
    )
    .of(&[CompressionKind::Custom.name()])
    .example("\"powers-of-two\"")
    .arm(),
    Key::new("compression.settings", Kind::TextList, "The numbers of the codec, each as `name = number`.")
        .of(&[CompressionKind::Custom.name()])
        .example("[\"least = -40\"]")
        .arm(),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::strategy_kind::ExchangeThrough;

    #[test]
    fn the_keys_of_elastic_averaging_are_those_of_strategies_with_a_centre() {
        let centre =
            StrategyKind::ALL.iter().filter(|kind| kind.profile().exchange == ExchangeThrough::Centre);
        assert_eq!(centre.map(|kind| kind.name()).collect::<Vec<_>>(), ELASTIC);
    }
}
