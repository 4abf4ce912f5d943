//! Attempts that are ended: at their target, in time, by their user, or with their driver.

use super::left_over::{groups_gone, wait_for_workers};
use super::{WORKER, trial, who_tells_step};
use launch::{Attempt, End, StopSignal, Update};
use recipe::{Metric, Target};
use record::Event;
use std::process::Command;
use std::time::Duration;
use tokio::sync::mpsc;

#[test]
fn a_run_ends_when_it_reaches_its_target() {
    let mut trial = trial(2, "0 endless; 1 endless");
    trial.spec.train.target =
        Some(Target { metric: Metric::TestAccuracy, threshold: 0.85, after: None, stop: true });
    trial.spec.threads.evaluate_at_once = true;
    let result = trial.run();
    let End::TargetReached { at, value } = result.outcome.end else { panic!("{:?}", result.outcome) };
    assert_eq!((at.0, value.to_bits()), (3_000_000, 0.9_f64.to_bits()));
    assert_eq!(result.outcome.detail, "");
}

#[test]
fn a_run_that_takes_too_long_is_ended() {
    let mut trial = trial(2, "0 endless; 1 deaf");
    trial.timeout = Some(Duration::from_secs(8));
    let outcome = trial.run().outcome;
    assert_eq!(outcome.end, End::TimedOut { limit: Duration::from_secs(8) });
    assert!(
        outcome.detail.contains("time limit of 8.0 s; rank 0 was furthest behind, in step "),
        "{outcome:?}"
    );
}

#[test]
fn the_user_stops_a_run_at_its_next_step() {
    let mut trial = trial(2, "0 endless; 1 endless");
    trial.stop_at = Some(5);
    let result = trial.run();
    let End::Interrupted { step } = result.outcome.end else { panic!("{:?}", result.outcome) };
    assert!(step >= 5, "{step}");
    let stopped = |event: &&&Event| matches!(event, Event::Ended(_));
    assert_eq!(result.events().iter().filter(stopped).count(), 2);
}

#[test]
fn a_rank_that_does_not_listen_is_killed() {
    let mut trial = trial(2, "0 endless; 1 deaf");
    trial.stop_at = Some(2);
    assert!(matches!(trial.run().outcome.end, End::Interrupted { .. }));
}

#[test]
fn the_user_need_not_wait_for_anything() {
    let trial = trial(2, "0 deaf; 1 unready");
    let stop = trial.stop.clone();
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(500));
        stop.now.cancel();
    });
    assert_eq!(trial.run().outcome.end, End::Interrupted { step: 0 });
}

#[test]
fn a_run_that_is_stopped_before_it_begins_starts_nothing() {
    let trial = trial(2, "0 deaf; 1 unready");
    trial.stop.at_next_step.cancel();
    let result = trial.run();
    assert_eq!(result.outcome.end, End::Interrupted { step: 0 });
    assert!(!result.updates.iter().any(|update| matches!(update, Update::Spawned { .. })));
}

#[test]
fn the_records_of_a_rank_without_a_good_bye_may_be_incomplete() {
    let mut trial = trial(2, "1 mute");
    trial.deadlines.shut_down = Duration::from_secs(1);
    trial.run().blames(1, &["did not say that all its records were sent"]);
}

#[test]
fn a_rank_that_lingers_does_not_spoil_the_run() {
    let mut trial = trial(2, "1 linger");
    trial.deadlines.shut_down = Duration::from_secs(1);
    let result = trial.run();
    assert_eq!(result.outcome.end, End::Done);
    let note = |update: &Update| matches!(update, Update::Note(note) if note.contains("rank 1"));
    assert!(result.updates.iter().any(note));
}

#[test]
fn a_run_without_its_evaluations_is_not_done() {
    let outcome = trial(1, "evaluator exit 4").run().outcome;
    assert_eq!(outcome.detail, "the evaluator exited with code 4");
    assert_eq!((outcome.culprit, outcome.last_lines), (None, vec!["no test set".to_owned()]));
    let outcome = trial(1, "evaluator fail").run().outcome;
    assert_eq!(outcome.detail, "the evaluator could not evaluate snapshots/3.bin: it is torn");
}

#[test]
fn an_attempt_that_is_dropped_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let mut trial = trial(2, "0 deaf; 1 deaf");
    trial.deadlines.heartbeat = Duration::from_secs(5);
    let groups = runtime.block_on(async {
        let attempt = Attempt {
            spec: &trial.spec,
            seed: 1,
            directory: directory.path().into(),
            worker: WORKER.into(),
            forks: trial.forks.clone(),
            deadlines: trial.deadlines,
            timeout: None,
            resume: None,
        };
        let (sender, mut receiver) = mpsc::channel(64);
        let mut groups = Vec::new();
        let until_it_runs = async {
            while let Some(update) = receiver.recv().await {
                match update {
                    Update::Spawned { pid, .. } => groups.push(pid),
                    update if who_tells_step(&update, 2).next().is_some() => return,
                    _ => {}
                }
            }
        };
        tokio::select! {
            outcome = launch::run(attempt, StopSignal::default(), sender) => panic!("it ended: {outcome:?}"),
            () = until_it_runs => {}
        }
        groups
    });
    groups_gone(&groups, Duration::from_secs(5)).unwrap();
}

#[test]
fn a_killed_driver_leaves_no_process() {
    let directory = tempfile::tempdir().unwrap();
    let runtime = tempfile::tempdir().unwrap();
    let command = |arguments: &[&str]| {
        let mut command = Command::new(WORKER);
        command.args(arguments).env("XDG_RUNTIME_DIR", runtime.path());
        command
    };
    let mut driver = command(&["drive", directory.path().to_str().unwrap()]).spawn().unwrap();
    // All three ranks are there and their fork server, and the second has stopped itself.
    let groups = wait_for_workers(driver.id(), 4, Duration::from_secs(30)).unwrap();
    driver.kill().unwrap();
    driver.wait().unwrap();
    groups_gone(&groups, Duration::from_secs(5)).unwrap();
    // The next driver removes directories that a killed one could not.
    let directories = || std::fs::read_dir(runtime.path()).unwrap().count();
    assert_eq!(directories(), 1);
    assert!(command(&["reap"]).status().unwrap().success());
    assert_eq!(directories(), 0);
}
