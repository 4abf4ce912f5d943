//! Processes that are forks of a server, and processes that are executed: an attempt does not tell them apart.

use super::left_over::groups_gone;
use super::{Result, Trial, WORKER, trial};
use launch::{End, ForkServers, Update};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

/// The process ids of the members, in the order in which they were started.
fn started(result: &Result) -> Vec<u32> {
    let pid = |update: &Update| match update {
        Update::Spawned { pid, .. } => Some(*pid),
        _ => None,
    };
    result.updates.iter().filter_map(pid).collect()
}

/// A worker program made of a shell script; the directory must live as long.
fn script(text: &str) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("worker");
    fs::write(&path, format!("#!/bin/sh\n{text}\nexec {WORKER}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    (directory, path)
}

#[test]
fn executed_processes_end_as_forked_ones_do() {
    let executed = |text| Trial { forks: None, ..trial(2, text) };
    assert_eq!(executed("").run().outcome.end, End::Done);
    executed("1 kill 3").run().blames(1, &["SIGKILL"]);
    executed("1 exit 3").run().blames(1, &["exited with code 9"]);
    trial(2, "1 exit 3").run().blames(1, &["exited with code 9"]);
}

#[test]
fn attempts_share_a_server_and_each_is_the_last_of_its_processes() {
    let forks = ForkServers::default();
    for _ in 0..3 {
        let result = Trial { forks: Some(forks.clone()), ..trial(2, "") }.run();
        assert_eq!(result.outcome.end, End::Done, "{:?}", result.outcome);
        assert_eq!(forks.ids().len(), 1, "members of as many threads are forks of one server");
        assert_eq!(started(&result).len(), 3);
    }
    let servers = forks.ids();
    drop(forks);
    groups_gone(&servers, Duration::ZERO).unwrap();
}

#[test]
fn a_server_that_was_killed_takes_its_processes_along_and_is_replaced() {
    let forks = ForkServers::default();
    let with_forks = |text| Trial { forks: Some(forks.clone()), ..trial(2, text) };
    assert_eq!(with_forks("").run().outcome.end, End::Done);
    let [first] = forks.ids()[..] else { panic!("{:?}", forks.ids()) };
    let killer = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(500));
        let pid = rustix::process::Pid::from_raw(first.cast_signed()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    });
    let outcome = with_forks("0 endless; 1 endless").run().outcome;
    killer.join().unwrap();
    assert!(outcome.detail.contains("SIGKILL"), "{outcome:?}");
    assert_eq!(with_forks("").run().outcome.end, End::Done);
    assert!(forks.ids().len() == 1 && forks.ids() != [first]);
}

#[test]
fn a_program_that_does_not_serve_is_executed() {
    for refusal in ["[ $# = 0 ] || exit 3", "[ $# = 0 ] || { echo what >&2; kill -9 $$; }"] {
        let (_directory, path) = script(refusal);
        let forks = ForkServers::default();
        let result = Trial { worker: path, forks: Some(forks.clone()), ..trial(2, "") }.run();
        assert_eq!(result.outcome.end, End::Done, "{:?}", result.outcome);
        assert!(forks.ids().is_empty());
    }
}
