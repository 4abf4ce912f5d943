//! Unplanned faults while a run trains: workers that die or hang, a driver that is killed, a user who has had enough.
//! In every case the fault is reported, the database is intact, and no process is left.
#![expect(clippy::unwrap_used, reason = "in a test, a failure is a panic")]

use e2e::{CLEAN, Desk, Ended, Sketch, UnderWay, gone};
use record::{Event, Nanos, RankEnd, RankEnded};
use rustix::process::Signal;
use serde_json::Value;
use std::time::Duration;

/// Two workers that train for `steps` steps, which say that they compute, so that a run is under way for as long as a test takes
/// while cores are free for others.
fn recipe(strategy: &'static str, steps: u32) -> String {
    let sketch = Sketch { name: "long", strategy, steps, evaluate: steps, ..Sketch::default() };
    format!("{sketch}{LIMITS}[compute]\nstep-time = \"10ms\"\n")
}

/// Two workers that compute and send megabytes without an end, so that a signal meets them in the middle of something.
fn endless(strategy: &'static str) -> String {
    format!("{}{LIMITS}", Sketch::perceptron("long", strategy, ENDLESS))
}

const LIMITS: &str = "[limits]\nrun-timeout = \"3min\"\n";

/// Longer than any test lasts.
const ENDLESS: u32 = 1_000_000;

/// Starts a run without an end, and waits long enough for heartbeats to tell where its ranks are.
fn training(strategy: &'static str) -> UnderWay {
    trained_for(Nanos(1_500_000_000), strategy, &endless(strategy))
}

/// Starts the run of a recipe, and waits until it has trained for `time`.
fn trained_for(time: Nanos, strategy: &'static str, recipe: &str) -> UnderWay {
    let ranks = if strategy == "ps-sync" { 3 } else { 2 };
    let run = |desk: &Desk| desk.command(["-v", "run", "recipe.toml"]);
    let scene = UnderWay::started(recipe, ranks, time, run).unwrap();
    let children = scene.driver.workers().unwrap();
    assert!(
        scene.workers.iter().all(|worker| children.contains(worker)),
        "workers are the driver's children"
    );
    scene
}

/// The only run, by a database that is whole.
fn the_run(desk: &Desk) -> Value {
    let check = desk.run(["db", "check"]).unwrap().with_code(0).unwrap();
    assert!(check.stdout.starts_with("ok"));
    let lines = desk.run(["list", "--format", "json"]).unwrap().with_code(0).unwrap();
    let lines: Vec<Value> = serde_json::from_str(&lines.stdout).unwrap();
    assert_eq!(lines.len(), 1);
    let id = lines[0]["id"].as_str().unwrap();
    let shown = desk.run(["show", id, "--format", "json"]).unwrap().with_code(0).unwrap();
    let shown: Value = serde_json::from_str(&shown.stdout).unwrap();
    assert_eq!(shown["line"]["state"], lines[0]["state"]);
    shown
}

/// A run that failed because of this rank, told in these words by the driver and by the database.
fn failed_by(rank: u32, words: &str, desk: &Desk, ended: &Ended) {
    let run = the_run(desk);
    assert_eq!(run["line"]["state"], "failed");
    let attempt = &run["run"]["attempt"];
    assert_eq!(attempt["culprit"], rank);
    let detail = attempt["detail"].as_str().unwrap();
    for word in [&format!("rank {rank} "), words, "in step ", ", phase ", ", lane "] {
        assert!(detail.contains(word), "`{word}` is not in: {detail}");
    }
    assert!(ended.stderr.contains(detail), "{detail}\nis not in\n{}", ended.stderr);
    let page = std::fs::read_to_string(desk.at(ended.page().unwrap())).unwrap();
    assert!(page.contains(&format!("rank {rank} ")) && page.contains(words), "the page says so too");
}

#[test]
fn a_killed_worker_ends_the_run_and_is_named() {
    for strategy in ["d-sync", "ps-sync"] {
        let scene = training(strategy);
        scene.workers[1].signal(Signal::KILL).unwrap();
        let (desk, ended) = scene.ended(5, Duration::from_secs(15)).unwrap();
        failed_by(1, "SIGKILL", &desk, &ended);
    }
}

#[test]
fn a_worker_that_hangs_is_found_by_its_silence() {
    for strategy in ["d-sync", "ps-sync"] {
        let scene = training(strategy);
        scene.workers[1].signal(Signal::STOP).unwrap();
        let (desk, ended) = scene.ended(5, Duration::from_secs(30)).unwrap();
        failed_by(1, "no sign of life", &desk, &ended);
    }
}

#[test]
fn a_run_that_goes_on_without_a_worker_is_degraded_wherever_one_looks() {
    let run = |desk: &Desk| desk.command(["-v", "run", "recipe.toml"]);
    let mut scene = UnderWay::started(&recipe("async-sgd", 600), 3, Nanos(200_000_000), run).unwrap();
    scene.workers[1].signal(Signal::KILL).unwrap();
    let told = |line: &str| line.contains("degraded: rank 1 was ended by signal 9").then_some(());
    scene.driver.hear(Duration::from_secs(15), told).unwrap();
    let status = scene.desk.json(["status", "--json"]).unwrap();
    assert_eq!(status["running"][0]["run"]["degraded"], "degraded: without rank 1");
    let (desk, ended) = scene.ended(5, Duration::from_mins(2)).unwrap();
    let run = the_run(&desk);
    assert_eq!(run["line"]["state"], "degraded");
    let attempt = &run["run"]["attempt"];
    assert_eq!((&attempt["culprit"], &attempt["lost"][0]["rank"]), (&Value::from(1), &Value::from(1)));
    assert!(
        attempt["lost"][0]["step"].as_u64().unwrap() > 1 && attempt["lost"][0]["at"].as_u64().unwrap() > 0
    );
    let reason = attempt["lost"][0]["reason"].as_str().unwrap();
    assert!(reason.contains("SIGKILL"), "{reason}");
    assert!(ended.stderr.contains(&format!("{reason}; the run went on without it")), "{}", ended.stderr);
    let page = std::fs::read_to_string(desk.at(ended.page().unwrap())).unwrap();
    assert!(
        page.contains("<b>degraded</b>") && page.contains("without rank 1 it was a run of fewer workers")
    );
    desk.said(["db", "rebuild"]).unwrap();
    assert_eq!(the_run(&desk), run);
    // It is no result, so that the same command trains it again.
    let plan = desk.said(["plan", "recipe.toml", "--why"]).unwrap();
    assert!(plan.contains("it is degraded: rank 1 was ended by signal 9"), "{plan}");
}

