//! Attempts with real processes: how each ends, whom it blames, and that nothing is left of it.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests fail as tests do")]

mod ends;
mod forks;
#[path = "../left_over/mod.rs"]
mod left_over;

#[path = "../../src/sample.rs"]
mod sample;

use launch::{Attempt, End, ForkServers, Outcome, RunPhase, StopSignal, Update};
use left_over::groups_gone;
use mesh::{Deadlines, Member};
use recipe::RunSpec;
use record::{Event, HostRecord, Nanos, Rank};
use std::collections::BTreeSet;
use std::fs::DirEntry;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tokio::sync::mpsc;

const WORKER: &str = env!("CARGO_BIN_EXE_scripted-worker");

fn deadlines() -> Deadlines {
    Deadlines {
        start_up: Duration::from_secs(20),
        peer: Duration::from_secs(5),
        heartbeat: Duration::from_millis(500),
        shut_down: Duration::from_secs(2),
    }
}

/// An attempt to be made.
struct Trial {
    spec: RunSpec,
    deadlines: Deadlines,
    timeout: Option<Duration>,
    worker: PathBuf,
    forks: Option<ForkServers>,
    stop: StopSignal,
    /// Told to stop as soon as every rank has told this step.
    stop_at: Option<u64>,
}

/// Outcome of a trial, with everything that was reported on the way.
struct Result {
    outcome: Outcome,
    updates: Vec<Update>,
    /// The snapshots that are left.
    snapshots: Vec<String>,
}

fn trial(ranks: u32, script: &str) -> Trial {
    let mut spec = sample::spec(ranks);
    spec.dataset.source = recipe::Source::Mnist { path: script.into() };
    let stop = StopSignal::default();
    let forks = Some(ForkServers::default());
    Trial { spec, deadlines: deadlines(), timeout: None, worker: WORKER.into(), forks, stop, stop_at: None }
}

impl Trial {
    /// Makes the attempt, and checks what holds for every attempt.
    fn run(self) -> Result {
        let directory = tempfile::tempdir().unwrap();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let ranks = if self.stop.at_next_step.is_cancelled() { 0 } else { self.spec.cluster.ranks() };
        let result = runtime.block_on(async {
            let limit = Duration::from_mins(1);
            tokio::time::timeout(limit, self.attempt(directory.path()))
                .await
                .expect("the attempt ends in time")
        });
        let groups = result.updates.iter().filter_map(|update| match update {
            Update::Spawned { pid, .. } => Some(*pid),
            _ => None,
        });
        let groups: Vec<u32> = groups.collect();
        assert!(groups.len() >= ranks as usize);
        groups_gone(&groups, Duration::ZERO).unwrap();
        result
    }

    async fn attempt(&self, directory: &Path) -> Result {
        let attempt = Attempt {
            spec: &self.spec,
            seed: 1,
            directory: directory.join("attempt"),
            worker: self.worker.clone(),
            forks: self.forks.clone(),
            deadlines: self.deadlines,
            timeout: self.timeout,
            resume: None,
        };
        // Little room, so that the backlog is used too.
        let (sender, mut receiver) = mpsc::channel(2);
        let listen = async {
            let mut updates = Vec::new();
            let mut there = BTreeSet::new();
            while let Some(update) = receiver.recv().await {
                there.extend(self.stop_at.iter().flat_map(|step| who_tells_step(&update, *step)));
                if there.len() == self.spec.cluster.ranks() as usize {
                    self.stop.at_next_step.cancel();
                }
                updates.push(update);
            }
            updates
        };
        let run = launch::run(attempt, self.stop.clone(), sender);
        assert_can_move_between_threads(&run);
        let (outcome, updates) = tokio::join!(run, listen);
        let snapshots = std::fs::read_dir(directory.join("attempt/snapshots")).into_iter().flatten();
        let name = |entry: io::Result<DirEntry>| entry.unwrap().file_name().into_string().unwrap();
        Result { outcome: outcome.unwrap(), updates, snapshots: snapshots.map(name).collect() }
    }
}

fn assert_can_move_between_threads<T: Send>(_: &T) {}

