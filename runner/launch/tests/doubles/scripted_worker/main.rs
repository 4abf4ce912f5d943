//! A test double of the worker: it speaks the real protocol and trains nothing. What it does wrong, and when,
//! is written in the place of the data set's path: `1 kill 3; 2 deaf; evaluator exit 4`. Called with `drive` and
//! a directory it is a driver instead, whose run never ends by itself; called with `reap` it is the next one. Called with
//! `environment` and a directory it is a driver whose members write into their logs what their surroundings are. With `--protocol` it
//! introduces itself as a worker does.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test double may fail loudly, and what it prints is part of its act"
)]

#[path = "../../../src/sample.rs"]
mod sample;
mod script;

use mesh::{Briefing, ControlClient, ControlInbox, Heartbeat, Member, ToDriver, ToMember};
use recipe::Metric;
use record::{
    Event, LaneId, MetricRecord, Nanos, Phase, PhaseTimes, Prepared, Rank, RankEnd, RankEnded,
    SnapshotRecord, Standing, StepRecord,
};
use rustix::process::{Signal, getpid, kill_process};
use script::{Part, Verb};
use sha2::{Digest, Sha256};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, fs, io, process, thread};

const STEPS: u64 = 6;
const STEP: Duration = Duration::from_millis(5);

fn main() {
    let arguments: Vec<String> = env::args().collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [_, ref words @ ..] if words == mesh::FORK_SERVER => serve_forks(),
        [_, "drive", directory] => drive(directory.into()),
        [_, "environment", directory] => environment(directory.into()),
        [_, "reap"] => assert!(launch::reap() >= 1),
        [_, mesh::INTRODUCE] => introduce(),
        _ => work(),
    }
}

fn introduce() {
    let version = env!("CARGO_PKG_VERSION");
    let protocol = mesh::PROTOCOL;
    let format = mesh::wire_format();
    println!("bakeoff-worker {version} protocol {protocol} format {format:016x} forks");
}

fn serve_forks() {
    match mesh::serve_forks().unwrap() {
        mesh::Forked::Server => {}
        mesh::Forked::Worker => work(),
        mesh::Forked::Introducer => introduce(),
    }
}

/// Runs an attempt whose ranks never end: one watches for the end of the driver, one is stopped and
/// cannot, and one does not.
fn drive(directory: PathBuf) {
    let mut spec = sample::spec(3);
    spec.dataset.source = script("0 endless; 1 hang 2; 2 deaf blind");
    attempt(&spec, directory);
}

/// Runs an attempt of two workers and a server with two threads each worker and three of the evaluator.
fn environment(directory: PathBuf) {
    let mut spec = sample::spec(3);
    spec.dataset.source = script("0 tell; 1 tell; 2 tell; evaluator tell");
    spec.cluster.placements[2].role = recipe::Role::Server;
    spec.threads = recipe::Threads { worker: 2, evaluator: 3, evaluate_at_once: true };
    attempt(&spec, directory);
}

/// A data set whose path is the script of the members.
fn script(text: &str) -> recipe::Source {
    recipe::Source::Mnist { path: text.into() }
}

