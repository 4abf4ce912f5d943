//! The real `bakeoff` with real workers, as a user has it: what it prints, what it leaves, how it ends.
#![expect(clippy::unwrap_used, reason = "in a test, a failure is a panic")]

use e2e::{Desk, Ended, Sketch};
use serde_json::Value;
use std::fs;
use std::path::Path;

const SMOKE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../recipes/smoke.toml");

/// One arm, two workers, ten steps of a linear model.
fn small(more: &str) -> String {
    format!("{}{more}\n", Sketch::default())
}

/// A desk with one recipe on it.
fn desk(recipe: &str) -> Desk {
    let desk = Desk::new().unwrap();
    desk.write("recipe.toml", recipe).unwrap();
    desk
}

fn run(desk: &Desk, arguments: &[&str]) -> Ended {
    desk.run(arguments).unwrap()
}

/// Standard output of `bakeoff` with these arguments, which must end with exit code 0.
fn done(desk: &Desk, arguments: &[&str]) -> String {
    run(desk, arguments).with_code(0).unwrap().stdout
}

fn runs(desk: &Desk) -> Vec<Value> {
    serde_json::from_str(&done(desk, &["list", "--format", "json"])).unwrap()
}

fn states(desk: &Desk) -> Vec<String> {
    runs(desk).iter().map(|run| run["state"].as_str().unwrap().to_owned()).collect()
}

fn trained(ended: &Ended) -> bool {
    ended.stderr.contains(" is process ")
}

#[test]
fn a_recipe_becomes_a_page_and_is_not_trained_twice() {
    let desk = Desk::new().unwrap();
    let first = run(&desk, &["-v", "run", SMOKE]).with_code(0).unwrap();
    assert!(trained(&first));
    let page = fs::read_to_string(desk.at(first.page().unwrap())).unwrap();
    assert!(page.contains("Does everything work?"));
    assert!(first.stdout.contains("ps-sync") && first.stdout.contains("d-sync"));
    assert_eq!(states(&desk), ["done", "done"]);
    every_verb_can_read(&desk);

    let second = run(&desk, &["-v", "run", SMOKE]).with_code(0).unwrap();
    assert!(!trained(&second), "{}", second.stderr);
    assert!(second.stderr.contains("2 finished before and reused"));
    assert!(desk.at(second.page().unwrap()).is_file());
    let why = done(&desk, &["plan", SMOKE, "--why"]);
    assert_eq!(why.matches("reuse").count(), 2, "{why}");

    let only = ["--fresh", "--only", "strategy.name == 'd-sync'"];
    let third = run(&desk, &[&["-v", "run", SMOKE][..], &only].concat()).with_code(0).unwrap();
    assert!(trained(&third));
    assert_eq!(states(&desk), ["done"; 5]);
}

fn every_verb_can_read(desk: &Desk) {
    assert!(done(desk, &["db", "check"]).starts_with("ok"));
    assert!(done(desk, &["db", "info"]).contains("schema version"));
    let runs = runs(desk);
    let id = runs[0]["id"].as_str().unwrap();
    let shown = done(desk, &["show", id]);
    assert!(shown.contains(id) && shown.contains("on all ranks") && shown.contains("wait-peer"), "{shown}");
    let detail: Value = serde_json::from_str(&done(desk, &["show", id, "--format", "json"])).unwrap();
    assert_eq!(detail["run"]["attempt"]["steps"], 20);
    // Workers that have nothing to complain about log nothing, and that is said.
    let logs = run(desk, &["logs", id]).with_code(0).unwrap();
    assert!(!logs.stdout.is_empty() || logs.stderr.contains("logged nothing"));
    let csv = done(desk, &["export", "last", "--format", "csv"]);
    assert_eq!(csv.lines().count(), 3, "a head and a line per run: {csv}");
    let metrics = done(desk, &["export", "last", "--format", "jsonl", "--what", "metrics"]);
    let metrics: Vec<Value> = metrics.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(metrics.iter().any(|row| row["metric"] == "test-accuracy" && row["step"] == 20), "{metrics:?}");
    done(desk, &["report", "last", "-o", "again.html"]);
    assert!(fs::read_to_string(desk.at("again.html")).unwrap().contains("Does everything work?"));
}

#[test]
fn noise_trains_one_arm_under_two_names_and_lends_its_runs_to_no_other_sweep() {
    let desk = desk(&small("").replace("steps = 10", "steps = 120"));
    let ended = run(&desk, &["noise", "recipe.toml", "--repeats", "3", "--json"]).with_code(0).unwrap();
    let told: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!((&told["pairs"], &told["smallest"][1]["repeats"]), (&3.into(), &5.into()));
    let differences: Vec<f64> = (told["smallest"].as_array().unwrap().iter())
        .map(|smallest| smallest["difference"]["value"].as_f64().unwrap())
        .collect();
    assert!(differences.is_sorted_by(|more, less| more > less && *less > 0.0), "{told}");
    let page = fs::read_to_string(desk.at(told["report"].as_str().unwrap())).unwrap();
    assert!(page.contains("d-sync A") && page.contains("<b>machine</b>"), "the page of the sweep");
    assert_eq!(states(&desk), ["done"; 6]);
    let hosts = done(&desk, &["export", "last", "--format", "csv", "--what", "hosts"]);
    assert!(hosts.lines().count() > 2 * 6, "a head, and at least two readings of each run: {hosts}");
    let after = run(&desk, &["-v", "run", "recipe.toml"]).with_code(0).unwrap();
    assert!(trained(&after), "{}", after.stderr);
    let people = done(&desk, &["noise", "recipe.toml", "--repeats", "2"]);
    assert!(people.contains("finds a difference of step times of at least:"), "{people}");
}

