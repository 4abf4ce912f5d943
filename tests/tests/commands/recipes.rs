//! Every recipe of `recipes/papers` and `recipes/checks` in real processes, shortened: each arm trains a few steps on
//! built-in data, of a small model where its own is large. The gate checks that each recipe can be started, not its hours of training.
#![expect(clippy::unwrap_used, reason = "in a test, a failure is a panic")]

use e2e::Desk;
use recipe::{Extent, Plan};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Steps of all workers in a run, or two more than the longest period.
const STEPS: u64 = 4;
/// Workers of a run, at most: each computes the steps of its own.
const WORKERS: u32 = 2;
/// For all runs of a recipe together, on a machine that does nothing else.
const PATIENCE: Duration = Duration::from_mins(4);

fn recipes(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../recipes").join(folder);
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let mut recipes: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|end| end == "toml")).collect();
    recipes.sort();
    recipes
}

/// A model with more weights, or of examples with more values, is replaced by a small residual network, which has blocks, too.
const MOST_WEIGHTS: usize = 8_000_000;
const MOST_VALUES: usize = 100_000;

/// Command-line settings that shorten a recipe: its length, its data, how many workers, and a model that takes long,
/// but none of its arms.
fn shortened(plan: &Plan) -> Vec<String> {
    let few = fewest(plan);
    let spec = &plan.cells[0].spec;
    let batch = u64::from(spec.train.global_batch);
    let mut set = Vec::new();
    let period = plan.cells.iter().map(|cell| cell.spec.strategy.period()).max().unwrap();
    let steps = STEPS.max(period + 2);
    let samples = match spec.train.length {
        Extent::Epochs(epochs) => batch * ((steps as f64 / epochs).ceil() as u64).max(2),
        Extent::Steps(_) => {
            set.push(format!("train.steps={steps}"));
            set.push(format!("train.evaluate='{steps} steps'"));
            4 * batch
        }
    };
    // Rates are those of the recipe's own data.
    set.push("train.optimizer.lr=0.01".into());
    set.push(format!("dataset={{kind='synthetic',train={samples},test=100}}"));
    if spec.train.target.is_some() {
        // One that is reached: else the command says that it was not.
        set.push("train.target={metric='test-accuracy',at-least=0.01}".into());
    }
    if spec.emulation.compute.is_some() {
        set.push("compute.step-time='20ms'".into());
    }
    let wide = spec.model.layered().is_some_and(|model| model.input.size() > MOST_VALUES);
    if wide || spec.model.parameter_count() > MOST_WEIGHTS {
        set.push("model={kind='resnet20'}".into());
    }
    let mut arguments: Vec<String> = set.into_iter().flat_map(|set| ["--set".into(), set]).collect();
    if plan.cells.iter().any(|cell| cell.spec.cluster.workers() != few) {
        arguments.extend(["--only".into(), format!("nodes.workers == {few}")]);
    } else if few > WORKERS {
        arguments.extend(["--set".into(), format!("nodes.workers={WORKERS}")]);
    }
    arguments.extend(["--repeats".into(), "1".into()]);
    arguments
}

/// The fewest workers of a recipe that are more than one.
fn fewest(plan: &Plan) -> u32 {
    let workers = plan.cells.iter().map(|cell| cell.spec.cluster.workers());
    workers.filter(|workers| *workers > 1).min().unwrap()
}

/// Replaces the axis of slow workers by one, three times as slow: all arms are trained once, none a hundred times as long.
fn one_slow_worker(text: &str) -> String {
    let Some((before, axis)) = text.split_once("[sweep.axes]\nnodes.slow = [\n") else {
        return text.to_owned();
    };
    let (_, after) = axis.split_once("\n]\n").unwrap();
    let before = before.replace("[nodes]\n", "[nodes]\nslow = [{ rank = 1, compute = 3.0 }]\n");
    format!("{before}{after}")
}

/// Runs each recipe of a folder, and looks whether each of its arms was trained to the end.
fn run_all(folder: &str) {
    for path in recipes(folder) {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let text = one_slow_worker(&std::fs::read_to_string(&path).unwrap());
        let text =
            text.replace("\"../../examples", concat!("\"", env!("CARGO_MANIFEST_DIR"), "/../examples"));
        let plan = e2e::plan(&text).unwrap();
        let desk = Desk::new().unwrap();
        desk.write(&name, &text).unwrap();
        let mut arguments = vec!["run".to_owned(), name.clone()];
        arguments.extend(shortened(&plan));
        let ended = desk.start(&arguments).unwrap().end(PATIENCE).unwrap();
        ended.with_code(0).unwrap_or_else(|error| panic!("{name}, {arguments:?}: {error}"));
        let runs = desk.said(["export", "last", "--format", "jsonl"]).unwrap();
        let few = fewest(&plan);
        let cells = &plan.cells;
        for cell in cells.iter().filter(|cell| cell.excluded.is_none() && cell.spec.cluster.workers() == few)
        {
            let named = format!("\"{}\"", plan.arms[cell.arm].name);
            let done = |line: &str| line.contains(&named) && line.contains("\"done\"");
            assert!(runs.lines().any(done), "{name}: no run of {named} is done:\n{runs}");
        }
    }
}

#[test]
fn every_paper_can_be_begun() {
    run_all("papers");
}

#[test]
fn every_check_can_be_begun() {
    run_all("checks");
}