fn attempt(spec: &recipe::RunSpec, directory: PathBuf) {
    let deadlines = mesh::Deadlines { heartbeat: Duration::from_mins(1), ..mesh::Deadlines::default() };
    let attempt = launch::Attempt {
        spec,
        seed: 1,
        directory,
        worker: env::current_exe().unwrap(),
        forks: Some(launch::ForkServers::default()),
        deadlines,
        timeout: None,
        resume: None,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let (updates, mut told) = tokio::sync::mpsc::channel(64);
    runtime.spawn(async move { while told.recv().await.is_some() {} });
    runtime.block_on(launch::run(attempt, launch::StopSignal::default(), updates)).unwrap();
}

fn work() {
    let briefing = mesh::read_briefing(io::stdin()).unwrap();
    let recipe::Source::Mnist { path } = &briefing.spec.dataset.source else {
        panic!("a data set whose path is a script");
    };
    let part = Part::of(path.to_str().unwrap(), briefing.member);
    if !part.has(Verb::Blind) {
        thread::spawn(|| {
            // The end of the input is the end of the driver.
            let _ = io::stdin().read(&mut [0]);
            process::exit(3);
        });
    }
    if part.has(Verb::Tell) {
        let leads = ["OMP", "GOMP_", "KMP_", "MKL_", "ONEDNN_", "OPENBLAS_", "ATEN_"];
        let mut told: Vec<(String, String)> =
            env::vars().filter(|(name, _)| leads.iter().any(|lead| name.starts_with(lead))).collect();
        told.sort();
        for (name, value) in &told {
            eprintln!("{name}={value}");
        }
        eprintln!("threads {}", briefing.threads);
    }
    if let Some(code) = part.get(Verb::Early) {
        eprintln!("cannot even begin");
        process::exit(code as i32);
    }
    let (control, inbox) = ControlClient::connect(&briefing).unwrap();
    match briefing.member {
        Member::Rank(rank) => Actor { rank, briefing, part, control, inbox }.play(),
        Member::Evaluator => evaluate(&briefing.directory, &part, &control, &inbox),
    }
}

/// A rank that plays its part of the script.
struct Actor {
    rank: Rank,
    briefing: Briefing,
    part: Part,
    control: ControlClient,
    inbox: ControlInbox,
}

impl Actor {
    fn play(&self) {
        if self.part.has(Verb::Unready) {
            eprintln!("{{\"level\":\"INFO\",\"fields\":{{\"message\":\"reading data\"}}}}");
            sleep_for_ever();
        }
        self.prepare();
        loop {
            match self.inbox.recv_timeout(self.briefing.deadlines.heartbeat) {
                Some(ToMember::Start { .. }) => break,
                None => self.heartbeat(0),
                other => panic!("expected the start, got {other:?}"),
            }
        }
        self.end(self.train());
        if self.part.has(Verb::Mute) {
            sleep_for_ever();
        }
        self.control.send(ToDriver::Goodbye);
        self.control.close(self.briefing.deadlines.shut_down).unwrap();
        if self.part.has(Verb::Linger) {
            sleep_for_ever();
        }
    }

    fn prepare(&self) {
        let weights = if self.part.has(Verb::Differ) { "ffff" } else { "aaaa" };
        self.tell(Event::Prepared(Prepared {
            rank: self.rank,
            pid: process::id(),
            threads: self.briefing.threads,
            training_samples: 1_000,
            data_digest: "dddd".into(),
            weights: weights.into(),
            parameters: 7_850,
            resident_bytes: 1,
            replica_group: None,
        }));
    }

    fn train(&self) -> RankEnd {
        let endless = self.part.has(Verb::Endless) || self.part.has(Verb::Deaf);
        for step in 1.. {
            self.heartbeat(step);
            if let Some(end) = self.misbehave(step) {
                return end;
            }
            self.step(step);
            if self.rank == Rank(0) && (step == 3 || step == STEPS) {
                self.snapshot(step);
            }
            let told = self.inbox.recv_timeout(STEP);
            if told == Some(ToMember::Stop) && !self.part.has(Verb::Deaf) {
                return RankEnd::Stopped { step };
            }
            if step == STEPS && !endless {
                return RankEnd::Finished;
            }
        }
        unreachable!("steps do not run out")
    }

    fn misbehave(&self, step: u64) -> Option<RankEnd> {
        let due = |verb| self.part.get(verb) == Some(step);
        if [Verb::Kill, Verb::Hang, Verb::Exit, Verb::Orphan].into_iter().any(due) {
            // Whatever comes, the driver shall know the step.
            self.control.close(self.briefing.deadlines.shut_down).unwrap();
        }
        let failed = |peer| RankEnd::Failed {
            lane: LaneId::Compute,
            step,
            phase: Phase::Reduce,
            peer,
            reason: "the script says so".into(),
        };
        if due(Verb::Kill) {
            raise(Signal::KILL);
        }
        if due(Verb::Hang) {
            raise(Signal::STOP);
        }
        if due(Verb::Exit) {
            let mut garbage: Vec<u8> = (0..=255).collect();
            garbage.extend(b"\nlast words\n");
            io::Write::write_all(&mut io::stderr(), &garbage).unwrap();
            process::exit(9);
        }
        if due(Verb::Orphan) {
            // A process of its own, which must not outlive the run either.
            process::Command::new("sleep").arg("600").spawn().unwrap();
            process::exit(9);
        }
        if due(Verb::Diverge) {
            return Some(RankEnd::Diverged { step, loss: "NaN".into() });
        }
        if due(Verb::Fail) {
            return Some(failed(None));
        }
        self.part.accused(step).map(|peer| failed(Some(peer)))
    }

    fn heartbeat(&self, step: u64) {
        self.control.send(ToDriver::Heartbeat(Heartbeat {
            lane: LaneId::Compute,
            step,
            phase: Phase::Forward,
            since: Nanos(step),
            samples: 64 * step,
            loss: Some(1.0),
        }));
    }

    fn step(&self, step: u64) {
        self.tell(Event::Step(StepRecord {
            rank: self.rank,
            lane: LaneId::Compute,
            step,
            samples: 64 * step,
            begin: Nanos(step),
            length: Nanos(1),
            phases: PhaseTimes::default(),
            bytes_out: 0,
            bytes_in: 0,
            loss: Some(1.0),
            own_samples: 16,
            rate: Some(0.1),
            drain: false,
            hidden: Nanos(0),
        }));
    }

    fn snapshot(&self, step: u64) {
        let file = format!("snapshots/{step}.bin");
        let bytes = step.to_le_bytes();
        let written = if self.part.has(Verb::Forge) { [0; 8] } else { bytes };
        fs::write(self.briefing.directory.join(&file), written).unwrap();
        self.tell(Event::Snapshot(SnapshotRecord {
            rank: self.rank,
            model: "rank 0".into(),
            step,
            samples: 64 * step,
            at: Nanos(1_000_000 * step),
            file,
            last: step == STEPS,
            mark: step,
            standing: Standing::Judged,
            group: None,
            sha256: recipe::hex(&Sha256::digest(bytes)),
            digested: true,
        }));
    }

    fn end(&self, end: RankEnd) {
        self.tell(Event::Ended(RankEnded { rank: self.rank, end }));
    }

    fn tell(&self, event: Event) {
        self.control.send(ToDriver::Events(vec![event]));
    }
}

fn evaluate(directory: &Path, part: &Part, control: &ControlClient, inbox: &ControlInbox) {
    loop {
        match inbox.recv_timeout(Duration::from_mins(1)) {
            Some(ToMember::Evaluate(snapshot)) => {
                if let Some(code) = part.get(Verb::Exit) {
                    eprintln!("no test set");
                    process::exit(code as i32);
                }
                let failure = part.has(Verb::Fail).then(|| "it is torn".to_owned());
                control.send(ToDriver::Events(vec![Event::Metric(MetricRecord {
                    metric: Metric::TestAccuracy,
                    model: snapshot.model,
                    step: snapshot.step,
                    samples: snapshot.samples,
                    epoch: 0.1,
                    at: snapshot.at,
                    value: 0.9,
                    judged: true,
                })]));
                if part.has(Verb::Tidy) {
                    fs::remove_file(directory.join(&snapshot.file)).unwrap();
                }
                control.send(ToDriver::Evaluated { file: snapshot.file, failure });
            }
            Some(ToMember::Leave) => break,
            other => panic!("expected a snapshot, got {other:?}"),
        }
    }
    control.send(ToDriver::Goodbye);
    control.close(Duration::from_secs(5)).unwrap();
}

fn raise(signal: Signal) {
    kill_process(getpid(), signal).unwrap();
    sleep_for_ever();
}

fn sleep_for_ever() -> ! {
    loop {
        thread::park();
    }
}
