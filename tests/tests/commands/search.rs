//! Successive halving, of real runs: it finds what the whole grid finds, for less, and continues where it was killed.
#![expect(clippy::unwrap_used, reason = "in a test, a failure is a panic")]

use e2e::{Desk, gone, wait_until};
use rustix::process::Signal;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_mins(4);

/// Two arms that train the same weights, so that both choose the same rate.
const RECIPE: &str = r#"
schema = 1
name = "searched"
[model]
kind = "softmax"
[dataset]
kind = "synthetic"
train = 600
test = 100
validation = "20%"
[train]
global-batch = 40
steps = 64
evaluate = "64 steps"
optimizer = { kind = "sgd", lr = 0.1 }
[nodes]
use = ["local*2"]
[[strategy]]
kind = "d-sync"
baseline = true
[[strategy]]
kind = "d-sync"
name = "twin"
communication.schedule = "per-layer"
[sweep.axes]
train.optimizer.lr = [0.001, 0.01, 0.1, 10.0]
[repeats]
count = 1
"#;

/// A rung is too short for the target, which is no fault of it.
const SEARCH: &str =
    "[search]\nrungs = 2\nfactor = 2\n[train.target]\nmetric = \"test-accuracy\"\nat-least = 0.7\n";

/// One arm is enough to be killed.
const ONE: &str = "strategy.name == 'd-sync'";

fn runs(desk: &Desk, selection: &str) -> Vec<Value> {
    let ended = desk.run(["list", selection, "--format", "json"]).unwrap().with_code(0).unwrap();
    let document: Value = serde_json::from_str(&ended.stdout).unwrap();
    document.as_array().unwrap().clone()
}

fn rate(run: &Value) -> String {
    run["spec"]["train"]["optimizer"]["lr"].to_string()
}

fn is_of_a_rung(run: &Value) -> bool {
    run["condition"].as_str().unwrap().contains("rung=")
}

/// The rate that each arm trained to the end with.
fn chosen(desk: &Desk) -> BTreeMap<String, String> {
    let done = runs(desk, "last and state=done");
    let to_the_end = done.iter().filter(|run| !is_of_a_rung(run));
    to_the_end.map(|run| (run["arm"].as_str().unwrap().to_owned(), rate(run))).collect()
}

#[test]
fn a_search_finds_what_the_grid_finds_for_less() {
    let desk = Desk::new().unwrap();
    desk.write("grid.toml", RECIPE).unwrap();
    desk.write("search.toml", &[RECIPE, SEARCH].concat()).unwrap();
    let plan = desk.run(["plan", "search.toml"]).unwrap().with_code(0).unwrap();
    assert!(plan.stdout.contains("2 searches, 14 runs"), "{}", plan.stdout);
    assert!(plan.stdout.contains("4, 2, 1"), "{}", plan.stdout);
    desk.run(["run", "grid.toml"]).unwrap().with_code(0).unwrap();
    let grid = runs(&desk, "last and arm=twin");
    let accuracy = |run: &Value| run["metric"][1].as_f64().unwrap();
    let best = grid.iter().max_by(|one, other| accuracy(one).total_cmp(&accuracy(other))).unwrap();
    let best = rate(best);
    let ran = desk
        .run(["run", "search.toml", "--progress", "plain", "--report", "page.html"])
        .unwrap()
        .with_code(0)
        .unwrap();
    let wanted = ["d-sync", "twin"].map(|arm| (arm.to_owned(), best.clone()));
    assert_eq!(chosen(&desk), BTreeMap::from(wanted));
    let said = ran.stderr.lines().find(|line| line.contains("is the best of 2, and trains to the end"));
    assert!(said.is_some_and(|line| line.contains(&format!("d-sync: lr={best} ("))), "{}", ran.stderr);
    assert!(ran.stdout.contains("setting") && ran.stdout.contains(&format!("lr={best}")), "{}", ran.stdout);
    let page = std::fs::read_to_string(desk.at("page.html")).unwrap();
    assert!(page.contains("How settings were found"));
    // A quarter of the steps four times, half of them twice, and all of them once, in place of four times.
    let length = |run: &Value| run["spec"]["train"]["length"]["steps"].as_u64().unwrap();
    let own: u64 = runs(&desk, "last and arm=twin and state=done").iter().map(length).sum();
    let whole: u64 = grid.iter().map(length).sum();
    assert_eq!((own, whole), (4 * 16 + 2 * 32 + 64, 4 * 64));
}

#[test]
fn a_search_whose_driver_was_killed_goes_on() {
    let desks = [0, 1].map(|_| Desk::new().unwrap());
    for desk in &desks {
        desk.write("search.toml", &[RECIPE, SEARCH].concat()).unwrap();
    }
    let [desk, whole] = desks;
    whole.run(["run", "search.toml", "--only", ONE]).unwrap().with_code(0).unwrap();
    for attempts in [2, 6] {
        let driver = desk.start(["run", "search.toml", "--only", ONE]).unwrap();
        wait_until(PATIENCE, || Ok(desk.attempts().count() >= attempts)).unwrap();
        let workers = driver.workers().unwrap();
        driver.signal(Signal::KILL).unwrap();
        driver.end(PATIENCE).unwrap();
        gone(&workers, Duration::from_secs(10)).unwrap();
    }
    desk.run(["run", "search.toml", "--only", ONE]).unwrap().with_code(0).unwrap();
    assert_eq!(chosen(&desk), chosen(&whole));
    // The same runs were made, each of them once: all others were reused.
    let made = |desk: &Desk| {
        let done = runs(desk, "last and state=done");
        let name = |run: &Value| format!("{} {} {}", run["arm"], run["condition"], rate(run));
        done.iter().map(name).collect::<BTreeSet<_>>()
    };
    assert_eq!(made(&desk), made(&whole));
    assert_eq!(made(&desk).len(), 7);
    let trained = desk.attempts().filter(|attempt| attempt.is_dir()).count();
    let killed = 2;
    assert!(trained <= 7 + killed, "{trained}");
}
