//! How a user sees and ends what runs: Ctrl-C, signals, `status`, `stop`, `db rebuild`, on real processes.
#![expect(clippy::unwrap_used, reason = "in a test, a failure is a panic")]

use anyhow::Result;
use e2e::{CLEAN, Desk, Ended, Sketch, UnderWay, gone, wait_until};
use record::Nanos;
use rustix::process::Signal;
use serde_json::Value;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// Long enough for a machine with few cores and much to do.
const PATIENCE: Duration = Duration::from_mins(1);

/// Two workers that train for `steps` steps, which say that they compute.
fn recipe(steps: u32) -> String {
    let sketch = Sketch { name: "long", steps, evaluate: steps, ..Sketch::default() };
    format!("{sketch}[compute]\nstep-time = \"10ms\"\n")
}

/// Two workers that train without an end.
fn training() -> UnderWay {
    started_by(|desk| desk.command(["-v", "run", "recipe.toml"]))
}

fn started_by(command: impl Fn(&Desk) -> Result<Command>) -> UnderWay {
    UnderWay::started(&recipe(1_000_000), 2, Nanos(1_000_000_000), command).unwrap()
}

/// Waits for the end of a run, which then reads as interrupted.
fn ended(scene: UnderWay, code: i32) -> (Desk, Ended) {
    let (desk, ended) = scene.ended(code, PATIENCE).unwrap();
    interrupted(&desk);
    (desk, ended)
}

/// The run reads as interrupted, and the database is whole.
fn interrupted(desk: &Desk) {
    assert!(said(desk, &["db", "check"]).starts_with("ok"));
    assert_eq!(json(desk, &["list", "--format", "json"])[0]["state"], "interrupted");
}

fn said(desk: &Desk, arguments: &[&str]) -> String {
    desk.said(arguments).unwrap()
}

fn json(desk: &Desk, arguments: &[&str]) -> Value {
    desk.json(arguments).unwrap()
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
    let mut scene = training();
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
    let UnderWay { desk, driver, .. } = scene;
    driver.end(CLEAN).unwrap().with_code(130).unwrap();
    drop(held);
    interrupted(&desk);
    // The next command removes its live folder.
    desk.run(["stop"]).unwrap().with_code(0).unwrap();
    assert_eq!(fs::read_dir(desk.at(".bakeoff/live")).unwrap().count(), 0);
}

#[test]
fn a_terminal_that_goes_away_ends_the_run_unless_it_was_told_to_stay() {
    let scene = training();
    scene.driver.signal(Signal::HUP).unwrap();
    ended(scene, 129);

    let mut scene = started_by(|desk| {
        let plain = desk.command(["-v", "run", "recipe.toml"])?;
        // As `nohup` does it.
        let mut command = desk.command([""; 0])?;
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
        command.current_dir(desk.at(""));
        Ok(command)
    });
    scene.driver.signal(Signal::HUP).unwrap();
    scene.driver.signal(Signal::TERM).unwrap();
    scene.driver.hear(PATIENCE, words("stopping after the current step")).unwrap();
    ended(scene, 143);
}

#[test]
fn status_shows_what_runs_and_stop_ends_it() {
    for (option, heard) in [
        (None, "`bakeoff stop`: stopping after the current step"),
        (Some("--now"), "`bakeoff stop`: stopping the workers"),
        (Some("--kill"), "leaving; the workers are killed"),
    ] {
        let scene = training();
        let shown = || json(&scene.desk, &["status", "--json"]);
        wait_until(PATIENCE, || Ok(shown()["running"][0]["run"]["members"][1]["step"].as_u64() > Some(0)))
            .unwrap();
        let status = shown();
        let live = &status["running"][0];
        assert_eq!((&live["driver"]["pid"], &live["recipe"]), (&scene.driver.pid().into(), &"long".into()));
        let arm = &live["arms"][0];
        assert_eq!(
            (&arm["ended"], &arm["planned"], arm["name"].is_string()),
            (&0.into(), &1.into(), true),
            "{arm}"
        );
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
        let (desk, ended) = ended(scene, 143);
        assert!(ended.stderr.contains(heard), "{option:?}: {}", ended.stderr);
        assert!(said(&desk, &["status"]).starts_with("nothing runs with the results in .bakeoff"));
        assert!(said(&desk, &["stop"]).contains("nothing runs with the results in .bakeoff"));
    }
}

#[test]
fn a_driver_that_does_not_answer_is_named_and_can_be_killed() {
    let scene = training();
    scene.driver.signal(Signal::STOP).unwrap();
    let told = scene.desk.run(["stop", "--wait", "1"]).unwrap().with_code(5).unwrap();
    assert!(told.stderr.contains("has not stopped within 1 s; it is suspended"), "{}", told.stderr);
    assert!(told.stderr.contains("bakeoff stop --kill"), "{}", told.stderr);
    scene.desk.run(["stop", "--kill"]).unwrap().with_code(0).unwrap();
    gone(&scene.workers, CLEAN).unwrap();
    let UnderWay { desk, driver, .. } = scene;
    assert_eq!(driver.end(CLEAN).unwrap().code, None);
    interrupted(&desk);
}

#[test]
fn what_a_killed_driver_left_is_shown_and_cleared_and_no_other_process_is_touched() {
    let scene = training();
    scene.driver.signal(Signal::KILL).unwrap();
    gone(&scene.workers, CLEAN).unwrap();
    let UnderWay { desk, driver, .. } = scene;
    let pid = driver.pid();
    assert_eq!(driver.end(CLEAN).unwrap().code, None);
    // Another process has the id of a worker now.
    let mut bystander = Command::new("sleep").arg("600").spawn().unwrap();
    let mut files = fs::read_dir(desk.at(".bakeoff/live")).unwrap().map(|entry| entry.unwrap().path());
    let file = files.find(|path| path.extension().is_some_and(|kind| kind == "json")).unwrap();
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
    let finite = recipe(20).replace("count = 1", "count = 2");
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
    // A log that lost its end is reported by its path, and the run is not taken for a result.
    let at = |name: &str| desk.at(format!(".bakeoff/runs/{first}/1/{name}"));
    let name = ["events.mpk", "events.mpk.gz"].into_iter().find(|name| at(name).exists()).unwrap();
    let log = at(name);
    let bytes = fs::read(&log).unwrap();
    fs::write(&log, &bytes[..bytes.len() / 2]).unwrap();
    let told = desk.run(["db", "rebuild"]).unwrap().with_code(7).unwrap();
    assert!(told.stderr.contains(&format!("{first}/1/{name}: it has ")), "{}", told.stderr);
    // That run, and the one of the second sweep that took its result.
    assert_eq!(json(&desk, &["list", "state=failed", "--format", "json"]).as_array().unwrap().len(), 2);
}
