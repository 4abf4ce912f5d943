//! Repeats until decided, of real runs: an arm that is settled early gets no more of them, and an open one gets all.
#![expect(clippy::unwrap_used, reason = "in a test, a failure is a panic")]

use e2e::{Desk, gone, wait_until};
use rustix::process::Signal;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_mins(4);

/// Three arms that train the same weights on a slow link: a star sends twice as much over it as a ring, and of a model of one layer a
/// schedule by layers sends the same. A tenth of a percent matters, so that the first is settled by three runs, and the other by hardly
/// any number.
const RECIPE: &str = r#"
schema = 1
name = "decided"
[model]
kind = "softmax"
[dataset]
kind = "synthetic"
train = 400
test = 100
[train]
global-batch = 40
steps = 30
evaluate = "30 steps"
[nodes]
use = ["local*2"]
[network]
bandwidth = "10Mbit/s"
[[strategy]]
kind = "d-sync"
[[strategy]]
kind = "d-sync"
name = "star"
communication.collective = "star"
[[strategy]]
kind = "d-sync"
name = "twin"
communication.schedule = "per-layer"
[repeats]
count = 3
at-most = 6
[report]
min-effect = "0.1%"
"#;

/// Runs of each arm of the last sweep in some state.
fn counts(desk: &Desk, state: &str) -> BTreeMap<String, usize> {
    let selection = format!("last and state={state}");
    let ended = desk.run(["list", &selection, "--format", "json"]).unwrap();
    let mut counts = BTreeMap::new();
    if ended.code == Some(0) {
        let document: Value = serde_json::from_str(&ended.stdout).unwrap();
        for run in document.as_array().unwrap() {
            *counts.entry(run["arm"].as_str().unwrap().to_owned()).or_default() += 1;
        }
    }
    counts
}

/// Three runs of the settled arm, and as many of the other arm as of the baseline: all six unless it was settled by chance.
fn check(desk: &Desk) {
    let done = counts(desk, "done");
    assert_eq!((done["star"], done["twin"]), (3, done["d-sync"]), "{done:?}");
    let spared = counts(desk, "not-needed");
    for (arm, made) in &done {
        assert_eq!(made + spared.get(arm).copied().unwrap_or(0), 6, "{arm}: {done:?}, {spared:?}");
    }
}

#[test]
fn what_is_settled_gets_no_more_repeats_and_what_is_open_gets_all() {
    let desk = Desk::new().unwrap();
    desk.write("recipe.toml", RECIPE).unwrap();
    let plan = desk.run(["plan", "recipe.toml"]).unwrap().with_code(0).unwrap();
    assert!(plan.stdout.contains("3 cells, 9 to 18 runs"), "{}", plan.stdout);
    assert!(plan.stdout.contains("3 to 6"), "{}", plan.stdout);
    let ran = desk
        .run(["run", "recipe.toml", "--progress", "plain", "--report", "page.html"])
        .unwrap()
        .with_code(0)
        .unwrap();
    check(&desk);
    let open = "after 3 repeats: 1 of 2 comparisons open: twin; it and its baseline go on to 6 repeats";
    assert_eq!(ran.stderr.contains(open), counts(&desk, "done")["twin"] == 6, "{}", ran.stderr);
    assert!(ran.stderr.contains("[9/9]"), "{}", ran.stderr);
    let page = std::fs::read_to_string(desk.at("page.html")).unwrap();
    assert!(page.contains("until decided or 6"));
    // Nothing is trained again, and the same runs are spared.
    let again = desk.run(["run", "recipe.toml"]).unwrap().with_code(0).unwrap();
    assert!(again.stderr.contains("9 finished before and reused"), "{}", again.stderr);
    check(&desk);
}

#[test]
fn a_sweep_whose_driver_was_killed_ends_as_one_that_was_not() {
    let desk = Desk::new().unwrap();
    desk.write("recipe.toml", RECIPE).unwrap();
    let driver = desk.start(["run", "recipe.toml"]).unwrap();
    wait_until(PATIENCE, || Ok(desk.attempts().count() >= 10)).unwrap();
    let workers = driver.workers().unwrap();
    driver.signal(Signal::KILL).unwrap();
    driver.end(PATIENCE).unwrap();
    gone(&workers, Duration::from_secs(10)).unwrap();
    assert!(counts(&desk, "not-needed").is_empty());
    desk.run(["run", "recipe.toml"]).unwrap().with_code(0).unwrap();
    check(&desk);
}
