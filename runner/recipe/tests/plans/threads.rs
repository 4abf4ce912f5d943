//! How many threads each worker has: the same for all arms of a condition.

use crate::desk::Desk;
use crate::expansion::{plan, planned};
use crate::problems::recipe;
use recipe::{Machine, Plan, PlanRequest, Threads};
use std::path::Path;

fn on(cores: u32, only: Option<&str>, changes: &[&str]) -> Plan {
    let desk = Desk::with(&recipe(changes));
    let request = PlanRequest { only, ..PlanRequest::new(Path::new("recipe.toml")) };
    let plan = recipe::plan(&desk, &request, &Machine::new(cores));
    plan.unwrap_or_else(|problems| panic!("{}", problems.render(recipe::Colours::None, 100)))
}

fn threads(plan: &Plan) -> Vec<(&str, u32, bool)> {
    let of = |cell: &recipe::Cell| (cell.spec.threads.worker, cell.spec.threads.evaluate_at_once);
    plan.cells.iter().map(|cell| (cell.label.as_str(), of(cell).0, of(cell).1)).collect()
}

const TWO: &str = "[nodes]\nuse = [\"local*2\"]";

/// Of eight cores two workers without a server would have four threads each, and beside two servers three.
#[test]
fn the_arm_with_the_most_ranks_decides_for_all() {
    let arms = [TWO, "[[strategy]]\nkind = \"async-sgd\"\nservers = 2", "[[strategy]]\nkind = \"d-sync\""];
    assert_eq!(threads(&on(8, None, &arms)), [("async-sgd", 3, false), ("d-sync", 3, false)]);
    assert_eq!(threads(&on(8, None, &[TWO, arms[2]])), [("d-sync", 4, false)]);
    // With a core to spare all arms are evaluated beside the run, those too that would have left two.
    assert_eq!(threads(&on(9, None, &arms)), [("async-sgd", 3, true), ("d-sync", 3, true)]);
}

#[test]
fn conditions_have_threads_of_their_own_and_the_plan_says_so() {
    let axes = ["[sweep.axes]\nnodes.workers = [1, 2, 4]"];
    let plan = on(4, None, &axes);
    let each: Vec<u32> = plan.cells.iter().map(|cell| cell.spec.threads.worker).collect();
    assert_eq!(each, [3, 3, 1, 1, 1, 1]);
    assert_eq!(
        plan.threads(),
        [
            "workers=1: 3 per worker, 4 for evaluation after the run",
            "workers=2: 1 per worker, 1 for evaluation beside the run",
            "workers=4: 1 per worker, 4 for evaluation after the run"
        ]
    );
    assert!(!plan.expanded.contains("threads ="), "no number is right for all of them: {}", plan.expanded);
}

/// A run stays the same whichever others are left out.
#[test]
fn a_selection_changes_no_run() {
    let arms = [TWO, "[[strategy]]\nkind = \"ps-sync\"", "[[strategy]]\nkind = \"d-sync\""];
    let whole = on(4, None, &arms);
    let part = on(4, Some("strategy.name == 'd-sync'"), &arms);
    assert_eq!(part.cells[1].config_hash, whole.cells[1].config_hash);
    assert_eq!(threads(&whole)[1], ("d-sync", 1, true));
    let excluded = "[[sweep.exclude]]\nwhen = \"strategy.name == 'ps-sync'\"";
    let other = on(4, None, &[arms[0], arms[1], arms[2], excluded]);
    assert_eq!(other.cells[1].config_hash, whole.cells[1].config_hash);
}

#[test]
fn threads_are_a_key_an_axis_and_part_of_a_runs_identity() {
    let given = plan(&["[nodes]\nuse = [\"local*2\"]\nthreads = 2"]);
    assert_eq!(given.cells[0].spec.threads, Threads { worker: 2, evaluator: 4, evaluate_at_once: false });
    assert!(given.expanded.contains("threads = 2"), "{}", given.expanded);
    let axis = plan(&[TWO, "[sweep.axes]\nnodes.threads = [1, 2]"]);
    let hashes: Vec<&str> = axis.cells.iter().map(|cell| cell.config_hash.as_str()).collect();
    assert_ne!(hashes[0], hashes[2]);
    assert_eq!(hashes[2], given.cells[0].config_hash);
    assert_eq!(planned(&Desk::with(&axis.expanded)).cells, axis.cells);
    // A plan of an expanded recipe decides the same.
    let decided = on(8, None, &[TWO]);
    assert!(decided.expanded.contains("threads = 3"), "{}", decided.expanded);
    let again = recipe::plan(
        &Desk::with(&decided.expanded),
        &PlanRequest::new(Path::new("recipe.toml")),
        &Machine::new(8),
    );
    assert_eq!(again.expect("a plan").cells, decided.cells);
}

#[test]
fn more_threads_than_cores_are_warned_of() {
    let warned = |changes: &[&str]| {
        let plan = plan(changes);
        plan.warnings.into_iter().map(|warning| (warning.code, warning.title)).collect::<Vec<_>>()
    };
    let told = ("R201".to_owned(), "2 workers of 3 threads share 4 cores: their times say little".to_owned());
    assert_eq!(warned(&["[nodes]\nuse = [\"local*2\"]\nthreads = 3"]), [told]);
    assert_eq!(warned(&["[nodes]\nuse = [\"local*2\"]\nthreads = 2"]), []);
    let stated = "[compute]\nstep-time = \"20ms\"";
    assert_eq!(warned(&["[nodes]\nuse = [\"local*2\"]\nthreads = 3", stated]), []);
}
