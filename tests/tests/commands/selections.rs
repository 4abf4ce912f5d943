//! One language: a comparison means the same of the cells that `--only` chooses and of the runs that a selection finds.

use recipe::Plan;
use store::{Driver, NewSweep, RunId, Selection, Store};

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

/// Axes in lockstep of which a strategy has a value of its own, or no use for one; a kind that takes another axis' value away; lists of
/// tables; a server that adds for groups.
const LOCKSTEP: &str = r#"
schema = 1
[model]
kind = "mnist-mlp"
[dataset]
kind = "synthetic"
train = 100
test = 100
[train]
global-batch = 20
epochs = 4
[nodes]
use = ["local*4"]
workers = 2
[[strategy]]
kind = "ps-sync"
[[strategy]]
kind = "d-sync"
compression = "fp16"
[[strategy]]
kind = "gmp"
mp = 2
averaged-by = "servers"
[[sweep.zip]]
communication.collective = ["ring", "tree"]
compression = ["none", "truncate16"]
[[sweep.zip]]
train.optimizer.momentum = [0.0, 0.5]
train.optimizer.kind = ["sgd", "adamw"]
[sweep.axes]
nodes.slow = [[], [{ rank = 1, compute = 2.0 }]]
[repeats]
count = 1
"#;

const OF_LOCKSTEP: [&str; 12] = [
    "collective = ring",
    "collective != ring",
    "collective = '\"tree\"'",
    "compression = none",
    "compression = fp16",
    "compression != truncate16",
    "train.optimizer.momentum = 0.5",
    "train.optimizer.momentum != 0.5",
    "nodes.slow = none",
    "slow != none",
    "nodes.use = 'local*4'",
    "train.epochs > 0",
];

/// The labels of the cells that `--only` chooses and of the runs that a selection finds, both sorted.
async fn both(
    recipe: &str,
    comparison: &str,
    store: &Store,
    ids: &[RunId],
) -> anyhow::Result<[Vec<String>; 2]> {
    let chosen = e2e::plan_only(recipe, comparison)?;
    let included = chosen.cells.iter().filter(|cell| cell.excluded.is_none());
    let mut cells: Vec<String> = included.map(|cell| cell.label.clone()).collect();
    let selection = Selection::parse(&format!("last and ({comparison})"))?;
    let found = store.runs_fitting(&selection).await?;
    let whole = e2e::plan(recipe)?;
    let runs = ids.iter().zip(&whole.runs).filter(|(id, _)| found.contains(id));
    let mut runs: Vec<String> = runs.map(|(_, run)| whole.cells[run.cell].label.clone()).collect();
    cells.sort();
    runs.sort();
    Ok([cells, runs])
}

async fn recorded(store: &Store, plan: &Plan) -> anyhow::Result<Vec<RunId>> {
    let new = NewSweep {
        plan,
        recipe_path: "both.toml",
        argv: &[],
        version: "0.1.0",
        commit: None,
        started: 1_000,
        driver: Driver::this(),
    };
    let sweep = store.record_sweep(&new).await?;
    Ok(store.runs_of(&sweep).await?)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_comparison_means_the_same_of_cells_and_of_runs() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).await.unwrap();
    let whole = e2e::plan(RECIPE).unwrap();
    let ids = recorded(&store, &whole).await.unwrap();
    let mut numbers = Vec::new();
    for comparison in COMPARISONS {
        let [cells, runs] = both(RECIPE, comparison, &store, &ids).await.unwrap();
        assert_eq!(cells, runs, "{comparison}");
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
    assert_eq!(count("strategy.pipe.depth != 2"), Some(4 * 2));
    assert_eq!(count("strategy.elastic.depth = 2"), Some(0));
    assert_eq!(count("strategy.d-sync.communication.collective = tree"), Some(4));
    assert_eq!(count("strategy.period = 3"), Some(4));
    assert_eq!(count("compression = truncate16"), Some(4 * 2));
    assert_eq!(count("evaluate >= '5 epochs'"), Some(0));
    assert_eq!(count("target.at-least = 0.9"), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_counts_only_where_it_is_in_force() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).await.unwrap();
    let whole = e2e::plan(LOCKSTEP).unwrap();
    let ids = recorded(&store, &whole).await.unwrap();
    let mut numbers = Vec::new();
    for comparison in OF_LOCKSTEP {
        let [cells, runs] = both(LOCKSTEP, comparison, &store, &ids).await.unwrap();
        assert_eq!(cells, runs, "{comparison}");
        numbers.push(runs.len());
    }
    // By hand: six arms under four conditions. A server has no all-reduce, and neither has `gmp` with servers; `d-sync` has
    // its own codec; an axis that is set before the kind loses its value to it.
    assert_eq!(whole.runs.len(), 6 * 4);
    assert_eq!(numbers[..6], [4, 20, 4, 8, 8, 16], "{numbers:?}");
    assert_eq!(numbers[8..], [12, 12, 24, 24], "{numbers:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_of_a_search_have_the_values_of_their_trial_and_their_own_length() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).await.unwrap();
    let searching = RECIPE
        .replace("epochs = 4", "epochs = 16")
        .replace("[repeats]\ncount = 1", "[search]\nrungs = 1\nfactor = 2\n[repeats]\ncount = 1")
        .replace("test = 100", "test = 100\nvalidation = \"20%\"");
    let whole = e2e::plan(&searching).unwrap();
    recorded(&store, &whole).await.unwrap();
    let found = async |selection: &str| {
        store.runs_fitting(&Selection::parse(selection).unwrap()).await.unwrap().len()
    };
    let all = whole.runs.len();
    let rungs = whole.runs.iter().filter(|run| whole.cells[run.cell].condition.contains("rung=")).count();
    assert!(rungs > 0 && rungs < all, "{rungs} of {all}");
    assert_eq!(found("train.epochs = 8").await, rungs);
    assert_eq!(found("train.epochs = 16").await, all - rungs);
    assert_eq!(found("lr-schedule = step").await + found("lr-schedule = constant").await, all);
    assert_eq!(found("lr-schedule = step and train.epochs = 8").await, rungs / 2);
}