fn who_tells_step(update: &Update, number: u64) -> impl Iterator<Item = Rank> {
    events_of(update).iter().filter_map(move |event| match event {
        Event::Step(step) if step.step == number => Some(step.rank),
        _ => None,
    })
}

fn events_of(update: &Update) -> &[Event] {
    match update {
        Update::Events(events) => events,
        _ => &[],
    }
}

impl Result {
    fn phases(&self) -> Vec<RunPhase> {
        let phase = |update: &Update| match update {
            Update::State(phase) => Some(*phase),
            _ => None,
        };
        self.updates.iter().filter_map(phase).collect()
    }

    fn events(&self) -> Vec<&Event> {
        self.updates.iter().flat_map(events_of).collect()
    }

    /// Checks that the attempt failed, whom it blames, and what the sentence says.
    fn blames(&self, culprit: u32, words: &[&str]) {
        let Outcome { end, culprit: blamed, detail, .. } = &self.outcome;
        assert!(matches!(end, End::Failed { .. }), "{end:?}");
        assert_eq!(*blamed, Some(Rank(culprit)), "{detail}");
        assert!(detail.starts_with(&format!("rank {culprit} ")), "{detail}");
        for word in words {
            assert!(detail.contains(word), "no `{word}` in: {detail}");
        }
    }
}

#[test]
fn a_run_without_faults_is_done_and_everything_it_said_was_passed_on() {
    let result = trial(3, "").run();
    assert_eq!(result.outcome.end, End::Done, "{:?}", result.outcome);
    assert_eq!((result.outcome.detail.as_str(), result.outcome.culprit), ("", None));
    assert_eq!(result.phases(), [RunPhase::Starting, RunPhase::Running, RunPhase::Evaluating]);
    let events = result.events();
    let count = |wanted: fn(&Event) -> bool| events.iter().filter(|event| wanted(event)).count();
    assert_eq!(count(|event| matches!(event, Event::Prepared(_))), 3);
    assert_eq!(count(|event| matches!(event, Event::Step(_))), 3 * 6);
    assert_eq!(count(|event| matches!(event, Event::Ended(_))), 3);
    assert_eq!(count(|event| matches!(event, Event::Metric(_))), 2);
}

#[test]
fn the_machine_is_read_when_training_begins_and_when_it_ends() {
    let result = trial(2, "").run();
    let readings: Vec<&HostRecord> = (result.events().into_iter())
        .filter_map(|event| match event {
            Event::Host(reading) => Some(reading),
            _ => None,
        })
        .collect();
    let [first, .., last] = readings.as_slice() else { panic!("{readings:?}") };
    assert!(first.at < Nanos(1_000_000_000) && first.at < last.at, "{readings:?}");
    assert!(first.cores > 0 && first.busy <= last.busy && first.own <= last.own, "{readings:?}");
    let state = |wanted| result.updates.iter().position(|update| *update == Update::State(wanted)).unwrap();
    let read = |update: &Update| matches!(events_of(update), [Event::Host(_)]);
    let places: Vec<usize> =
        (0..result.updates.len()).filter(|place| read(&result.updates[*place])).collect();
    assert_eq!(places.len(), readings.len());
    assert!(places.iter().filter(|place| **place > state(RunPhase::Evaluating)).count() == 1, "{places:?}");
    assert!(places[0].abs_diff(state(RunPhase::Running)) <= 2, "{places:?}");
}

#[test]
fn of_the_evaluated_snapshots_only_the_last_is_kept() {
    let result = trial(2, "").run();
    assert_eq!(result.outcome.end, End::Done);
    assert_eq!(result.snapshots, ["6.bin"]);
    assert!(!result.updates.iter().any(|update| matches!(update, Update::Note(_))), "{:?}", result.updates);
}

#[test]
fn where_no_models_are_wanted_none_is_left_of_a_run_with_a_result() {
    let mut trial = trial(2, "");
    trial.spec.measure.models = recipe::KeptModels::None;
    let result = trial.run();
    assert_eq!(result.outcome.end, End::Done);
    assert_eq!(result.snapshots, [""; 0]);
    assert!(!result.updates.iter().any(|update| matches!(update, Update::Note(_))), "{:?}", result.updates);
}

