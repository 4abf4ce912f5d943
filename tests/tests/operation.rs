//! How a user sees and ends what runs: Ctrl-C, signals, `status`, `stop`, `db rebuild`, on real processes.
#![expect(clippy::unwrap_used, reason = "in a test, a failure is a panic")]

use e2e::{Desk, Driver, Ended, Worker, gone, wait_until};
use record::{Event, Nanos};
use rustix::process::Signal;
use serde_json::Value;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;
use store::EventLog;

/// No process of a run is left so long after its driver ended, however that was.
const CLEAN: Duration = Duration::from_secs(5);
/// Long enough for a machine with few cores and much to do.
const PATIENCE: Duration = Duration::from_mins(1);

/// Two workers that train without an end.
const RECIPE: &str = r#"
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
steps = 1000000
optimizer = { kind = "sgd", lr = 0.01 }
evaluate = "1000000 steps"
[nodes]
use = ["local*2"]
[strategy]
kind = "d-sync"
[repeats]
count = 1
"#;

/// A run under way.
struct Scene {
    desk: Desk,
    driver: Driver,
    workers: Vec<Worker>,
}

impl Scene {
    fn training() -> Self {
        Self::started_by(|desk| desk.command(["-v", "run", "recipe.toml"]).unwrap())
    }

    fn started_by(command: impl Fn(&Desk) -> Command) -> Self {
        let desk = Desk::new().unwrap();
        desk.write("recipe.toml", RECIPE).unwrap();
        let mut driver = Driver::start(command(&desk)).unwrap();
        let workers: Vec<Worker> = (0..2).map(|rank| driver.worker(rank).unwrap()).collect();
        let trains = |event: &Event| matches!(event, Event::Step(step) if step.begin > Nanos(1_000_000_000));
        wait_until(PATIENCE, || Ok(events(&desk).iter().any(trains))).unwrap();
        Self { desk, driver, workers }
    }

    /// Waits for the driver's end and for that of its workers; the run reads as interrupted, the database is whole.
    fn ended(self, code: i32) -> (Desk, Ended) {
        let ended = self.driver.end(PATIENCE).unwrap().with_code(code).unwrap();
        gone(&self.workers, CLEAN).unwrap();
        interrupted(&self.desk);
        (self.desk, ended)
    }
}

/// What the first attempts have reported.
fn events(desk: &Desk) -> Vec<Event> {
    let runs = fs::read_dir(desk.at(".bakeoff/runs")).into_iter().flatten();
    let attempts: Vec<PathBuf> = runs.map(|run| run.unwrap().path().join("1")).collect();
    attempts.iter().filter_map(|attempt| EventLog::read(attempt).ok()).flatten().collect()
}

fn said(desk: &Desk, arguments: &[&str]) -> String {
    desk.run(arguments).unwrap().with_code(0).unwrap().stdout
}

fn json(desk: &Desk, arguments: &[&str]) -> Value {
    serde_json::from_str(&said(desk, arguments)).unwrap()
}

fn interrupted(desk: &Desk) {
    assert!(said(desk, &["db", "check"]).starts_with("ok"));
    assert_eq!(json(desk, &["list", "--format", "json"])[0]["state"], "interrupted");
}

/// The journal of the only sweep.
fn journal(desk: &Desk) -> PathBuf {
    let mut files = fs::read_dir(desk.at(".bakeoff/runs")).unwrap().map(|entry| entry.unwrap().path());
    files.find(|path| path.to_string_lossy().contains("/sweep-")).unwrap()
}

fn words(words: &'static str) -> impl Fn(&str) -> Option<()> {
    move |line| line.contains(words).then_some(())
}

#[test]
fn three_interrupts_mean_three_things() {
    let mut scene = Scene::training();
    // Neither will the stopped rank reach the end of its step, nor the driver that of its books: each word is heard.
    scene.workers[1].signal(Signal::STOP).unwrap();
    let held = File::open(journal(&scene.desk)).unwrap();
    held.lock().unwrap();
    scene.driver.signal(Signal::INT).unwrap();
    scene.driver.hear(CLEAN, words("stopping after the current step; once more stops at once")).unwrap();
    scene.driver.signal(Signal::INT).unwrap();
    scene.driver.hear(CLEAN, words("stopping the workers; once more leaves at once")).unwrap();
    gone(&scene.workers, CLEAN).unwrap();
    scene.driver.signal(Signal::INT).unwrap();
    scene.driver.hear(CLEAN, words("leaving; the workers are killed, what was recorded is kept")).unwrap();
    let Scene { desk, driver, .. } = scene;
    driver.end(CLEAN).unwrap().with_code(130).unwrap();
    drop(held);
    interrupted(&desk);
    // What is left of it is cleared away by whoever asks.
    desk.run(["stop"]).unwrap().with_code(0).unwrap();
    assert_eq!(fs::read_dir(desk.at(".bakeoff/live")).unwrap().count(), 0);
}

