//! Threads are the plan's: the same for all arms of a condition, whatever the machine and the caller's shell say.
#![expect(clippy::unwrap_used, reason = "in a test, a failure is a panic")]

use e2e::{Desk, DriverProcess, plan_for, train_planned};
use launch::Deadlines;
use recipe::{Machine, Role};
use record::{Event, Rank};
use std::collections::BTreeMap;
use std::time::Duration;

/// The quickstart's arms, for a few steps.
const QUICKSTART: &str = r#"
schema = 1
name = "quickstart"
[model]
kind = "mnist-mlp"
[dataset]
kind = "synthetic"
train = 1000
test = 100
[train]
global-batch = 100
steps = 20
optimizer = { kind = "sgd", lr = 0.2 }
evaluate = "20 steps"
[nodes]
use = ["local*2"]
[[strategy]]
kind = "ps-sync"
baseline = true
[[strategy]]
kind = "d-sync"
[communication]
reduce-order = "rank"
[measure]
weight-hash = "step"
[repeats]
count = 1
"#;

/// On four cores all-reduces would have two threads a worker, and beside a server there is one.
#[test]
fn on_four_cores_all_arms_have_equal_threads_and_equal_weights() {
    let plan = plan_for(QUICKSTART, Machine::new(4)).unwrap();
    let mut seen = BTreeMap::new();
    for run in &plan.runs {
        let trained = train_planned(&plan, run, Deadlines::default(), |_| ()).unwrap().done().unwrap();
        let cell = &plan.cells[run.cell];
        let mut threads = Vec::new();
        for event in &trained.events {
            if let Event::Prepared(prepared) = event
                && cell.spec.cluster.placements[prepared.rank.0 as usize].role == Role::Worker
            {
                threads.push(prepared.threads);
            }
        }
        seen.insert(cell.label.as_str(), (threads, trained.common_digests().unwrap()));
    }
    assert_eq!(seen["ps-sync"].0, [1, 1]);
    assert_eq!(seen["ps-sync"].1.len(), 21);
    assert_eq!(seen["d-sync"], seen["ps-sync"]);
}

/// With one thread, and with two, for which a matrix product is divided otherwise.
#[test]
fn the_callers_shell_changes_no_bit_of_the_weights() {
    let alone = QUICKSTART.replace("[[strategy]]\nkind = \"ps-sync\"\nbaseline = true\n", "");
    for threads in [1, 2] {
        let recipe = alone.replace("[nodes]\n", &format!("[nodes]\nthreads = {threads}\n"));
        let plain = digests(&recipe, &[]);
        assert_eq!(plain.len(), 2 * 21);
        let shell = [
            ("OMP_NUM_THREADS", "3"),
            ("MKL_NUM_THREADS", "3"),
            ("MKL_CBWR", "COMPATIBLE"),
            ("OMP_DYNAMIC", "TRUE"),
        ];
        assert_eq!(digests(&recipe, &shell), plain, "{threads} threads");
    }
}

/// The digest of each rank's weights after each step of the only run, trained from a shell with these variables.
fn digests(recipe: &str, shell: &[(&str, &str)]) -> BTreeMap<(Rank, u64), String> {
    let desk = Desk::new().unwrap();
    desk.write("recipe.toml", recipe).unwrap();
    let mut command = desk.command(["run", "recipe.toml"]).unwrap();
    for name in ["OMP_NUM_THREADS", "MKL_NUM_THREADS", "MKL_CBWR", "OMP_DYNAMIC"] {
        command.env_remove(name);
    }
    command.envs(shell.iter().copied());
    DriverProcess::start(command).unwrap().end(Duration::from_mins(4)).unwrap().with_code(0).unwrap();
    let hash = |event| match event {
        Event::WeightHash(hash) => Some(((hash.rank, hash.step), hash.sha256)),
        _ => None,
    };
    desk.events().into_iter().filter_map(hash).collect()
}
