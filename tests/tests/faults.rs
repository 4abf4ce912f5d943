//! What goes wrong while a run trains: workers that die or hang, a driver that is killed, a user who has had enough.
//! Whatever it is, it is told, the database is whole, and no process is left.
#![expect(clippy::unwrap_used, reason = "in a test, a failure is a panic")]

use e2e::{Desk, Driver, Ended, Worker, gone, wait_until};
use record::{Event, Nanos, RankEnd, RankEnded};
use rustix::process::Signal;
use serde_json::Value;
use std::path::PathBuf;
use std::time::Duration;
use store::EventLog;

/// No process of a run is left so long after its driver ended, however that was.
const CLEAN: Duration = Duration::from_secs(5);
/// Starting up takes seconds where cores are few.
const START_UP: Duration = Duration::from_mins(1);

/// Two workers that train for so many steps of a few milliseconds each.
fn recipe(strategy: &str, steps: u32) -> String {
    format!(
        r#"
schema = 1
name = "long"
[model]
kind = "mnist-mlp"
[dataset]
kind = "synthetic"
train = 500
test = 100
[train]
global-batch = 50
steps = {steps}
optimizer = {{ kind = "sgd", lr = 0.01 }}
evaluate = "{steps} steps"
[nodes]
use = ["local*2"]
[strategy]
kind = "{strategy}"
[repeats]
count = 1
[limits]
run-timeout = "3min"
"#
    )
}

/// Longer than any test lasts.
const ENDLESS: u32 = 1_000_000;

/// A run under way.
struct Scene {
    desk: Desk,
    driver: Driver,
    /// By rank.
    workers: Vec<Worker>,
}

impl Scene {
    /// Starts a run without an end, and waits long enough for heartbeats to tell where its ranks are.
    fn training(strategy: &str) -> Self {
        Self::trained_for(Nanos(1_500_000_000), strategy, ENDLESS)
    }

    /// Starts a run of so many steps, and waits until it has trained for so long.
    fn trained_for(time: Nanos, strategy: &str, steps: u32) -> Self {
        let desk = Desk::new().unwrap();
        desk.write("recipe.toml", &recipe(strategy, steps)).unwrap();
        let mut driver = desk.start(["-v", "run", "recipe.toml"]).unwrap();
        let ranks = if strategy == "ps-sync" { 3 } else { 2 };
        let workers: Vec<Worker> = (0..ranks).map(|rank| driver.worker(rank).unwrap()).collect();
        let trains = |event: &Event| matches!(event, Event::Step(step) if step.begin > time);
        wait_until(START_UP, || Ok(events(&desk).iter().any(trains))).unwrap();
        let children = driver.workers().unwrap();
        assert!(workers.iter().all(|worker| children.contains(worker)), "workers are the driver's children");
        Self { desk, driver, workers }
    }

    /// Waits for the driver's end and for that of all its workers.
    fn ended(self, code: i32, within: Duration) -> (Desk, Ended) {
        let mut workers = self.driver.workers().unwrap();
        workers.extend(self.workers);
        let ended = self.driver.end(within).unwrap().with_code(code).unwrap();
        gone(&workers, CLEAN).unwrap();
        (self.desk, ended)
    }
}

/// What the first attempt of the only run has reported.
fn events(desk: &Desk) -> Vec<Event> {
    let runs = std::fs::read_dir(desk.at(".bakeoff/runs")).into_iter().flatten();
    let attempts: Vec<PathBuf> = runs.map(|run| run.unwrap().path().join("1")).collect();
    attempts.iter().filter_map(|attempt| EventLog::read(attempt).ok()).flatten().collect()
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
        let scene = Scene::training(strategy);
        scene.workers[1].signal(Signal::KILL).unwrap();
        let (desk, ended) = scene.ended(5, Duration::from_secs(15));
        failed_by(1, "SIGKILL", &desk, &ended);
    }
}

#[test]
fn a_worker_that_hangs_is_found_by_its_silence() {
    for strategy in ["d-sync", "ps-sync"] {
        let scene = Scene::training(strategy);
        scene.workers[1].signal(Signal::STOP).unwrap();
        let (desk, ended) = scene.ended(5, Duration::from_secs(30));
        failed_by(1, "no sign of life", &desk, &ended);
    }
}

#[test]
fn a_killed_driver_leaves_no_worker_and_the_same_command_goes_on() {
    let scene = Scene::trained_for(Nanos(200_000_000), "ps-sync", 400);
    // One that cannot react to anything must go too.
    scene.workers[0].signal(Signal::STOP).unwrap();
    scene.driver.signal(Signal::KILL).unwrap();
    gone(&scene.workers, CLEAN).unwrap();
    let Scene { desk, driver, .. } = scene;
    assert_eq!(driver.end(CLEAN).unwrap().code, None);
    assert_eq!(the_run(&desk)["line"]["state"], "interrupted");
    let again = desk.run(["run", "recipe.toml"]).unwrap().with_code(0).unwrap();
    assert!(desk.at(again.page().unwrap()).is_file());
    let last = desk.run(["list", "last", "--format", "json"]).unwrap().with_code(0).unwrap();
    let last: Vec<Value> = serde_json::from_str(&last.stdout).unwrap();
    assert_eq!(last[0]["state"], "done");
}

#[test]
fn the_first_interrupt_lets_ranks_reach_the_end_of_a_step() {
    for strategy in ["d-sync", "ps-sync"] {
        let scene = Scene::training(strategy);
        scene.driver.signal(Signal::INT).unwrap();
        let (desk, ended) = scene.ended(130, Duration::from_secs(20));
        assert!(ended.stderr.contains("stopping after the current step"), "{}", ended.stderr);
        let run = the_run(&desk);
        assert_eq!(run["line"]["state"], "interrupted");
        let stopped = stopped(&desk);
        let (first, last) = (stopped.iter().min().unwrap(), stopped.iter().max().unwrap());
        // A rank may be one step ahead of what it then waits for in vain.
        assert!(stopped.len() >= 2 && *first > 0 && last - first <= 1, "{strategy}: {stopped:?}");
        assert_eq!(run["run"]["attempt"]["detail"], format!("stopped by the user after step {first}"));
    }
}

/// After which step each rank stopped.
fn stopped(desk: &Desk) -> Vec<u64> {
    let stopped = events(desk).into_iter().filter_map(|event| match event {
        Event::Ended(RankEnded { end: RankEnd::Stopped { step }, .. }) => Some(step),
        _ => None,
    });
    stopped.collect()
}

#[test]
fn the_second_interrupt_does_not_wait_for_a_step() {
    let mut scene = Scene::training("d-sync");
    // A stopped rank will not reach the end of its step.
    scene.workers[1].signal(Signal::STOP).unwrap();
    scene.driver.signal(Signal::INT).unwrap();
    let heard = |words: &'static str| move |line: &str| line.contains(words).then_some(());
    scene.driver.hear(CLEAN, heard("stopping after the current step")).unwrap();
    scene.driver.signal(Signal::INT).unwrap();
    scene.driver.hear(CLEAN, heard("stopping the workers")).unwrap();
    let (desk, _) = scene.ended(130, CLEAN);
    assert_eq!(the_run(&desk)["line"]["state"], "interrupted");
}

#[test]
fn a_driver_that_is_asked_to_end_does_so() {
    let scene = Scene::training("d-sync");
    scene.driver.signal(Signal::TERM).unwrap();
    let (desk, _) = scene.ended(143, Duration::from_secs(20));
    assert_eq!(the_run(&desk)["line"]["state"], "interrupted");
}
