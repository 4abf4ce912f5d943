//! An attempt on a launcher that is none of the operating system's: its members are threads of this test, on two nodes
//! whose clocks differ, and its files are fetched by name and digest.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

#[path = "../src/sample.rs"]
mod sample;

use launch::{
    Artifact, Artifacts, Attempt, End, Fetch, LaunchError, Launcher, NodeIndex, NodeReport, Outcome,
    ProcessExit, SpawnRequest, StopSignal,
};
use mesh::{Briefing, ControlClient, ControlInbox, Deadlines, Member, ToDriver, ToMember};
use recipe::{Node, Placement, RunSpec};
use record::{Event, Nanos, Prepared, Rank, RankEnd, RankEnded, SnapshotRecord, Standing};
use std::io;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;
use tokio::sync::mpsc;

const HOUR: i64 = 3_600_000_000_000;
const PATIENCE: Duration = Duration::from_secs(20);

/// Actions of the members and of the launcher, in order.
type Log = Arc<Mutex<Vec<String>>>;

/// Two nodes in one process.
struct Scripted {
    log: Log,
    exited: mpsc::UnboundedSender<(Member, ProcessExit)>,
    exits: mpsc::UnboundedReceiver<(Member, ProcessExit)>,
    /// Why snapshots cannot be fetched, if they cannot.
    broken: Option<&'static str>,
}

impl Launcher for Scripted {
    async fn start(&mut self, request: SpawnRequest) -> Result<u32, LaunchError> {
        let SpawnRequest { member, node, briefing, .. } = request;
        self.log.lock().unwrap().push(format!("start {member} on node {}", node.0));
        let exited = self.exited.clone();
        let log = self.log.clone();
        thread::spawn(move || {
            let briefing = mesh::read_briefing(&briefing[..]).unwrap();
            let (control, inbox) = ControlClient::connect(&briefing).unwrap();
            match member {
                Member::Rank(rank) => act(rank, &briefing, &control, &inbox, &log),
                Member::Evaluator => evaluate(&control, &inbox, &log),
            }
            control.send(ToDriver::Goodbye);
            control.close(briefing.deadlines.shut_down).unwrap();
            exited.send((member, ProcessExit::Code(0))).unwrap_or_default();
        });
        Ok(1)
    }

    fn kill(&mut self, member: Member) {
        self.log.lock().unwrap().push(format!("kill {member}"));
        self.exited.send((member, ProcessExit::Signal(9))).unwrap();
    }

    async fn next_report(&mut self) -> NodeReport {
        let (member, exit) = self.exits.recv().await.unwrap();
        NodeReport::Exit(member, exit)
    }

    fn clock_ahead(&self, node: NodeIndex) -> i64 {
        i64::from(node.0) * HOUR
    }
}

impl Artifacts for Scripted {
    fn fetch(&mut self, artifact: Artifact) -> Fetch {
        let Artifact { node, name, sha256 } = artifact;
        let log = self.log.clone();
        let broken = self.broken;
        Box::pin(async move {
            tokio::task::yield_now().await;
            log.lock().unwrap().push(format!("fetch {name} {sha256} from node {}", node.0));
            broken.map_or(Ok(()), |reason| Err(io::Error::other(reason)))
        })
    }

    fn discard(&mut self, artifact: &Artifact) -> io::Result<()> {
        self.log.lock().unwrap().push(format!("discard {} on node {}", artifact.name, artifact.node.0));
        Ok(())
    }

    fn log_tail(&mut self, member: Member, _: u64) -> io::Result<Vec<u8>> {
        Ok(format!("the last line of the {member}\n").into_bytes())
    }
}

/// A rank; the one on the second node takes a snapshot.
fn act(rank: Rank, briefing: &Briefing, control: &ControlClient, inbox: &ControlInbox, log: &Log) {
    let tell = |event| control.send(ToDriver::Events(vec![event]));
    tell(Event::Prepared(Prepared {
        rank,
        pid: 1,
        threads: briefing.threads,
        training_samples: 1_000,
        data_digest: "dddd".into(),
        weights: "aaaa".into(),
        parameters: 7_850,
        resident_bytes: 1,
        replica_group: None,
    }));
    let start = inbox.recv_timeout(PATIENCE);
    let Some(ToMember::Start { origin }) = start else { panic!("expected the start, got {start:?}") };
    log.lock().unwrap().push(format!("rank {rank} starts in hour {}", origin / HOUR));
    if rank == Rank(1) {
        tell(Event::Snapshot(SnapshotRecord {
            rank,
            model: "rank 1".into(),
            step: 3,
            samples: 30,
            at: Nanos(3),
            file: "snapshots/1-3".into(),
            last: false,
            mark: 1,
            standing: Standing::Judged,
            group: None,
            sha256: "beef".into(),
            digested: true,
        }));
    }
    tell(Event::Ended(RankEnded { rank, end: RankEnd::Finished }));
}

