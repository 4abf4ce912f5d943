//! Processes that are forks of a server, and processes that are executed: an attempt does not tell them apart.

use super::left_over::groups_gone;
use super::{Result, Trial, WORKER, trial};
use launch::{End, ForkServers, Outcome, Update};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// On a busy machine.
const SOON: Duration = Duration::from_secs(20);

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
    fs::write(&path, format!("#!/bin/sh\n{text}\nexec {WORKER} \"$@\"\n")).unwrap();
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
fn attempts_share_a_server_which_ends_with_the_last_of_them() {
    let forks = ForkServers::default();
    for _ in 0..3 {
        let result = Trial { forks: Some(forks.clone()), ..trial(2, "") }.run();
        assert_eq!(result.outcome.end, End::Done, "{:?}", result.outcome);
        assert_eq!(forks.ids().len(), 1, "members of as many threads are forks of one server");
        assert_eq!(started(&result).len(), 3);
    }
    let servers = forks.ids();
    drop(forks);
    groups_gone(&servers, SOON).unwrap();
}

#[test]
fn a_program_that_was_examined_for_a_run_is_the_server_of_its_processes() {
    let (directory, path) = script("echo \"$@\" >> \"$0.starts\"");
    let forks = ForkServers::default();
    let mut trial = Trial { worker: path.clone(), forks: Some(forks.clone()), ..trial(2, "") };
    trial.spec.threads.evaluator = trial.spec.threads.worker + 1;
    let examined = launch::examine_for(&trial.spec, &path, &forks).unwrap();
    assert!(examined.forks);
    assert_eq!(examined, launch::examine(&path).unwrap(), "it says the same if it is only asked");
    let servers = forks.ids();
    assert_eq!(servers.len(), 1);
    assert_eq!(children(servers[0]), [0_u32; 0], "the fork that introduced it is reaped");
    assert_eq!(trial.run().outcome.end, End::Done);
    assert_eq!(forks.ids(), servers);
    let starts = fs::read_to_string(directory.path().join("worker.starts")).unwrap();
    assert_eq!(starts, "--protocol --fork-server\n--protocol\n");
}

#[test]
fn a_program_that_only_introduces_itself_is_examined_too() {
    let (_directory, path) = script("[ $# = 2 ] && exec \"$0\" --protocol");
    let forks = ForkServers::default();
    assert!(launch::examine_for(&trial(2, "").spec, &path, &forks).unwrap().forks);
    assert!(forks.ids().is_empty());
    let (_directory, path) = script("echo no libtorch >&2; exit 127");
    let refused = launch::examine_for(&trial(2, "").spec, &path, &forks).unwrap_err().to_string();
    assert!(refused.contains("does not say its protocol: no libtorch"), "{refused}");
}

#[test]
fn a_program_behind_a_shell_is_examined_for_a_run() {
    let (_directory, path) = script(&format!("{WORKER} \"$@\"; exit"));
    let forks = ForkServers::default();
    let trial = Trial { worker: path.clone(), forks: Some(forks.clone()), ..trial(2, "") };
    assert!(launch::examine_for(&trial.spec, &path, &forks).unwrap().forks);
    let servers = forks.ids();
    assert_eq!(trial.run().outcome.end, End::Done);
    assert_eq!(forks.ids(), servers);
}

#[test]
fn variables_of_an_inventory_do_not_change_what_a_program_is() {
    let mut spec = trial(2, "").spec;
    let forks = ForkServers::default();
    let plain = launch::examine_for(&spec, Path::new(WORKER), &forks).unwrap();
    assert_eq!(forks.ids().len(), 1);
    spec.cluster.nodes[0].environment.insert("LD_LIBRARY_PATH".into(), "/nowhere".into());
    let forks = ForkServers::default();
    assert_eq!(launch::examine_for(&spec, Path::new(WORKER), &forks).unwrap(), plain);
    assert!(forks.ids().is_empty(), "it was asked by itself");
}

#[test]
fn a_server_that_was_killed_takes_its_processes_along_and_is_replaced() {
    let Struck { forks, server, outcome } = struck(Signal::KILL, "0 endless; 1 endless");
    assert!(outcome.detail.contains("SIGKILL"), "{outcome:?}");
    assert_eq!(Trial { forks: Some(forks.clone()), ..trial(2, "") }.run().outcome.end, End::Done);
    assert!(!forks.ids().contains(&server));
}

#[test]
fn a_server_that_was_stopped_holds_up_nothing_and_is_replaced() {
    // It may have been stopped before it forked the evaluator, which another server does then.
    let Struck { forks, server, outcome: _ } = struck(Signal::STOP, "0 linger; 1 linger");
    assert_eq!(Trial { forks: Some(forks.clone()), ..trial(2, "") }.run().outcome.end, End::Done);
    assert!(!forks.ids().contains(&server));
    groups_gone(&[server], SOON).unwrap();
}

/// A server that received a signal during an attempt, and how that ended.
struct Struck {
    forks: ForkServers,
    server: u32,
    outcome: Outcome,
}

/// An attempt whose server receives a signal as soon as it has forked both ranks.
fn struck(signal: Signal, text: &str) -> Struck {
    let forks = ForkServers::default();
    let with_forks = |text| Trial { forks: Some(forks.clone()), ..trial(2, text) };
    assert_eq!(with_forks("").run().outcome.end, End::Done);
    let [server] = forks.ids()[..] else { panic!("{:?}", forks.ids()) };
    let strike = std::thread::spawn(move || {
        let begun = Instant::now();
        while children(server).len() < 2 {
            assert!(begun.elapsed() < SOON, "it forks two ranks");
            std::thread::sleep(Duration::from_millis(1));
        }
        kill_process(Pid::from_raw(server.cast_signed()).unwrap(), signal).unwrap();
    });
    let outcome = with_forks(text).run().outcome;
    strike.join().unwrap();
    Struck { forks, server, outcome }
}

fn children(server: u32) -> Vec<u32> {
    let text = fs::read_to_string(format!("/proc/{server}/task/{server}/children")).unwrap();
    text.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

#[test]
fn what_is_started_for_an_attempt_that_was_dropped_is_killed() {
    let (directory, path) = script("touch \"$0.loading\"; sleep 1");
    let loading = directory.path().join("worker.loading");
    let forks = ForkServers::default();
    let trial = Trial { worker: path, forks: Some(forks.clone()), ..trial(2, "0 deaf blind; 1 deaf blind") };
    let directory = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let until_it_loads = async {
            while !loading.exists() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::select! {
            result = trial.attempt(directory.path()) => panic!("it ended: {:?}", result.outcome),
            () = until_it_loads => {}
        }
    });
    let begun = Instant::now();
    while forks.ids().is_empty() {
        assert!(begun.elapsed() < SOON, "the server is loaded all the same");
        std::thread::sleep(Duration::from_millis(1));
    }
    // Long enough for the fork that was wanted.
    std::thread::sleep(Duration::from_millis(500));
    while !children(forks.ids()[0]).is_empty() {
        assert!(begun.elapsed() < SOON, "it is killed");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_program_that_does_not_serve_is_executed() {
    for refusal in ["[ $# = 0 ] || exit 3", "[ $# = 0 ] || { kill -9 $$; }"] {
        let (_directory, path) = script(refusal);
        let forks = ForkServers::default();
        let result = Trial { worker: path, forks: Some(forks.clone()), ..trial(2, "") }.run();
        assert_eq!(result.outcome.end, End::Done, "{:?}", result.outcome);
        assert!(forks.ids().is_empty());
    }
}