#[test]
fn a_killed_driver_leaves_no_worker_and_the_same_command_goes_on() {
    let scene = trained_for(Nanos(200_000_000), "ps-sync", &recipe("ps-sync", 400));
    // One that cannot react to anything must go too, and a fork server.
    let servers = scene.driver.fork_servers().unwrap();
    assert!(!servers.is_empty());
    servers.iter().chain([&scene.workers[0]]).for_each(|process| process.signal(Signal::STOP).unwrap());
    scene.driver.signal(Signal::KILL).unwrap();
    gone(&[scene.workers, servers].concat(), CLEAN).unwrap();
    let UnderWay { desk, driver, .. } = scene;
    assert_eq!(driver.end(CLEAN).unwrap().code, None);
    assert_eq!(the_run(&desk)["line"]["state"], "interrupted");
    let again = desk.run(["run", "recipe.toml"]).unwrap().with_code(0).unwrap();
    assert!(desk.at(again.page().unwrap()).is_file());
    let last = desk.run(["list", "last", "--format", "json"]).unwrap().with_code(0).unwrap();
    let last: Vec<Value> = serde_json::from_str(&last.stdout).unwrap();
    assert_eq!(last[0]["state"], "done");
}

#[test]
fn a_killed_fork_server_ends_its_run_and_the_next_run_has_another() {
    let recipe = recipe("d-sync", 400).replace("count = 1", "count = 2");
    let run = |desk: &Desk| desk.command(["-v", "run", "recipe.toml"]);
    let scene = UnderWay::started(&recipe, 2, Nanos(200_000_000), run).unwrap();
    let servers = scene.driver.fork_servers().unwrap();
    let server = scene.workers[0].parent().unwrap();
    assert!(servers.contains(&server), "workers are forks");
    server.signal(Signal::KILL).unwrap();
    gone(&scene.workers, CLEAN).unwrap();
    let (desk, ended) = scene.ended(5, Duration::from_mins(1)).unwrap();
    assert!(ended.stderr.contains("was ended by signal 9"), "{}", ended.stderr);
    let lines = desk.json(["list", "last", "--format", "json"]).unwrap();
    let states: Vec<&str> =
        lines.as_array().unwrap().iter().filter_map(|line| line["state"].as_str()).collect();
    assert_eq!(states, ["failed", "done"]);
}

#[test]
fn the_first_interrupt_lets_ranks_reach_the_end_of_a_step() {
    for strategy in ["d-sync", "ps-sync"] {
        let scene = training(strategy);
        scene.driver.signal(Signal::INT).unwrap();
        let (desk, ended) = scene.ended(130, Duration::from_secs(20)).unwrap();
        assert!(ended.stderr.contains("stopping after the current step"), "{}", ended.stderr);
        let run = the_run(&desk);
        assert_eq!(run["line"]["state"], "interrupted");
        let stopped = stopped(&desk);
        let first = stopped.iter().min().unwrap();
        let last = stopped.iter().max().unwrap();
        // A rank may be one step ahead of what it then waits for in vain.
        assert!(stopped.len() >= 2 && *first > 0 && last - first <= 1, "{strategy}: {stopped:?}");
        assert_eq!(run["run"]["attempt"]["detail"], format!("stopped by the user after step {first}"));
    }
}

/// After which step each rank stopped.
fn stopped(desk: &Desk) -> Vec<u64> {
    let stopped = desk.events().into_iter().filter_map(|event| match event {
        Event::Ended(RankEnded { end: RankEnd::Stopped { step }, .. }) => Some(step),
        _ => None,
    });
    stopped.collect()
}

#[test]
fn the_second_interrupt_does_not_wait_for_a_step() {
    let mut scene = training("d-sync");
    // A stopped rank will not reach the end of its step.
    scene.workers[1].signal(Signal::STOP).unwrap();
    scene.driver.signal(Signal::INT).unwrap();
    let heard = |words: &'static str| move |line: &str| line.contains(words).then_some(());
    scene.driver.hear(CLEAN, heard("stopping after the current step")).unwrap();
    scene.driver.signal(Signal::INT).unwrap();
    scene.driver.hear(CLEAN, heard("stopping the workers")).unwrap();
    gone(&scene.workers, CLEAN).unwrap();
    let (desk, _) = scene.ended(130, Duration::from_secs(30)).unwrap();
    assert_eq!(the_run(&desk)["line"]["state"], "interrupted");
}

#[test]
fn a_driver_that_is_asked_to_end_does_so() {
    let scene = training("d-sync");
    scene.driver.signal(Signal::TERM).unwrap();
    let (desk, _) = scene.ended(143, Duration::from_secs(20)).unwrap();
    assert_eq!(the_run(&desk)["line"]["state"], "interrupted");
}
