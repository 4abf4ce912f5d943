//! One language: a comparison means the same of the cells that `--only` chooses and of the runs that a selection finds.

use store::{Driver, NewSweep, Selection, Store};

/// Keys that all cells share, that arms have, that conditions have, that some strategies lack, and tables with a `kind`, as
/// axes of arms and of conditions.
const RECIPE: &str = r#"
schema = 1
[model]
kind = "softmax"
[dataset]
kind = "synthetic"
train = 100
test = 100
[train]
global-batch = 20
epochs = 4
lr-schedule = { warmup = "1 epoch" }
evaluate = "5 steps"
[[strategy]]
kind = "ps-sync"
baseline = true
[[strategy]]
kind = "d-sync"
compression = "truncate16"
[[strategy]]
name = "pipe"
kind = "pipe-sgd"
[[strategy]]
name = "elastic"
kind = "easgd-sync"
[[strategy]]
kind = "easgd-async"
period = 3
[sweep.axes]
train.lr-schedule = ["constant", { kind = "step", every = "2 epochs", factor = 0.5 }]
network.bandwidth = ["10Mbit/s", "1Gbit/s"]
communication.collective = ["ring", "tree"]
strategy.pipe.depth = [2, 3]
[repeats]
count = 1
"#;

const COMPARISONS: [&str; 49] = [
    "train.optimizer.lr = 0.1",
    "train.optimizer.lr != 1e-1",
    "lr < 0.2",
    "train.optimizer = sgd",
    "train.optimizer.kind != sgd",
    "lr-schedule = step",
    "train.lr-schedule.kind != step",
    "train.lr-schedule.every = '2 epochs'",
    "train.lr-schedule.factor < 1",
    "train.lr-schedule.factor != 0.5",
    "warmup = '1 epoch'",
    "network.bandwidth >= 1Gbit/s",
    "bandwidth = 10Mbit/s",
    "bandwidth = 10000kbit/s",
    "network.latency = 1ms",
    "collective = tree",
    "collective != tree",
    "communication.collective.kind = ring",
    "reduce-order = ring",
    "reduce-order != ring",
    "strategy.depth = 2",
    "strategy.depth > 2",
    "strategy.depth != 3",
    "strategy.pipe.depth = 2",
    "strategy.pipe.depth != 2",
    "strategy.pipe.depth >= 2",
    "strategy.elastic.depth = 2",
    "strategy.d-sync.communication.collective = tree",
    "strategy.period = 1",
    "strategy.period = 3",
    "strategy.period >= 2",
    "compression = truncate16",
    "compression != none",
    "compression.kind = none",
    "strategy = pipe",
    "strategy = pipe-sgd",
    "strategy.name = elastic",
    "strategy.kind = easgd-async",
    "strategy.kind != easgd-async",
    "evaluate = '5 steps'",
    "evaluate >= '5 epochs'",
    "evaluate < '6 steps'",
    "train.epochs = 4",
    "nodes.workers <= 2",
    "model = softmax",
    "dataset.kind = mnist",
    "target.at-least = 0.9",
    "arm = ps-sync",
    "not (collective = ring and lr-schedule = step) or strategy.depth = 3",
];

#[tokio::test(flavor = "multi_thread")]
async fn a_comparison_means_the_same_of_cells_and_of_runs() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).await.unwrap();
    let whole = e2e::plan(RECIPE).unwrap();
    let new = NewSweep {
        plan: &whole,
        recipe_path: "both.toml",
        argv: &[],
        version: "0.1.0",
        commit: None,
        started: 1_000,
        driver: Driver::this(),
    };
    let sweep = store.record_sweep(&new).await.unwrap();
    let ids = store.runs_of(&sweep).await.unwrap();
    let mut numbers = Vec::new();
    for comparison in COMPARISONS {
        let chosen = e2e::plan_only(RECIPE, comparison).unwrap();
        assert_eq!(chosen.cells.len(), whole.cells.len());
        let cells: Vec<&str> = chosen
            .cells
            .iter()
            .filter(|cell| cell.excluded.is_none())
            .map(|cell| cell.label.as_str())
            .collect();
        let selection = Selection::parse(comparison).unwrap();
        let found = store.runs_fitting(&selection).await.unwrap();
        let runs: Vec<&str> = (ids.iter().zip(&whole.runs))
            .filter(|(id, _)| found.contains(id))
            .map(|(_, run)| whole.cells[run.cell].label.as_str())
            .collect();
        assert!(
            cells.iter().all(|label| runs.contains(label)),
            "{comparison}: {runs:?} lack some of {cells:?}"
        );
        assert_eq!(cells.len(), runs.len(), "{comparison}: {cells:?} and {runs:?}");
        numbers.push((comparison, runs.len()));
    }
    // By hand: two schedules and two networks; ps-sync and the elastic ones once, d-sync twice, pipe four times.
    let count = |comparison: &str| numbers.iter().find(|(of, _)| *of == comparison).map(|(_, count)| *count);
    assert_eq!(whole.runs.len(), 4 * 9);
    assert_eq!(count("lr < 0.2"), Some(4 * 9));
    assert_eq!(count("train.lr-schedule.every = '2 epochs'"), Some(2 * 9));
    assert_eq!(count("train.lr-schedule.factor != 0.5"), Some(2 * 9));
    assert_eq!(count("collective = tree"), Some(4 * 3));
    assert_eq!(count("collective != tree"), Some(4 * 6));
    assert_eq!(count("strategy.depth = 2"), Some(4 * 2));
    assert_eq!(count("strategy.pipe.depth = 2"), Some(4 * 2));
    assert_eq!(count("strategy.pipe.depth != 2"), Some(4 * 7));
    assert_eq!(count("strategy.elastic.depth = 2"), Some(0));
    assert_eq!(count("strategy.d-sync.communication.collective = tree"), Some(4));
    assert_eq!(count("strategy.period = 3"), Some(4));
    assert_eq!(count("compression = truncate16"), Some(4 * 2));
    assert_eq!(count("evaluate >= '5 epochs'"), Some(0));
    assert_eq!(count("target.at-least = 0.9"), Some(0));
}