#[test]
fn a_run_that_diverges_is_a_result() {
    let desk = desk(&small("").replace("lr = 0.05", "lr = 1e38"));
    let ended = run(&desk, &["run", "recipe.toml"]).with_code(5).unwrap();
    assert!(ended.stderr.contains("diverged in step"), "{}", ended.stderr);
    assert_eq!(states(&desk), ["diverged"]);
    let page = fs::read_to_string(desk.at(ended.page().unwrap())).unwrap();
    assert!(page.contains("diverged in step"));
    let again = run(&desk, &["-v", "run", "recipe.toml"]).with_code(5).unwrap();
    assert!(!trained(&again), "a result is not trained again");
}

#[test]
fn a_target_that_is_missed_is_told_by_the_exit_code() {
    let target = "target = { metric = \"test-accuracy\", at-least = 0.999 }\n[nodes]";
    let desk = desk(&small("").replace("[nodes]", target));
    let ended = run(&desk, &["run", "recipe.toml"]).with_code(5).unwrap();
    assert_eq!(states(&desk), ["done"]);
    assert!(desk.at(ended.page().unwrap()).is_file());
    assert!(ended.stdout.contains("in 0 of 1 run"), "{}", ended.stdout);
}

#[test]
fn all_mistakes_are_told_at_once_and_nothing_is_started() {
    let wrong = small("").replace("steps = 10", "stepps = 10").replace("\"d-sync\"", "\"d-sink\"");
    let desk = desk(&wrong.replace("lr = 0.05", "lr = \"fast\""));
    for verb in ["check", "plan", "run"] {
        let ended = run(&desk, &[verb, "recipe.toml"]).with_code(2).unwrap();
        let said = format!("{}{}", ended.stdout, ended.stderr);
        for (mistake, place) in [("stepps", ":11:"), ("d-sink", ":17:"), ("fast", ":12:")] {
            assert!(
                said.contains(mistake) && said.contains(&format!("recipe.toml{place}")),
                "{verb}: {said}"
            );
        }
        assert!(said.contains("did you mean `d-sync`"), "{said}");
    }
    assert!(!desk.at(".bakeoff").exists(), "a wrong recipe leaves no store");
    let told = run(&desk, &["check", "recipe.toml", "--format", "json"]).with_code(2).unwrap();
    let told: Value = serde_json::from_str(&told.stdout).unwrap();
    assert!(told.to_string().contains("d-sink"));
}

#[test]
fn a_worker_that_is_missing_stops_a_sweep_before_it_starts() {
    let desk = desk(&small(""));
    let mut command = desk.command(["run", "recipe.toml"]).unwrap();
    command.env("BAKEOFF_WORKER", "/nowhere/bakeoff-worker");
    let ended = e2e::DriverProcess::start(command).unwrap().end(std::time::Duration::from_secs(30)).unwrap();
    let ended = ended.with_code(4).unwrap();
    assert!(ended.stderr.contains("/nowhere/bakeoff-worker"), "{}", ended.stderr);
    assert!(ended.stderr.contains("cargo build") || ended.stderr.contains("cure"), "{}", ended.stderr);
}

#[test]
fn the_store_is_where_it_is_said_to_be() {
    let desk = desk(&small(""));
    let elsewhere = |arguments: &[&str]| {
        let mut command = desk.command(arguments).unwrap();
        command.env("BAKEOFF_STORE", "results");
        e2e::DriverProcess::start(command).unwrap().end(std::time::Duration::from_mins(1)).unwrap()
    };
    let ended = elsewhere(&["run", "recipe.toml"]).with_code(0).unwrap();
    assert!(ended.page().unwrap().starts_with("results/reports"));
    assert!(desk.at("results/bakeoff.db").is_file() && !desk.at(".bakeoff").exists());
    assert!(elsewhere(&["list"]).with_code(0).unwrap().stdout.contains("d-sync"));
    assert!(done(&desk, &["--store", "results", "list"]).contains("d-sync"));
    run(&desk, &["list"]).with_code(7).unwrap();
    assert!(Path::new(SMOKE).is_file());
}

#[test]
fn a_selection_that_fits_nothing_says_so() {
    let desk = desk(&small(""));
    run(&desk, &["run", "recipe.toml"]).with_code(0).unwrap();
    run(&desk, &["list", "strategy=ps-sync"]).with_code(3).unwrap();
    run(&desk, &["list", "colour=red"]).with_code(2).unwrap();
    run(&desk, &["show", "ZZZZZZZZ"]).with_code(3).unwrap();
}
