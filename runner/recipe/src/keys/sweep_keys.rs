//! The keys of the sweep as a whole: axes, repeats, limits, measurements and the report.

use crate::keys::key::{Ends, Key, Kind, Range};
use crate::spec::family::Family;
use crate::{HashTime, KeptModels, KeptSteps, Redaction, RunOrder};

pub(crate) const KEYS: &[Key] = &[
    Key::new("sweep", Kind::Table, "The values to vary.").sweep(),
    Key::new(
        "sweep.axes",
        Kind::Table,
        "Each leaf is an axis, named as the key it varies; all combinations are taken. \
         `strategy.<name>.<key>` multiplies that strategy only.",
    )
    .example("{ train.optimizer.lr = [0.05, 0.1] }")
    .sweep(),
    Key::new("sweep.zip", Kind::Table, "Axes that move in lockstep: `[[sweep.zip]]`, written as `sweep.axes`.")
        .example("[{ train.global-batch = [100, 200], train.epochs = [5, 10] }]")
        .sweep(),
    Key::new(
        "sweep.random",
        Kind::Table,
        "Values drawn from ranges: `[[sweep.random]]`, written as `sweep.axes` with a range in the place of each list. Each draw \
         is one point of all its keys. Ranges are `{ uniform = [low, high] }`, `{ log-uniform = [low, high] }`, \
         `{ integers = [low, high] }` and `{ choice = [...] }`; numbers are rounded to about a thousandth of their range.",
    )
    .example("[{ draws = 20, train.optimizer.lr = { log-uniform = [0.001, 1.0] } }]")
    .sweep(),
    Key::new(
        "sweep.random.draws",
        Kind::Whole(2, 10_000),
        "Number of draws, no two alike. More of them leave the others as they are.",
    )
    .example("20")
    .sweep(),
    Key::new("sweep.random.seed", Kind::Whole(0, i64::MAX as u64), "The seed of the draws, which depend on key and number besides.")
        .default("1")
        .sweep(),
    Key::new(
        "sweep.include",
        Kind::Table,
        "Conditions beside the combinations of the axes: `[[sweep.include]]`, with a value for each axis of the conditions.",
    )
    .example("[{ nodes.workers = 16, network.bandwidth = \"10Gbit/s\" }]")
    .sweep(),
    Key::new("sweep.exclude", Kind::Table, "Cells that are left out: `[[sweep.exclude]]`.").sweep(),
    Key::new(
        "sweep.exclude.when",
        Kind::Text,
        "Which cells: comparisons of keys with values, joined by `and`, `or`, `not` and parentheses, as `bakeoff explain selection` shows them. Only \
         `!=` and `not` find a cell where the key has no value or no effect.",
    )
    .example("\"strategy.name == 'd-sync' and nodes.workers > 4\"")
    .sweep(),
    Key::new("sweep.exclude.reason", Kind::Text, "Why; shown in plans and reports.")
        .default("\"excluded by the recipe\"")
        .example("\"too slow to wait for\"")
        .sweep(),
    Key::new(
        "search",
        Kind::Table,
        "Successive halving over the axes and draws under `train.optimizer` and `train.lr-schedule`: under each condition, each arm trains \
         all its settings for a short time, continues with the best by the validation metric, for longer, and so on; its best one alone trains \
         to the end, `repeats.count` times, and is compared. Arms with the same number of settings have the same budget. Milestones later than a \
         short training do not happen in it, and a cosine falls over its length.",
    )
    .example("{ rungs = 2, factor = 3 }")
    .sweep(),
    Key::new("search.rungs", Kind::Whole(1, 8), "Number of shorter trainings before the one to the end.")
        .default("2")
        .sweep(),
    Key::new(
        "search.factor",
        Kind::Whole(2, 10),
        "One in this many settings is promoted to the next rung, and trains this many times as long. With two rungs and a factor of three, nine settings train for a ninth of the length, three for a third, and one to the end.",
    )
    .default("3")
    .sweep(),
    Key::new("repeats", Kind::Table, "How often each cell is run.").sweep(),
    Key::new("repeats.count", Kind::Whole(1, 10_000), "Runs of each cell.").default("5").sweep(),
    Key::new(
        "repeats.at-most",
        Kind::Whole(2, 10_000),
        "Repeats until decided: after `repeats.count` runs of each cell, after twice as many, and so on, arms whose speed beside the \
         baseline is open get more repeats, up to this number, and so does the baseline. Each look tests at its part of the level, so that \
         claims hold at `report.confidence` over all looks.",
    )
    .example("24")
    .sweep(),
    Key::new(
        "repeats.seeds",
        Kind::Seeds,
        "The seeds: `{ from = 42 }` counts up, or a list. Repeat k has the same seed in every arm.",
    )
    .default("{ from = 42 }")
    .sweep(),
    Key::new("repeats.order", Kind::Choice(RunOrder::CHOICES), "In which order the runs are started.")
        .default("\"interleave\"")
        .sweep(),
    Key::new("limits", Kind::Table, "Bounds on the sweep.").sweep(),
    Key::new("limits.run-timeout", Kind::Duration, "A run that takes longer, by the wall, is stopped.")
        .example("\"20min\"")
        .sweep(),
    Key::new(
        "limits.retries",
        Kind::Whole(0, 100),
        "Further attempts after a fault of the infrastructure; a diverged run is never repeated.",
    )
    .default("0")
    .sweep(),
    Key::new("limits.max-runs", Kind::Whole(1, 1_000_000), "`run` refuses a larger plan without `--yes`.")
        .default("400")
        .sweep(),
    Key::new("measure", Kind::Table, "Measurements that are recorded beyond the totals."),
    Key::new(
        "measure.trace",
        Kind::Table,
        "For which steps every span is recorded. More than the defaults record is kept when a run has ended.",
    ),
    Key::new("measure.trace.first-steps", Kind::Whole(0, 1_000_000), "Number of initial steps whose spans are recorded.")
        .default("20"),
    Key::new("measure.trace.every", Kind::Whole(0, i64::MAX as u64), "Then record the spans of every n-th step; 0 for none.")
        .default("500"),
    Key::new("measure.weight-hash", Kind::Choice(HashTime::CHOICES), "When each rank's weights are hashed.")
        .default("\"evaluation\""),
    Key::new("measure.predict", Kind::Flag, "Whether predicted times stand beside the measured ones.").later(),
    Key::new(
        "measure.samples",
        Kind::Flag,
        "Whether the sample ids of every rank and step are stored, so that another program can repeat the run.",
    )
    .default("false")
    .example("true"),
    Key::new(
        "measure.steps",
        Kind::Choice(KeptSteps::CHOICES),
        "Which steps are kept once a run has ended; its totals, medians, percentiles and curves are the same either way.",
    )
    .default("\"sampled\"")
    .example("\"all\""),
    Key::new(
        "measure.models",
        Kind::Choice(KeptModels::CHOICES),
        "Which models are kept once a run has ended, for `export --format safetensors`: the initial one, and of those that the \
         ranks end with these. `all` concerns strategies whose workers train models of their own: elastic averaging, gossip, \
         `local-sgd` and `slowmo`.",
    )
    .default("\"judged\""),
    Key::new("report", Kind::Table, "How results are judged and shown.").sweep(),
    Key::new("report.min-effect", Kind::Share(Range::BELOW_ONE), "Smaller differences count as none.")
        .default("\"5%\"")
        .sweep(),
    Key::new(
        "report.min-quality",
        Kind::Share(Range::BELOW_ONE),
        "Final accuracies that differ by less count as equal: \"1%\" is one percentage point. For losses and distances, \
         `report.min-effect` says it, as a share of the baseline's value.",
    )
    .default("\"1%\"")
    .sweep(),
    Key::new("report.confidence", Kind::Share(Range::new(0.5, 1.0, Ends::Lower)), "Confidence of the intervals and tests.")
        .default("0.95")
        .sweep(),
    Key::new("report.redact", Kind::ChoiceList(Redaction::CHOICES), "Hosts, users or paths that published pages leave out.")
        .default("[]")
        .example("[\"hosts\"]")
        .sweep(),
];
