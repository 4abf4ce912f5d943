//! `run`, up to the point where a worker would train.

use crate::kitchen::{HAPLESS, IDLE, KILLED, Kitchen, Told};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

#[test]
fn a_machine_without_a_worker_is_refused_before_anything_starts() {
    let kitchen = Kitchen::new();
    let told = kitchen.run(&["run", "small.toml"]).code(4);
    assert!(told.err.contains("no `bakeoff-worker` at /nowhere/bakeoff-worker"), "{}", told.err);
    assert!(!kitchen.path(".bakeoff").exists());
}

#[test]
fn a_worker_of_another_build_is_refused() {
    for (fitting, other) in [(" protocol ", " protocol 99"), (" format ", " format f")] {
        let kitchen = Kitchen::new().with_worker(HAPLESS);
        let script = fs::read_to_string(kitchen.path("bakeoff-worker")).unwrap();
        fs::write(kitchen.path("bakeoff-worker"), script.replace(fitting, other)).unwrap();
        let told = kitchen.run(&["run", "small.toml"]).code(4);
        assert!(told.err.contains("build driver and worker from one state: `cargo build"), "{}", told.err);
    }
}

#[test]
fn a_page_that_cannot_be_written_is_refused_before_anything_starts() {
    let kitchen = Kitchen::new().with_worker(HAPLESS);
    kitchen.write("file", "");
    let told = kitchen.run(&["run", "small.toml", "--report", "file/page.html"]).code(4);
    assert!(told.err.contains("file/page.html cannot be written"), "{}", told.err);
    kitchen.run(&["run", "small.toml", "--report", "."]).code(2);
    assert!(!kitchen.path(".bakeoff").exists());
}

#[test]
fn data_that_is_not_there_is_refused() {
    let kitchen = Kitchen::new().with_worker(HAPLESS);
    let arguments = ["run", "small.toml", "--set", "dataset={kind='mnist',path='nowhere'}"];
    let told = kitchen.run(&arguments).code(4);
    assert!(told.err.contains("nowhere") && told.err.contains("dataset.path"), "{}", told.err);
}

#[test]
fn more_runs_than_the_limit_need_a_yes() {
    let kitchen = Kitchen::new().with_worker(HAPLESS);
    let arguments = ["run", "small.toml", "--set", "limits.max-runs=3"];
    let told = kitchen.run(&arguments).code(2);
    assert!(
        told.err.contains("6 runs, more than limits.max-runs = 3") && told.err.contains("--yes"),
        "{}",
        told.err
    );
    kitchen.run(&[&arguments[..], &["--yes", "--max-fail", "1"]].concat()).code(5);
}

#[test]
fn an_invalid_recipe_is_2_and_a_store_that_is_none_7() {
    let kitchen = Kitchen::new().with_worker(HAPLESS);
    kitchen.run(&["run", "broken.toml"]).code(2);
    kitchen.write("file", "");
    kitchen.run(&["run", "small.toml", "--store", "file"]).code(7);
    fs::create_dir(kitchen.path("odd")).unwrap();
    kitchen.write("odd/bakeoff.db", "this is no database");
    let told = kitchen.run(&["run", "small.toml", "--store", "odd"]).code(7);
    assert!(told.err.contains("not a bakeoff database"), "{}", told.err);
}

#[test]
fn failed_runs_are_5_and_told_with_rank_and_last_lines() {
    let kitchen = Kitchen::new().with_worker(HAPLESS);
    let only = "strategy.name == 'ps-sync'";
    let told = kitchen
        .run(&["run", "small.toml", "--only", only, "--repeats", "1", "--report", "out/page.html"])
        .code(5);
    assert!(told.err.contains("[1/1] started: ps-sync lr=0.05\n"), "{}", told.err);
    assert!(told.err.contains("[1/1] failed: ps-sync lr=0.05, "), "{}", told.err);
    assert!(told.err.contains("exited with code 3"), "{}", told.err);
    assert!(told.err.contains("| ERROR no luck today"), "{}", told.err);
    assert!(told.err.contains("next: bakeoff logs "), "{}", told.err);
    assert!(told.out.contains("report: out/page.html\n"), "{}", told.out);
    let page = fs::read_to_string(kitchen.path("out/page.html")).unwrap();
    assert!(page.contains("no luck today"));
}

#[test]
fn what_a_worker_fails_at_itself_is_not_tried_again() {
    let kitchen = Kitchen::new().with_worker(HAPLESS);
    let told = kitchen.run(&["run", "small.toml", "--set", "limits.retries=2", "--max-fail", "1"]).code(5);
    assert_eq!(told.err.matches("retrying: ").count(), 0, "{}", told.err);
}