#[test]
fn a_snapshot_that_cannot_be_deleted_is_noted_and_spoils_nothing() {
    let result = trial(1, "evaluator tidy").run();
    assert_eq!(result.outcome.end, End::Done);
    let note = |update: &Update| match update {
        Update::Note(note) => note.contains("attempt/snapshots/3.bin cannot be deleted: "),
        _ => false,
    };
    assert_eq!(result.updates.iter().filter(|update| note(update)).count(), 1, "{:?}", result.updates);
}

#[test]
fn a_snapshot_of_another_digest_fails_the_run_and_is_named() {
    let result = trial(1, "0 forge").run();
    assert!(matches!(result.outcome.end, End::Failed { .. }), "{:?}", result.outcome);
    let detail = result.outcome.detail;
    assert!(detail.contains("could not evaluate snapshots/3.bin: it cannot be fetched: "), "{detail}");
    assert!(detail.contains(" has the SHA-256 af5570f5a1810b7a"), "of eight zeros: {detail}");
}

#[test]
fn with_a_core_to_spare_the_evaluator_works_beside_the_ranks() {
    let mut trial = trial(2, "");
    trial.spec.threads.evaluate_at_once = true;
    let result = trial.run();
    assert_eq!(result.outcome.end, End::Done);
    let first = result.updates.iter().position(|update| matches!(update, Update::Events(_))).unwrap();
    let evaluator = |update: &Update| matches!(update, Update::Spawned { member: Member::Evaluator, .. });
    assert!(result.updates[..first].iter().any(evaluator));
}

/// Settings of the caller's shell for OpenMP, MKL and their like reach no process; each computes with the plan's number
/// of threads.
#[test]
fn the_callers_environment_has_no_say_in_arithmetic() {
    let directory = tempfile::tempdir().unwrap();
    let attempt = directory.path().join("attempt");
    let status = Command::new(WORKER)
        .arg("environment")
        .arg(&attempt)
        .envs([
            ("OMP_NUM_THREADS", "7"),
            ("MKL_NUM_THREADS", "7"),
            ("KMP_AFFINITY", "compact"),
            ("MKL_CBWR", "SSE2"),
            ("OMP_WAIT_POLICY", "ACTIVE"),
        ])
        .envs([("OMP_DYNAMIC", "TRUE"), ("GOMP_CPU_AFFINITY", "0"), ("ATEN_CPU_CAPABILITY", "default")])
        .envs([("ONEDNN_MAX_CPU_ISA", "SSE41"), ("OPENBLAS_NUM_THREADS", "7"), ("OMPI_COMM_WORLD_RANK", "3")])
        .status()
        .unwrap();
    assert!(status.success());
    // The evaluator has the variables of a worker, and computes in one thread with the number of its briefing.
    for (log, variables, threads) in
        [("rank-0.log", 2, 2), ("rank-1.log", 2, 2), ("rank-2.log", 1, 1), ("evaluator.log", 2, 3)]
    {
        let told = std::fs::read_to_string(attempt.join(log)).unwrap();
        let waiting = if variables == 1 { "OMP_WAIT_POLICY=PASSIVE\n" } else { "" };
        let expected = format!(
            "MKL_DYNAMIC=FALSE\nMKL_NUM_THREADS={variables}\nOMPI_COMM_WORLD_RANK=3\nOMP_DYNAMIC=FALSE\n\
             OMP_NUM_THREADS={variables}\n{waiting}OPENBLAS_NUM_THREADS={variables}\nthreads {threads}\n"
        );
        assert_eq!(told, expected, "{log}");
    }
}

#[test]
fn a_rank_that_is_killed_is_named_with_step_and_phase() {
    let result = trial(3, "0 endless; 1 kill 4; 2 endless").run();
    result.blames(1, &["SIGKILL", "step 4", "phase forward", "lane compute"]);
}

#[test]
fn a_rank_that_hangs_is_named() {
    let mut trial = trial(3, "0 endless; 1 endless; 2 hang 3");
    trial.deadlines.heartbeat = Duration::from_millis(200);
    trial.run().blames(2, &["hangs", "step 3", "phase forward"]);
}

