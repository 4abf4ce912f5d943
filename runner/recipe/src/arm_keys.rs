//! The keys that describe an arm: what is compared. The rest of the table is in `table.rs`.

use crate::key::{Ends, Key, Kind, Range};
use crate::names::{
    AVERAGINGS, COLLECTIVES, COMPRESSIONS, MIX_ORDERS, RANGES, REDUCE_ORDERS, SCHEDULES, SERVES, STRATEGIES,
    TOPOLOGIES,
};
use crate::table::{AT_LEAST_ZERO, BELOW_ONE, POSITIVE};

/// The kinds of compression that lose little enough for weights.
const DENSE: &[&str] = &["truncate16", "quantize8", "fp16", "bf16"];
/// The kinds of compression that lose something.
const LOSSY: &[&str] =
    &["truncate16", "quantize8", "fp16", "bf16", "top-k", "random-k", "sign", "terngrad", "qsgd", "powersgd"];
/// A share of something, and not nothing.
const SOME: Range = Range { least: 1e-9, most: 1.0, ends: Ends::Closed };

/// The kinds that average elastically.
pub(crate) const ELASTIC: &[&str] =
    &["easgd-original", "easgd-async", "measgd-async", "easgd-hogwild", "easgd-sync", "eamsgd"];

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
    Key::new("strategy.kind", Kind::Choice(STRATEGIES), "Which strategy.").example("\"d-sync\"").sweep(),
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
        "Servers that share the weights: each holds a part of them. They take no worker's slot.",
    )
    .of(&[
        "ps-sync",
        "async-sgd",
        "async-msgd",
        "hogwild-sgd",
        "easgd-async",
        "measgd-async",
        "easgd-hogwild",
        "eamsgd",
    ])
    .default("1")
    .arm(),
    Key::new(
        "strategy.serve",
        Kind::Choice(SERVES),
        "How many workers each server serves at a time: by default one, as the masters of the source, and all where the source \
         shards its servers (`eamsgd`). Servers without a lock always serve all.",
    )
    .of(&["async-sgd", "async-msgd", "easgd-async", "measgd-async", "eamsgd"])
    .example("\"all\"")
    .arm(),
    Key::new(
        "strategy.staleness-bound",
        Kind::Whole(0, 1_000_000),
        "Steps by which a worker may be ahead of the slowest one (stale synchronous parallel); by default as many \
         as it likes.",
    )
    .of(&["async-sgd", "async-msgd", "hogwild-sgd"])
    .example("4")
    .arm(),
    Key::new(
        "strategy.momentum",
        Kind::Number(BELOW_ONE),
        "Momentum of the server's velocity, or of each elastic worker's; by default that of `train.optimizer` where it \
         has one, else 0.9.",
    )
    .of(&["async-msgd", "measgd-async", "eamsgd"])
    .example("0.9")
    .arm(),
    Key::new(
        "strategy.depth",
        Kind::Whole(1, 64),
        "Steps from a gradient to its update: with 1 nothing overlaps, more than 2 pays off rarely.",
    )
    .of(&["pipe-sgd"])
    .default("2")
    .arm(),
    Key::new(
        "strategy.warmup-epochs",
        Kind::Number(AT_LEAST_ZERO),
        "The pipeline is turned on after so many epochs of `d-sync`.",
    )
    .of(&["pipe-sgd"])
    .default("0")
    .example("5")
    .arm(),
    Key::new(
        "strategy.gradient-segments",
        Kind::Whole(1, 1024),
        "Pieces in which a gradient travels, each as soon as the backward pass is through it; with 1 all of it after \
         the pass.",
    )
    .of(&["pipe-sgd"])
    .default("1")
    .example("4")
    .arm(),
    Key::new(
        "strategy.period",
        Kind::Whole(1, 1_000_000_000),
        "Local steps from one average of all models, or from a worker's exchange with the centre, to the next; by \
         default 8 for `local-sgd` and 1 for elastic methods.",
    )
    .of(&["local-sgd", "easgd-async", "measgd-async", "easgd-hogwild", "eamsgd"])
    .example("8")
    .arm(),
    Key::new(
        "strategy.rho",
        Kind::Number(POSITIVE),
        "How strongly worker and centre are drawn to each other, as a multiple of the learning rate: each goes \
         rate * rho of the way to the other. Either this or `moving-rate`.",
    )
    .of(ELASTIC)
    .example("2.5")
    .arm(),
    Key::new(
        "strategy.moving-rate",
        Kind::Number(POSITIVE),
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
    .of(&["easgd-original"])
    .default("true")
    .example("false")
    .arm(),
    Key::new(
        "strategy.variant",
        Kind::Whole(1, 3),
        "1: a tree of the workers and a master of its own; 2: the master is the first worker; 3: as 2, and weights \
         travel, and the centre moves, during forward and backward pass. The weights are the same.",
    )
    .of(&["easgd-sync"])
    .default("3")
    .example("1")
    .arm(),
    Key::new(
        "strategy.look-ahead",
        Kind::Flag,
        "Whether gradients are those of the weights after the velocity's next move (Nesterov), as in the source.",
    )
    .of(&["eamsgd"])
    .default("true")
    .example("false")
    .arm(),
    Key::new(
        "strategy.lr",
        Kind::Number(POSITIVE),
        "Learning rate of this strategy only: a fair comparison gives each its own good one. A server that applies each worker's \
         gradient by itself moves p times as far per sample as `d-sync` at one rate. By default `train.optimizer.lr`.",
    )
    .example("0.05")
    .arm(),
    Key::new("strategy.topology", Kind::Choice(TOPOLOGIES), "Who averages with whom.")
        .of(&["d-psgd", "ad-psgd"])
        .default("\"ring\"")
        .arm(),
    Key::new("strategy.order", Kind::Choice(MIX_ORDERS), "Whether neighbours average before or after the step.")
        .of(&["d-psgd"])
        .default("\"mix-then-step\"")
        .arm(),
    Key::new(
        "strategy.averaging",
        Kind::Choice(AVERAGINGS),
        "How often an active worker averages with a neighbour: the bytes that travel grow with it.",
    )
    .of(&["ad-psgd"])
    .default("\"each-step\"")
    .arm(),
    Key::new("strategy.communication", Kind::Table, "As `communication`, for this strategy only.").arm(),
    Key::new("strategy.compression", Kind::Table, "As `compression`, for this strategy only.").arm(),
    Key::new("communication", Kind::Table, "How vectors travel; a strategy's own settings go before these.").arm(),
    Key::new(
        "communication.collective",
        Kind::Table,
        "The algorithm of an all-reduce. Strategies without one ignore what is said for all, and refuse what is said for them.",
    )
    .arm(),
    Key::new("communication.collective.kind", Kind::Choice(COLLECTIVES), "Which algorithm.")
        .default("\"ring\"")
        .arm(),
    Key::new(
        "communication.collective.segments",
        Kind::Whole(1, 4096),
        "Segments of each chunk of the ring: of 1, nothing overlaps; of many, each message is small.",
    )
    .of(&["pipelined-ring"])
    .default("4")
    .arm(),
    Key::new(
        "communication.collective.group-size",
        Kind::Whole(2, 65_536),
        "Ranks of a group, neighbours by number; the last group may be smaller. Without it, the ranks of a machine \
         are a group.",
    )
    .of(&["hierarchical"])
    .example("2")
    .arm(),
    Key::new("communication.schedule", Kind::Table, "Which gradients travel together, and when.").arm(),
    Key::new("communication.schedule.kind", Kind::Choice(SCHEDULES), "Which rule.").default("\"single\"").arm(),
    Key::new("communication.schedule.size", Kind::Text, "Size of a message.")
        .of(&["fixed"])
        .example("\"25MiB\"")
        .arm()
        .later(),
    Key::new(
        "communication.reduce-order",
        Kind::Choice(REDUCE_ORDERS),
        "In which order an element's parts are added: `rank`, which `ring`, `star` and `all-gather` can do, gives the same bits \
         for every schedule and for a parameter server.",
    )
    .default("\"ring\"")
    .arm(),
    Key::new("compression", Kind::Table, "What happens to vectors on the wire. Beside a server gradients are coded on their way up; weights on their way down \
         only with `compression.parameters`, which `top-k`, `sign`, `terngrad` and `qsgd` do not have.").arm(),
    Key::new(
        "compression.kind",
        Kind::Choice(COMPRESSIONS),
        "Which code, on the hops of an all-reduce and on the way to a server. One worker codes nothing.",
    )
    .default("\"none\"")
    .arm(),
    Key::new(
        "compression.parameters",
        Kind::Flag,
        "Whether weights are coded as gradients are: what a server answers, and models that are averaged. \
         Initial weights never are.",
    )
    .of(DENSE)
    .default("false")
    .arm(),
    Key::new(
        "compression.error-feedback",
        Kind::Flag,
        "Whether what is lost of a gradient is remembered where it was rounded, and added to the next one.",
    )
    .of(LOSSY)
    .default("false")
    .arm(),
    Key::new(
        "compression.range",
        Kind::Choice(RANGES),
        "Whose largest element sets the steps. One range for a whole gradient needs `d-sync` or `pipe-sgd`, a gradient that \
         travels whole, and at most 126 workers, fewer under error feedback; its steps grow with the workers.",
    )
    .of(&["quantize8"])
    .default("\"chunk\"")
    .arm(),
    Key::new(
        "compression.ratio",
        Kind::Share(SOME),
        "Share of the values that travels, rounded up to whole ones; of what is encoded together.",
    )
    .of(&["top-k", "random-k"])
    .default("\"1%\"")
    .arm(),
    Key::new(
        "compression.bucket",
        Kind::Whole(1, 1 << 30),
        "Neighbouring values that share a scale: the more, the fewer bytes and the more noise.",
    )
    .of(&["terngrad", "qsgd"])
    .default("512")
    .arm(),
    Key::new(
        "compression.levels",
        Kind::Whole(1, 32_767),
        "Levels on each side of zero: of 7, a value takes 4 bits, of 127 it takes 8.",
    )
    .of(&["qsgd"])
    .default("7")
    .arm(),
    Key::new(
        "compression.rank",
        Kind::Whole(1, 1024),
        "Columns of the factors of each matrix; a matrix that is no larger than its factors travels as it is.",
    )
    .of(&["powersgd"])
    .default("2")
    .arm(),
];
