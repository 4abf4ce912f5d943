//! Peers that are processes of their own: killed, stopped, and come again.

use crate::fixture::{RealClock, briefing, sockets};
use bytes::Bytes;
use mesh::{Briefing, DataPlane, Member, write_briefing};
use recipe::PayloadPath;
use record::{Nanos, Rank};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Lines};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use strategies::{Kind, Packet, Senders, StepError, Tag, Wanted};
use transport_contract::PATIENCE;

const MIB: usize = 1 << 20;
/// A deadline that is meant to be reached.
const SHORT: Duration = Duration::from_secs(1);

fn tag(step: u64) -> Tag {
    Tag::new(Kind::Reduce, step)
}

fn packet(size: usize) -> Packet {
    Packet(Bytes::from(vec![7; size]))
}

/// A rank that is a process. Dropping it kills it.
pub(crate) struct Process {
    child: Child,
    said: Lines<BufReader<ChildStdout>>,
    input: Option<ChildStdin>,
}

impl Process {
    /// Starts a rank that does what these words say.
    pub(crate) fn start(sockets: &Path, rank: u32, ranks: u32, words: &[&str]) -> Self {
        Self::of(briefing(sockets, Member::Rank(Rank(rank)), ranks, PATIENCE), words)
    }

    fn of(briefing: Briefing, words: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_peer"));
        command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        write_briefing(&mut input, &briefing).unwrap();
        let said = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, said, input: Some(input) }
    }

    /// Waits until it says so.
    pub(crate) fn says(&mut self, word: &str) {
        assert_eq!(self.said.next().unwrap().unwrap(), word);
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits for its end; whether it was a good one.
    fn ends_well(mut self) -> bool {
        drop(self.input.take());
        self.child.wait().unwrap().success()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Rank 0 in this process, and the others as processes of their own that do what these words say.
fn meet(sockets: &Path, patience: Duration, others: &[&[&str]]) -> (DataPlane, Vec<Process>) {
    let ranks = 1 + others.len() as u32;
    let start = |(rank, words): (u32, &&[&str])| Process::start(sockets, rank, ranks, words);
    let mut processes: Vec<Process> = (1..).zip(others).map(start).collect();
    let briefing = briefing(sockets, Member::Rank(Rank(0)), ranks, patience);
    let plane = DataPlane::open(&briefing, Rank(0), RealClock::start()).unwrap();
    for process in &mut processes {
        process.says("open");
    }
    (plane, processes)
}

#[test]
fn a_killed_process_is_noticed_long_before_any_deadline() {
    let sockets = sockets();
    let (plane, processes) = meet(sockets.path(), PATIENCE, &[&["hold"], &["take", "1"]]);
    let begun = Instant::now();
    let mut transport = plane.transport();
    let waiting = thread::spawn(move || (transport.recv(Rank(1), tag(1)).map(drop), transport));
    processes[0].signal(Signal::KILL);
    let (error, mut transport) = waiting.join().unwrap();
    let wanted = Wanted::Message(tag(1));
    assert_eq!(error, Err(StepError::Gone { rank: Rank(0), peer: Rank(1), wanted }));
    let error = transport.recv_any(Kind::Push, Senders::Everyone).unwrap_err();
    assert!(matches!(error, StepError::Gone { peer: Rank(1), .. }), "{error}");
    let error = transport.send(Rank(1), tag(1), packet(1)).unwrap_err();
    assert!(matches!(error, StepError::Gone { peer: Rank(1), .. }), "{error}");
    assert!(begun.elapsed() < PATIENCE / 2, "{:?}", begun.elapsed());
    // The third continues and leaves in order, except that the dead peer cannot confirm its goodbye.
    transport.send(Rank(2), tag(1), packet(10)).unwrap();
    let closing = thread::spawn(move || plane.close(PATIENCE).unwrap_err().to_string());
    assert!(closing.join().unwrap().contains("rank 1"));
}

#[test]
fn a_process_that_is_killed_in_the_middle_of_a_message_leaves_no_half_of_it() {
    let sockets = sockets();
    let size = (48 * MIB).to_string();
    let (plane, processes) = meet(sockets.path(), PATIENCE, &[&["give", "1000", &size]]);
    let mut transport = plane.transport();
    transport.recv(Rank(1), tag(1)).unwrap();
    processes[0].signal(Signal::KILL);
    let outcome = (2..1000).find_map(|step| match transport.recv(Rank(1), tag(step)) {
        Ok(envelope) => {
            assert_eq!(envelope.packet.0.len(), 48 * MIB);
            None
        }
        Err(error) => Some((step, error)),
    });
    let (step, error) = outcome.unwrap();
    let wanted = Wanted::Message(tag(step));
    assert_eq!(error, StepError::Gone { rank: Rank(0), peer: Rank(1), wanted });
}

/// Rank 0 in this process and rank 1 as a process, which share memory.
fn meet_sharing(sockets: &Path, words: &[&str]) -> (DataPlane, Process) {
    let mut briefing = briefing(sockets, Member::Rank(Rank(1)), 2, PATIENCE);
    briefing.spec.communication.transport = PayloadPath::SharedMemory;
    let mut process = Process::of(briefing.clone(), words);
    let plane = DataPlane::open(&briefing, Rank(0), RealClock::start()).unwrap();
    process.says("open");
    (plane, process)
}

#[test]
fn ranks_of_several_machines_share_no_memory() {
    let sockets = sockets();
    let mut briefing = briefing(sockets.path(), Member::Rank(Rank(0)), 2, PATIENCE);
    briefing.spec.communication.transport = PayloadPath::SharedMemory;
    briefing.spec.cluster.placements[1].node = 1;
    let error = DataPlane::open(&briefing, Rank(0), RealClock::start()).err().unwrap().to_string();
    assert!(
        error.contains("on 2 machines") && error.contains("`communication.transport = \"zeromq\"`"),
        "{error}"
    );
}

/// Files of memory that this process has open or mapped.
fn shared_files() -> usize {
    let mapped = std::fs::read_to_string("/proc/self/maps").unwrap();
    let open = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let open = open.filter_map(|file| std::fs::read_link(file.path()).ok());
    let open = open.filter(|path| path.to_string_lossy().contains("bakeoff-packets"));
    mapped.lines().filter(|line| line.contains("bakeoff-packets")).count() + open.count()
}

#[test]
fn a_killed_writer_leaves_its_packets_whole_and_no_memory() {
    let before = shared_files();
    let sockets = sockets();
    let size = 3 * MIB;
    let (plane, process) = meet_sharing(sockets.path(), &["give", "1000", &size.to_string()]);
    assert_eq!(shared_files(), before + 4, "one file, two mappings, and one of bells");
    let mut transport = plane.transport();
    let first = transport.recv(Rank(1), tag(1)).unwrap();
    process.signal(Signal::KILL);
    let outcome = (2..1000).find_map(|step| match transport.recv(Rank(1), tag(step)) {
        Ok(envelope) => {
            assert_eq!(envelope.packet, packet(size), "message {step}");
            None
        }
        Err(error) => Some(error),
    });
    assert!(matches!(outcome, Some(StepError::Gone { peer: Rank(1), .. })), "{outcome:?}");
    drop(process);
    assert_eq!(first.packet, packet(size), "what was received can be read after its writer's end");
    drop((first, transport));
    drop(plane);
    assert_eq!(shared_files(), before, "no memory is left");
}

#[test]
fn a_killed_reader_keeps_what_it_had_and_no_sender_waits_for_it() {
    let sockets = sockets();
    let (plane, process) = meet_sharing(sockets.path(), &["hold"]);
    let mut transport = plane.transport();
    for step in 1..=3 {
        transport.send(Rank(1), tag(step), packet(3 * MIB)).unwrap();
    }
    process.signal(Signal::KILL);
    let error = transport.recv(Rank(1), tag(1)).unwrap_err();
    assert!(matches!(error, StepError::Gone { peer: Rank(1), .. }), "{error}");
    let error = transport.send(Rank(1), tag(4), packet(3 * MIB)).unwrap_err();
    assert!(matches!(error, StepError::Gone { peer: Rank(1), .. }), "{error}");
}

#[test]
fn far_more_than_the_memory_holds_passes_through_it() {
    let sockets = sockets();
    // The peer sends the same packet again and again: copied into the memory each time, some 1.2 GB through 128 MiB.
    let size = 3 * MIB;
    let (plane, mut process) = meet_sharing(sockets.path(), &["give", "400", &size.to_string()]);
    let mut transport = plane.transport();
    for step in 1..=400 {
        assert_eq!(transport.recv(Rank(1), tag(step)).unwrap().packet.0.len(), size);
    }
    let closing = thread::spawn(move || plane.close(PATIENCE).is_ok());
    process.says("done");
    assert!(closing.join().unwrap() && process.ends_well());
}

#[test]
fn a_stopped_process_is_silent_bounds_what_is_sent_to_it_and_can_go_on() {
    const MESSAGES: u64 = 15;
    let sockets = sockets();
    let count = MESSAGES.to_string();
    let (plane, mut processes) = meet(sockets.path(), SHORT, &[&["take", &count]]);
    processes[0].signal(Signal::STOP);
    let mut transport = plane.transport();
    let error = transport.recv(Rank(1), tag(1)).unwrap_err();
    let StepError::Silent { rank: Rank(0), peer: Some(Rank(1)), wanted, waited } = error else {
        panic!("{error}")
    };
    assert_eq!(wanted, Wanted::Message(tag(1)));
    assert!(waited >= Nanos(SHORT.as_nanos() as u64));
    let mut sent = 0;
    let error = loop {
        match transport.send(Rank(1), tag(sent + 1), packet(4 * MIB)) {
            Ok(()) => sent += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(sent, MESSAGES, "a window of 64 MiB has room for all of them");
    assert!(matches!(error, StepError::Silent { wanted: Wanted::Credit(_), .. }), "{error}");
    processes[0].signal(Signal::CONT);
    plane.close(PATIENCE).unwrap();
    processes[0].says("done");
    assert!(processes.remove(0).ends_well());
}

#[test]
fn who_comes_again_under_the_name_of_a_dead_rank_is_not_let_in() {
    let sockets = sockets();
    let (plane, mut processes) = meet(sockets.path(), PATIENCE, &[&["hold"], &["take", "2"]]);
    let mut transport = plane.transport();
    transport.send(Rank(2), tag(1), packet(10)).unwrap();
    processes[0].signal(Signal::KILL);
    let error = transport.recv(Rank(1), tag(1)).unwrap_err();
    assert!(matches!(error, StepError::Gone { peer: Rank(1), .. }), "{error}");
    // The file of its socket still exists, and blocks a process of the same name.
    assert!(!Process::start(sockets.path(), 1, 3, &["hold"]).ends_well());
    std::fs::remove_file(sockets.path().join("data-1")).unwrap();
    let mut again = briefing(sockets.path(), Member::Rank(Rank(1)), 3, PATIENCE);
    again.deadlines.start_up = SHORT;
    let error = DataPlane::open(&again, Rank(1), RealClock::start()).err().unwrap();
    assert!(error.to_string().starts_with("rank 1 waited"), "{error}");
    let error = transport.recv(Rank(1), tag(1)).unwrap_err();
    assert!(matches!(error, StepError::Gone { peer: Rank(1), .. }), "{error}");
    transport.send(Rank(2), tag(2), packet(10)).unwrap();
    let closing = thread::spawn(move || plane.close(PATIENCE).is_err());
    assert!(closing.join().unwrap());
    processes.pop();
}