#[test]
fn faults_are_tried_again_as_often_as_the_recipe_allows_and_no_more_are_begun_than_may_fail() {
    let kitchen = Kitchen::new().with_worker(KILLED);
    let told = kitchen.run(&["run", "small.toml", "--set", "limits.retries=2", "--max-fail", "1"]).code(5);
    assert_eq!(told.err.matches("retrying: ").count(), 2, "{}", told.err);
    assert!(told.err.contains(", attempt 3\n"), "{}", told.err);
    let states = |json: serde_json::Value| -> Vec<String> {
        json.as_array().unwrap().iter().map(|run| run["state"].as_str().unwrap().to_owned()).collect()
    };
    let list = kitchen.run(&["list", "--format", "json"]).code(0).json();
    assert_eq!(states(list), ["failed", "pending", "pending", "pending", "pending", "pending"]);
    let why = kitchen.run(&["plan", "small.toml", "--why", "--format", "json"]).code(0).json();
    assert_eq!((&why["runs"][0]["action"], &why["runs"][1]["action"]), (&"repeat".into(), &"run".into()));
    assert!(why["runs"][0]["why"].as_str().unwrap().starts_with("it failed: "), "{why}");
}

#[test]
fn another_worker_program_makes_another_run() {
    let kitchen = Kitchen::new().with_worker(HAPLESS);
    let why = |kitchen: &Kitchen, more: &[&str]| {
        let arguments = [&["plan", "small.toml", "--why", "--format", "json"], more].concat();
        let json = kitchen.run(&arguments).code(0).json();
        json["runs"][0]["why"].as_str().unwrap().to_owned()
    };
    assert_eq!(why(&kitchen, &[]), "never run before");
    kitchen.run(&["run", "small.toml", "--max-fail", "1"]).code(5);
    assert_eq!(why(&kitchen, &["--set", "train.steps=30"]), "train.steps is 30, was 20");
    assert_eq!(why(&kitchen, &["--set", "repeats.seeds=[7, 8]"]), "the seed is 7, was 42");
    let kitchen = kitchen.with_worker("exit 4");
    assert_eq!(why(&kitchen, &[]), "the worker program has changed");
}

#[test]
fn quiet_says_only_what_went_wrong() {
    let kitchen = Kitchen::new().with_worker(HAPLESS);
    let told = kitchen.run(&["-q", "run", "small.toml", "--max-fail", "1"]).code(5);
    assert!(!told.err.contains("started") && !told.err.contains("next:"), "{}", told.err);
    assert!(told.err.contains("failed"), "{}", told.err);
    assert_eq!(told.out, "");
    let loud = Kitchen::new().with_worker(HAPLESS).run(&["run", "small.toml", "--max-fail", "1"]).code(5);
    assert!(loud.out.contains("report: .bakeoff/reports/"), "{}", loud.out);
}

#[test]
fn noise_without_a_pair_of_runs_has_nothing_to_tell() {
    let kitchen = Kitchen::new().with_worker(HAPLESS);
    let told = kitchen.run(&["noise", "small.toml", "--repeats", "2", "--json"]).code(5);
    assert!(told.err.contains("fewer than two pairs of runs ended well") && told.out.is_empty(), "{told:?}");
    assert!(told.err.contains("[1/4] failed: ps-sync A, "), "{}", told.err);
    let list = kitchen.run(&["list", "--format", "json"]).code(0).json();
    let arms: Vec<&str> = list.as_array().unwrap().iter().map(|run| run["arm"].as_str().unwrap()).collect();
    assert_eq!(arms, ["ps-sync A", "ps-sync B", "ps-sync B", "ps-sync A"]);
    let told = kitchen.run(&["noise", "--set", "train.steps=10"]).code(5);
    assert!(told.err.contains("[10/10] failed: d-sync"), "{}", told.err);
    kitchen.run(&["noise", "--repeats", "1"]).code(2);
}

/// Starts a sweep whose workers never get ready, sends signals once the first run has begun, and waits.
fn interrupted(kitchen: &Kitchen, signals: &[Signal]) -> Told {
    let mut command = kitchen.command(&["run", "small.toml"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let pid = Pid::from_child(&child);
    let mut lines = BufReader::new(child.stderr.take().unwrap());
    let mut err = String::new();
    let mut signals = signals.iter();
    // Each signal is answered by a line, so none is sent before the last one was heard.
    while lines.read_line(&mut err).unwrap() > 0 {
        let last = err.lines().last().unwrap();
        let answered = last.contains("started:") || last.contains("once more");
        if let Some(signal) = answered.then(|| signals.next()).flatten() {
            kill_process(pid, *signal).unwrap();
        }
    }
    let mut out = String::new();
    child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
    Told { code: child.wait().unwrap().code().unwrap(), out, err }
}

#[test]
fn ctrl_c_ends_in_order_and_can_be_resumed() {
    let kitchen = Kitchen::new().with_worker(IDLE);
    let told = interrupted(&kitchen, &[Signal::INT, Signal::INT]).code(130);
    assert!(told.err.contains("stopping after the current step; once more stops at once"), "{}", told.err);
    assert!(told.err.contains("next: bakeoff run small.toml"), "{}", told.err);
    let list = kitchen.run(&["list", "--format", "json"]).code(0).json();
    assert_eq!((&list[0]["state"], &list[1]["state"]), (&"interrupted".into(), &"pending".into()));
    let why = kitchen.run(&["plan", "small.toml", "--why"]).code(0).out;
    assert!(why.contains("it was interrupted; it begins anew"), "{why}");
}

#[test]
fn sigterm_is_like_ctrl_c_with_its_own_code() {
    let kitchen = Kitchen::new().with_worker(IDLE);
    interrupted(&kitchen, &[Signal::TERM, Signal::TERM]).code(143);
}
