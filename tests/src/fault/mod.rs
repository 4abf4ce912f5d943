//! Faults that real runs must survive, each at a moment of its life, and what has to hold afterwards.

mod aftermath;
mod disk;
mod injection;

pub use aftermath::FaultAftermath;
pub use disk::can_mount;

use crate::Sketch;
use recipe::{Family, StepPace, StrategyKind};
use std::fmt;
use std::time::Duration;
use strategies::rng::mix;

/// A fault of a process, or of the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessFault {
    /// A rank's process is killed.
    Kill,
    /// A rank's process is stopped, and stays so.
    Stop,
    /// The driver is killed.
    DriverKill,
    /// The disk that the store lies on is full from then on.
    FullDisk,
}

/// When it goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// The processes start, read data, meet.
    StartUp,
    /// All ranks are prepared, and none has ended a step.
    FirstStep,
    /// Steps follow one another.
    MidRun,
    /// A snapshot is being written.
    Snapshot,
    /// The last model is there: ranks send their last messages, and leave.
    ShutDown,
}

/// How a run goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    /// The fault that is injected.
    pub fault: ProcessFault,
    /// The moment that is waited for.
    pub moment: Moment,
    /// Kind of the strategy, as a recipe names it.
    pub strategy: &'static str,
    /// The rank that is hit, if a rank is; its log also shows the moment of start-up.
    pub rank: u32,
    /// Time from the beginning of the moment to the fault.
    pub delay: Duration,
}

impl ProcessFault {
    /// Every fault, in the order in which they take turns.
    pub const ALL: [Self; 4] = [Self::Kill, Self::Stop, Self::DriverKill, Self::FullDisk];
}

impl Moment {
    /// All of them, in the order of a run.
    pub const ALL: [Self; 5] = [Self::StartUp, Self::FirstStep, Self::MidRun, Self::Snapshot, Self::ShutDown];
}

impl fmt::Display for ProcessFault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Kill => "kill -9",
            Self::Stop => "SIGSTOP",
            Self::DriverKill => "driver kill -9",
            Self::FullDisk => "full disk",
        })
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::StartUp => "start-up",
            Self::FirstStep => "first step",
            Self::MidRun => "mid-run",
            Self::Snapshot => "snapshot",
            Self::ShutDown => "shut-down",
        })
    }
}

impl fmt::Display for Case {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { fault, moment, strategy, rank, delay } = self;
        write!(out, "{fault} at {moment} of {strategy}, rank {rank}, {delay:.0?} later")
    }
}

/// The strategies of which every fault at every moment is tried.
pub const STRATEGIES: [&str; 2] = ["ps-sync", "d-sync"];
/// The strategies of which faults are drawn.
pub const DRAWN_STRATEGIES: [&str; 5] = ["ps-sync", "d-sync", "pipe-sgd", "easgd-async", "ad-psgd"];

/// The longest delay after the beginning of a moment, in microseconds.
const LONGEST_DELAY: u64 = 60_000;

impl Case {
    /// A case whose fault comes as soon as its moment has begun.
    pub fn new(fault: ProcessFault, moment: Moment, strategy: &'static str, rank: u32) -> Self {
        Self { fault, moment, strategy, rank, delay: Duration::ZERO }
    }

    /// The case with this number among those of a seed: the kinds come in turn, so that a
    /// round of cases has all of them; rank and delay are drawn.
    pub fn random(seed: u64, number: u64) -> Self {
        let mut left = number;
        let mut turn = |of: usize| {
            let place = left % of as u64;
            left /= of as u64;
            place as usize
        };
        let fault = ProcessFault::ALL[turn(4)];
        let moment = Moment::ALL[turn(5)];
        let strategy = DRAWN_STRATEGIES[turn(5)];
        let ranks = u64::from(ranks(strategy));
        let rank = (mix(seed, 2 * number) % ranks) as u32;
        let delay = Duration::from_micros(mix(seed, 2 * number + 1) % LONGEST_DELAY);
        Self { fault, moment, strategy, rank, delay }
    }

    /// Makes a run, lets it go wrong, and examines the state after it.
    pub fn play(self) -> anyhow::Result<FaultAftermath> {
        aftermath::play(self)
    }

    /// Whether the run continues without the rank: a worker, once all are prepared, where workers step by themselves.
    fn is_survived(self) -> bool {
        let alone = self.workers_step_alone();
        let of_rank = matches!(self.fault, ProcessFault::Kill | ProcessFault::Stop);
        alone && of_rank && self.rank < WORKERS && self.moment != Moment::StartUp
    }

    fn workers_step_alone(self) -> bool {
        StrategyKind::named(self.strategy).is_some_and(|kind| kind.profile().pace == StepPace::Own)
    }

    /// The recipe of the run that goes wrong: long steps if the first one is the target, a snapshot in every
    /// step if a snapshot is the target, few steps if the end is.
    fn recipe(self) -> String {
        let (samples, batch) = if self.moment == Moment::FirstStep { (4000, 4000) } else { (500, 50) };
        let steps = match self.moment {
            Moment::ShutDown => 20,
            // Room for all its models is asked for beforehand, and a disk that fills up is small.
            Moment::Snapshot if self.fault == ProcessFault::FullDisk => {
                // Where workers step by themselves each of them has models of its own.
                if self.workers_step_alone() { 20 } else { 60 }
            }
            Moment::Snapshot => 200,
            // A run that survives has to end by itself, and not before its fault.
            Moment::FirstStep if self.is_survived() => 40,
            Moment::MidRun if self.is_survived() => 1_000,
            _ => 1_000_000,
        };
        let evaluate = if self.moment == Moment::Snapshot { 1 } else { steps };
        let perceptron = Sketch::perceptron("fault", self.strategy, steps);
        let sketch = Sketch { samples, batch, evaluate, ..perceptron }.to_string();
        // One strategy goes through sockets and the other through shared memory.
        let transport = if self.strategy == "d-sync" { "shared-memory" } else { "zeromq" };
        format!("{sketch}[communication]\ntransport = \"{transport}\"\n")
    }
}

/// Workers of every run.
const WORKERS: u32 = 2;

/// Ranks of a run of two workers.
fn ranks(strategy: &str) -> u32 {
    // With a server.
    if matches!(strategy, "ps-sync" | "easgd-async") { WORKERS + 1 } else { WORKERS }
}