fn evaluate(control: &ControlClient, inbox: &ControlInbox, log: &Log) {
    loop {
        match inbox.recv_timeout(PATIENCE) {
            Some(ToMember::Evaluate(snapshot)) => {
                log.lock().unwrap().push(format!("evaluate {}", snapshot.file));
                control.send(ToDriver::Evaluated { file: snapshot.file, failure: None });
            }
            _ => return,
        }
    }
}

fn spec() -> RunSpec {
    let mut spec = sample::spec(2);
    let node = |name: &str| Node { name: name.into(), ..Node::local(1) };
    spec.cluster.nodes = vec![node("here"), node("there")];
    for (placement, node) in spec.cluster.placements.iter_mut().zip(0..) {
        *placement = Placement { node, ..placement.clone() };
    }
    spec
}

/// Runs an attempt of a rank on each node.
fn run(broken: Option<&'static str>) -> (Outcome, Vec<String>) {
    let directory = tempfile::tempdir().unwrap();
    let spec = spec();
    let attempt = Attempt {
        spec: &spec,
        seed: 1,
        directory: directory.path().join("attempt"),
        worker: "/no/program/is/started".into(),
        forks: None,
        deadlines: Deadlines { start_up: PATIENCE, ..Deadlines::default() },
        timeout: None,
        resume: None,
    };
    let log = Log::default();
    let (exited, exits) = mpsc::unbounded_channel();
    let launcher = Scripted { log: log.clone(), exited, exits, broken };
    let (updates, mut told) = mpsc::channel(64);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let outcome = runtime.block_on(async {
        let listen = async { while told.recv().await.is_some() {} };
        let run = launch::run_on(launcher, attempt, StopSignal::default(), updates);
        tokio::time::timeout(3 * PATIENCE, async { tokio::join!(run, listen).0 }).await.unwrap().unwrap()
    });
    let log = log.lock().unwrap().clone();
    (outcome, log)
}

fn position(log: &[String], line: &str) -> usize {
    log.iter().position(|other| other == line).unwrap_or_else(|| panic!("no `{line}` in {log:#?}"))
}

#[test]
fn members_run_where_they_are_placed_and_snapshots_are_fetched_before_they_are_evaluated() {
    let (outcome, log) = run(None);
    assert_eq!(outcome.end, End::Done, "{}", outcome.detail);
    for line in ["start rank 0 on node 0", "start rank 1 on node 1", "start evaluator on node 0"] {
        position(&log, line);
    }
    let fetched = position(&log, "fetch snapshots/1-3 beef from node 1");
    let evaluated = position(&log, "evaluate snapshots/1-3");
    assert!(fetched < evaluated && evaluated < position(&log, "discard snapshots/1-3 on node 1"), "{log:#?}");
}

#[test]
fn each_rank_gets_the_zero_of_the_clock_of_its_node() {
    let (_, log) = run(None);
    let hour = |rank: u32| {
        let lead = format!("rank {rank} starts in hour ");
        log.iter().find_map(|line| line.strip_prefix(&lead)?.parse::<i64>().ok()).unwrap()
    };
    assert_eq!(hour(1), hour(0) + 1);
}

#[test]
fn a_snapshot_that_cannot_be_fetched_fails_the_run_and_is_named() {
    let (outcome, log) = run(Some("the node is gone"));
    assert!(matches!(outcome.end, End::Failed { .. }), "{:?}", outcome.end);
    let told = "could not evaluate snapshots/1-3: it cannot be fetched: the node is gone";
    assert!(outcome.detail.contains(told), "{}", outcome.detail);
    assert_eq!(outcome.last_lines, ["the last line of the evaluator"]);
    assert!(!log.iter().any(|line| line.starts_with("evaluate ")), "{log:#?}");
}