#[test]
fn a_terminal_that_goes_away_ends_the_run_unless_it_was_told_to_stay() {
    let scene = Scene::training();
    scene.driver.signal(Signal::HUP).unwrap();
    scene.ended(129);

    let mut scene = Scene::started_by(|desk| {
        let plain = desk.command(["-v", "run", "recipe.toml"]).unwrap();
        // As `nohup` does it.
        let mut command = desk.command([""; 0]).unwrap();
        let environment: Vec<_> =
            command.get_envs().map(|(name, value)| (name.to_owned(), value.map(ToOwned::to_owned))).collect();
        command = Command::new("sh");
        command
            .args(["-c", "trap '' HUP; exec \"$@\"", "sh"])
            .arg(plain.get_program())
            .args(plain.get_args());
        for (name, value) in environment {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command.current_dir(plain.get_current_dir().unwrap());
        command
    });
    scene.driver.signal(Signal::HUP).unwrap();
    scene.driver.signal(Signal::TERM).unwrap();
    scene.driver.hear(PATIENCE, words("stopping after the current step")).unwrap();
    scene.ended(143);
}

#[test]
fn status_shows_what_runs_and_stop_ends_it() {
    for (option, heard) in [
        (None, "`bakeoff stop`: stopping after the current step"),
        (Some("--now"), "`bakeoff stop`: stopping the workers"),
        (Some("--kill"), "leaving; the workers are killed"),
    ] {
        let scene = Scene::training();
        let shown = || json(&scene.desk, &["status", "--json"]);
        wait_until(PATIENCE, || Ok(shown()["running"][0]["run"]["members"][1]["step"].as_u64() > Some(0)))
            .unwrap();
        let status = shown();
        let live = &status["running"][0];
        assert_eq!((&live["driver"]["pid"], &live["recipe"]), (&scene.driver.pid().into(), &"long".into()));
        let run = &live["run"];
        assert_eq!((&run["stage"], &run["steps"]), (&"running".into(), &1_000_000.into()));
        assert!(run["steps-per-second"].as_f64().unwrap() > 0.0);
        for (rank, worker) in scene.workers.iter().enumerate() {
            let member = &run["members"][rank];
            assert_eq!(
                (&member["name"], &member["process"]["pid"]),
                (&format!("rank {rank}").into(), &worker.pid.into())
            );
            assert!(member["phase"].is_string(), "{member}");
        }
        let mut narrow = scene.desk.command(["status"]).unwrap();
        let told = String::from_utf8(narrow.env("COLUMNS", "80").output().unwrap().stdout).unwrap();
        assert!(told.contains("steps/s") && told.contains(&scene.workers[1].pid.to_string()), "{told}");
        assert!(told.lines().all(|line| line.chars().count() <= 80), "{told}");
        if option.is_none() {
            // The database may not be made again under a driver's feet.
            let busy = scene.desk.run(["db", "rebuild"]).unwrap().with_code(7).unwrap();
            assert!(
                busy.stderr.contains("bakeoff.in-use locked") && busy.stderr.contains("bakeoff stop"),
                "{}",
                busy.stderr
            );
        }
        let arguments: Vec<&str> = ["stop"].into_iter().chain(option).collect();
        let stopped = scene.desk.run(&arguments).unwrap().with_code(0).unwrap();
        assert!(
            stopped.stdout.contains(&format!("process {} (long) has stopped", scene.driver.pid())),
            "{}",
            stopped.stdout
        );
        let (desk, ended) = scene.ended(143);
        assert!(ended.stderr.contains(heard), "{option:?}: {}", ended.stderr);
        assert!(said(&desk, &["status"]).starts_with("nothing runs with the results in .bakeoff"));
        assert!(said(&desk, &["stop"]).contains("nothing runs with the results in .bakeoff"));
    }
}

#[test]
fn a_driver_that_does_not_answer_is_named_and_can_be_killed() {
    let scene = Scene::training();
    scene.driver.signal(Signal::STOP).unwrap();
    let told = scene.desk.run(["stop", "--wait", "1"]).unwrap().with_code(5).unwrap();
    assert!(told.stderr.contains("has not stopped within 1 s; it is suspended"), "{}", told.stderr);
    assert!(told.stderr.contains("bakeoff stop --kill"), "{}", told.stderr);
    scene.desk.run(["stop", "--kill"]).unwrap().with_code(0).unwrap();
    gone(&scene.workers, CLEAN).unwrap();
    let Scene { desk, driver, .. } = scene;
    assert_eq!(driver.end(CLEAN).unwrap().code, None);
    interrupted(&desk);
}

#[test]
fn what_a_killed_driver_left_is_shown_and_cleared_and_nobody_else_is_touched() {
    let scene = Scene::training();
    scene.driver.signal(Signal::KILL).unwrap();
    gone(&scene.workers, CLEAN).unwrap();
    let Scene { desk, driver, .. } = scene;
    let pid = driver.pid();
    assert_eq!(driver.end(CLEAN).unwrap().code, None);
    // Somebody else has the number of a worker now.
    let mut bystander = Command::new("sleep").arg("600").spawn().unwrap();
    let file = desk.at(format!(".bakeoff/live/{pid}.json"));
    let mut live: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    live["run"]["members"][0]["process"]["pid"] = bystander.id().into();
    fs::write(&file, live.to_string()).unwrap();

    let status = said(&desk, &["status"]);
    assert!(
        status.contains(&format!("process {pid} of long was killed; none of its processes is left")),
        "{status}"
    );
    assert!(status.contains("1 run unfinished") && status.contains("`bakeoff stop` clears up"), "{status}");
    let stopped = said(&desk, &["stop"]);
    assert!(
        stopped.contains("had been killed") && stopped.contains("closed the books of sweep"),
        "{stopped}"
    );
    assert!(bystander.try_wait().unwrap().is_none(), "a process that is not ours was killed");
    bystander.kill().unwrap();
    bystander.wait().unwrap();
    assert_eq!(said(&desk, &["status"]), "nothing runs with the results in .bakeoff\n");
    interrupted(&desk);
}

#[test]
fn a_database_that_is_gone_comes_back_from_real_runs() {
    let desk = Desk::new().unwrap();
    let finite = RECIPE.replace("1000000", "20").replace("count = 1", "count = 2");
    desk.write("recipe.toml", &finite).unwrap();
    desk.run(["run", "recipe.toml"]).unwrap().with_code(0).unwrap();
    let seen = || {
        let tables = ["runs", "metrics", "steps", "phases"];
        let csv = tables.map(|table| said(&desk, &["export", "last", "--format", "csv", "--what", table]));
        (csv, json(&desk, &["list", "--format", "json"]))
    };
    let before = seen();
    let first = before.1[0]["id"].as_str().unwrap().to_owned();
    for ruin in [None, Some(&b"SQLite format 3\0 and then nothing"[..])] {
        match ruin {
            None => fs::remove_file(desk.at(".bakeoff/bakeoff.db")).unwrap(),
            Some(bytes) => fs::write(desk.at(".bakeoff/bakeoff.db"), bytes).unwrap(),
        }
        let told = said(&desk, &["db", "rebuild"]);
        assert!(told.contains("1 sweep, 2 attempts, "), "{told}");
        assert_eq!(
            told.contains("the old one is kept as .bakeoff/bakeoff-before-rebuild-1.db"),
            ruin.is_some()
        );
        assert_eq!(seen(), before);
    }
    // Reused from the new database, as from the old one.
    let again = desk.run(["run", "recipe.toml"]).unwrap().with_code(0).unwrap();
    assert!(again.stderr.contains("2 finished before and reused"), "{}", again.stderr);
    // A log that lost its end is told by its path, and the run is not taken for a result.
    let log = desk.at(format!(".bakeoff/runs/{first}/1/events.mpk"));
    let bytes = fs::read(&log).unwrap();
    fs::write(&log, &bytes[..bytes.len() - 3]).unwrap();
    let told = desk.run(["db", "rebuild"]).unwrap().with_code(7).unwrap();
    assert!(told.stderr.contains(&format!("{first}/1/events.mpk: it has ")), "{}", told.stderr);
    // That run, and the one of the second sweep that took its result.
    assert_eq!(json(&desk, &["list", "state=failed", "--format", "json"]).as_array().unwrap().len(), 2);
}
