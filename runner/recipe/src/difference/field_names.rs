//! The names that people know the fields of a specification by, and the keys that they follow from.

/// A field of a specification, with all below it.
struct Row {
    /// Its path, as `fields` has it.
    field: &'static str,
    /// The key that sets it, or words where none does. Empty for a table whose fields have names of their own.
    name: &'static str,
    /// Other keys that it follows from; `model.*` for all of a table.
    causes: &'static [&'static str],
}

const fn row(field: &'static str, name: &'static str, causes: &'static [&'static str]) -> Row {
    Row { field, name, causes }
}

/// The keys that decide which machines a run uses.
const MACHINES: &[&str] = &["nodes.use", "nodes.workers", "nodes.inventory", "nodes.server", "strategy"];
/// The keys that decide whether the strategy has servers, and where they run.
const SERVERS: &[&str] = &[
    "nodes.use",
    "nodes.server",
    "strategy",
    "strategy.servers",
    "strategy.averaged-by",
    "strategy.variant",
];
/// The keys that decide how a folder's contents are read.
const READING: &[&str] = &[
    "dataset.context",
    "dataset.tokens",
    "dataset.test-share",
    "dataset.vocabulary",
    "dataset.header",
    "dataset.crop",
    "dataset.resize",
];

/// The fields that have other names than the keys that set them, or follow from further keys. The row of the longest path holds.
const ROWS: &[Row] = &[
    row("model", "model", &["model.*", "dataset", "dataset.*"]),
    row("model.file", "model.file", &[]),
    // Two files of one path may differ, and two paths may lead to one file.
    row("model.layout.sha256", "the model's file (SHA-256)", &[]),
    row("dataset.source", "dataset", &[]),
    row("dataset.source.pictures", "dataset.pictures", READING),
    row("dataset.source.text", "dataset.text", READING),
    row("dataset.source.texts", "dataset.texts", READING),
    row(
        "train.global-batch",
        "train.global-batch",
        &["train.per-worker-batch", "nodes.use", "nodes.workers"],
    ),
    row("train.length", "train", &["train.epochs", "train.steps"]),
    row("train.evaluate", "train.evaluate", &["train.epochs", "train.steps"]),
    row("train.target", "train.target", &["train.target.at-least", "train.target.at-most"]),
    row("train.optimizer.lr", "train.optimizer.lr", &["strategy.lr"]),
    row("train.optimizer.rule", "train.optimizer", &[]),
    row("train.schedule", "train.lr-schedule", &[]),
    row("train.schedule.shape", "train.lr-schedule", &["train.lr-schedule.kind"]),
    row("train.schedule.scale", "train.lr-schedule.scale", &["train.lr-schedule.reference-batch"]),
    row("cluster.nodes", "the machines", &[]),
    row("cluster.names", "the machines", MACHINES),
    row("cluster.devices", "nodes.device", MACHINES),
    row("cluster.ranks.workers", "nodes.workers", &["nodes.use", "nodes.inventory"]),
    row("cluster.ranks.servers", "strategy.servers", SERVERS),
    row("cluster.seats", "the machines of the ranks", &["nodes.*", "strategy", "strategy.servers"]),
    row("cluster.tunnel", "nodes.tunnel", &[]),
    row("strategy.moving-rate", "strategy.moving-rate", &["strategy.rho", "nodes.workers", "nodes.use"]),
    row("strategy.segments", "strategy.gradient-segments", &[]),
    row("strategy.warmup.epochs", "strategy.warmup-epochs", &[]),
    row(
        "communication.collective",
        "communication.collective",
        &["communication.collective.segments", "communication.collective.group-size", "strategy"],
    ),
    row("communication.reduce-order", "communication.reduce-order", &["communication.collective"]),
    row("communication.schedule", "communication.schedule", &["communication.schedule.size"]),
    row("compression", "compression", &["compression.*"]),
    row("compression.parameters", "compression.parameters", &[]),
    row("compression.error-feedback", "compression.error-feedback", &[]),
    row("custom-codec", "compression", &["compression.*"]),
    row("measure.hash-every-step", "measure.weight-hash", &[]),
    row("measure.trace-first-steps", "measure.trace.first-steps", &[]),
    row("measure.trace-every", "measure.trace.every", &[]),
    row("emulation", "", &[]),
    row("emulation.compute", "compute", &["compute.step-time"]),
    row("emulation.network", "network", &["network.bandwidth"]),
    row("emulation.slow", "nodes.slow", &[]),
    // How cores are divided follows from many keys and from the machine, and decides how fast ranks compute.
    row("threads.worker", "threads of a worker", &["nodes.threads"]),
    row("threads.evaluator", "threads of the evaluator", &[]),
    row("threads.evaluate-at-once", "evaluation beside the run", &[]),
];

/// A field's name for people.
#[derive(Clone, Debug)]
pub(crate) struct FieldName {
    pub(crate) shown: String,
    causes: &'static [&'static str],
}

/// That of the field of this path.
pub(crate) fn of(path: &str) -> FieldName {
    match ROWS.iter().filter(|row| is_within(path, row.field)).max_by_key(|row| row.field.len()) {
        Some(row) => {
            let joined = format!("{}{}", row.name, &path[row.field.len()..]);
            FieldName { shown: joined.trim_start_matches('.').to_owned(), causes: row.causes }
        }
        None => FieldName { shown: path.to_owned(), causes: &[] },
    }
}

impl FieldName {
    /// Whether a field of this name may differ because the key does: the key that sets it, that chooses what has it, or one of the
    /// causes in its row.
    pub(crate) fn follows_from(&self, key: &str) -> bool {
        let is_cause = |cause: &str| match cause.strip_suffix(".*") {
            Some(table) => is_within(key, table),
            None => key == cause,
        };
        is_within(&self.shown, key) || self.causes.iter().any(|cause| is_cause(cause))
    }
}

/// Whether a path is another one, or below it.
fn is_within(path: &str, other: &str) -> bool {
    path.strip_prefix(other).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}