#[test]
fn a_rank_that_exits_is_named_and_its_last_words_are_fit_to_read() {
    let result = trial(2, "0 endless; 1 exit 2").run();
    result.blames(1, &["exited with code 9", "step 2"]);
    let lines = &result.outcome.last_lines;
    assert_eq!(lines.last().unwrap(), "last words");
    assert!(lines.iter().all(|line| !line.contains(char::is_control)), "{lines:?}");
}

#[test]
fn a_process_that_a_rank_left_behind_goes_with_it() {
    trial(2, "0 endless; 1 orphan 2").run().blames(1, &["exited with code 9"]);
}

#[test]
fn a_rank_that_exits_before_it_connects_is_named() {
    let result = trial(2, "1 early 7").run();
    result.blames(1, &["exited with code 7", "while starting up"]);
    assert_eq!(result.outcome.last_lines, ["cannot even begin"]);
    assert_eq!(result.phases(), [RunPhase::Starting, RunPhase::Stopping]);
}

#[test]
fn ranks_that_never_get_ready_are_named_with_what_they_said_last() {
    let mut trial = trial(3, "0 unready; 2 unready");
    trial.deadlines.start_up = Duration::from_secs(5);
    let Outcome { end, culprit, detail, last_lines, .. } = trial.run().outcome;
    assert!(matches!(end, End::Failed { .. }) && culprit.is_none(), "{end:?}");
    let waited = detail.strip_prefix("ranks 0 and 2 were not ready after ").expect(&detail);
    let waited: f64 = waited.split(' ').next().unwrap().parse().expect(&detail);
    assert!(waited >= 5.0, "{detail}");
    assert_eq!(last_lines, ["rank 0: INFO reading data", "rank 2: INFO reading data"]);
}

#[test]
fn ranks_that_start_with_other_weights_do_not_train() {
    let result = trial(3, "2 differ").run();
    let detail = &result.outcome.detail;
    assert!(detail.contains("the initial weights of rank 0: aaaa, of rank 2: ffff"), "{detail}");
    assert!(!result.phases().contains(&RunPhase::Running));
}

#[test]
fn a_reported_fault_is_told_with_its_place_and_reason() {
    let result = trial(2, "0 endless; 1 fail 5").run();
    result.blames(1, &["step 5", "phase reduce", "the script says so"]);
}

#[test]
fn not_the_one_who_complains_is_blamed_but_the_one_who_died() {
    // Rank 2 accuses rank 1, who has just died.
    trial(3, "0 endless; 1 kill 3; 2 endless accuse 20 1").run().blames(1, &["SIGKILL"]);
    // Rank 0 accuses rank 2, who accuses rank 1, who is there and silent.
    trial(3, "0 endless accuse 40 2; 1 hang 2; 2 accuse 3 1").run().blames(1, &["step 2"]);
}

#[test]
fn a_rank_that_diverges_gives_a_result_and_no_fault() {
    // Late enough for rank 0 to have put a model aside before.
    let result = trial(2, "0 endless; 1 endless diverge 400").run();
    assert_eq!(result.outcome.end, End::Diverged { rank: Rank(1), step: 400, loss: "NaN".into() });
    assert_eq!(result.outcome.detail, "rank 1 diverged in step 400: its loss is NaN");
    assert!(result.events().iter().any(|event| matches!(event, Event::Metric(_))));
}

#[test]
fn what_cannot_be_started_is_an_error_and_no_outcome() {
    let directory = tempfile::tempdir().unwrap();
    let spec = sample::spec(1);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let attempt = |directory: &Path, worker: &str| {
        let attempt = Attempt {
            spec: &spec,
            seed: 1,
            directory: directory.into(),
            worker: worker.into(),
            forks: None,
            deadlines: deadlines(),
            timeout: None,
            resume: None,
        };
        let (sender, _receiver) = mpsc::channel(64);
        runtime.block_on(launch::run(attempt, StopSignal::default(), sender)).unwrap_err().to_string()
    };
    let told = attempt(directory.path(), "/nowhere/worker");
    assert!(told.starts_with("worker /nowhere/worker cannot be started"), "{told}");
    let told = attempt(Path::new("/proc/nowhere"), WORKER);
    assert!(told.starts_with("/proc/nowhere/snapshots cannot be made"), "{told}");
}
