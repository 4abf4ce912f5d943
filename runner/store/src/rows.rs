//! The rows that queries return, already selected and thinned for the page and the terminal.
//!
//! Order is explicit everywhere: cells and arms as in the plan, runs by their order in the plan, ranks by
//! number, series by time.

use crate::{Annotations, RankRow};
use recipe::{Metric, Plan, RunSpec};
use record::{CodingRecord, EmulationRecord, HostRecord, LaneId, Nanos, Phase, Rank, ScheduleRecord};
use serde::{Deserialize, Serialize};
use std::ops::Deref;

/// Everything that a report is made from: one sweep.
#[derive(Clone, Debug, Serialize)]
pub struct SweepRows {
    /// ULID of the sweep.
    pub id: String,
    /// The plan of the sweep.
    pub plan: Plan,
    /// SHA-256 of the recipe's text.
    pub recipe_sha256: String,
    /// Path of the recipe as the user typed it.
    pub recipe_path: String,
    /// Command line of the driver, one element for each argument.
    pub argv: Vec<String>,
    /// Version of the driver.
    pub version: String,
    /// Of the repository that the recipe lies in, if any.
    pub commit: Option<Commit>,
    /// Start, in seconds since 1970.
    pub started: i64,
    /// Its tags, its note and its origin.
    pub annotations: Annotations,
    /// The machines of its ranks.
    pub nodes: Vec<NodeRow>,
    /// In the order of the plan; a run that never began has no attempt.
    pub runs: Vec<RunRow>,
}

/// The commit of a recipe's repository.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(String, bool)", into = "(String, bool)")]
pub struct Commit {
    /// In hexadecimal; of joined sweeps, those of all.
    pub hash: String,
    /// Whether files had changed since.
    pub is_changed: bool,
}

impl From<(String, bool)> for Commit {
    fn from(stored: (String, bool)) -> Self {
        Self { hash: stored.0, is_changed: stored.1 }
    }
}

impl From<Commit> for (String, bool) {
    fn from(commit: Commit) -> Self {
        (commit.hash, commit.is_changed)
    }
}

/// A machine on which ranks ran.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeRow {
    /// Its name in the recipe.
    pub name: String,
    /// Host name, as the machine gives it.
    pub host: String,
    /// Operating system and kernel.
    pub system: String,
    /// Model of the processor.
    pub processor: String,
    /// Number of cores that the process may use.
    pub cores: u32,
    /// Main memory in bytes.
    pub memory: u64,
}

/// The state of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunState {
    /// Planned; no attempt has begun.
    Pending,
    /// Never begun, because what its sweep asks was decided without it.
    NotNeeded,
    /// Under way, or its driver was killed.
    Running,
    /// Ended as planned, with all of its ranks.
    Done,
    /// Ended as planned, but lost ranks and continued without them.
    Degraded,
    /// Its loss or weights became infinite or NaN: a result.
    Diverged,
    /// It could not continue.
    Failed,
    /// It ran out of time.
    TimedOut,
    /// Stopped by the user.
    Interrupted,
}

impl RunState {
    /// Every state; [`RunState::named`] searches them.
    pub const ALL: [Self; 9] = [
        Self::Pending,
        Self::NotNeeded,
        Self::Running,
        Self::Done,
        Self::Degraded,
        Self::Diverged,
        Self::Failed,
        Self::TimedOut,
        Self::Interrupted,
    ];

    /// The name in the database and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::NotNeeded => "not-needed",
            Self::Running => "running",
            Self::Done => "done",
            Self::Degraded => "degraded",
            Self::Diverged => "diverged",
            Self::Failed => "failed",
            Self::TimedOut => "timed-out",
            Self::Interrupted => "interrupted",
        }
    }

    /// The state of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }

    /// For people: `failed as ordered` where that is what the recipe asked for.
    pub fn words(self, as_ordered: bool) -> String {
        match self {
            Self::Failed | Self::Degraded if as_ordered => format!("{} as ordered", self.name()),
            _ => self.name().to_owned(),
        }
    }
}

/// One run with its last attempt.
#[derive(Clone, Debug, Serialize)]
pub struct RunRow {
    /// ULID of the run.
    pub id: String,
    /// Position in the plan: index into [`Plan::runs`].
    pub index: usize,
    /// Position of its cell: index into [`Plan::cells`].
    pub cell: usize,
    /// Number of the repeat, from 0.
    pub repeat: u32,
    /// Of everything random in it.
    pub seed: u64,
    /// Interrupted if it was running and its driver is dead.
    pub state: RunState,
    /// Whether its numbers were taken from an earlier sweep with the same identity.
    pub reused: bool,
    /// Last attempt, of a reused run that of its source; `None` if the run never began.
    pub attempt: Option<AttemptRow>,
}

impl RunRow {
    /// Whether it lost ranks, or failed by one, because its recipe asked for it.
    pub fn is_as_ordered(&self) -> bool {
        self.attempt.as_ref().is_some_and(|attempt| attempt.as_ordered)
    }

    /// How it stands, for people: `failed as ordered`.
    pub fn state_words(&self) -> String {
        self.state.words(self.is_as_ordered())
    }
}

/// An attempt at a run.
#[derive(Clone, Debug, Serialize)]
pub struct AttemptRow {
    /// Its number among the attempts of the run, from 1.
    pub number: u32,
    /// Start, in seconds since 1970.
    pub started: i64,
    /// The wall time from spawn to the end of everything, evaluation included.
    pub wall: Option<Nanos>,
    /// The reason for its state, in a sentence; empty if it is done.
    pub detail: String,
    /// The rank to blame, if there is one.
    pub culprit: Option<Rank>,
    /// Last lines of that rank's log.
    pub last_lines: Vec<String>,
    /// Time from the start to the end of the slowest rank's last step.
    pub training: Option<Nanos>,
    /// Median length of the steady steps of the slowest worker; if workers step independently, the time in which all of
    /// them together use one global batch.
    pub step_time: Option<Nanos>,
    /// Time per global batch over all steady steps: the mean length of a step of the slowest worker; if workers step
    /// independently, the global batch divided by the sum over the workers of samples per time. `None` without steady
    /// steps, and for independent workers in runs recorded before it was kept.
    pub mean_step_time: Option<Nanos>,
    /// Steps of the slowest worker; if workers step independently, the samples of all divided by the global batch.
    pub steps: u64,
    /// Of the steps of its compute lanes, every n-th is kept, and the slowest; 1 if each is.
    pub step_stride: u64,
    /// Number of steps of its compute lanes that recorded spans, if only those of a timeline's steps are kept.
    pub traced_steps: Option<u64>,
    /// Samples consumed by all ranks together.
    pub samples: u64,
    /// Rounds in which the workers were compared; 0 if they step independently. A round is a step, or the steps up to and
    /// including an exchange.
    pub rounds: u64,
    /// In the order of their numbers.
    pub ranks: Vec<RankRow>,
    /// Evaluations of the model that the run is judged by, by time.
    pub metrics: Vec<MetricRow>,
    /// Other evaluations, of other models and of the distance between models, by time.
    pub beside: Vec<MetricRow>,
    /// Mean training loss over the workers, at 500 steps at most, by step.
    pub losses: Vec<LossRow>,
    /// Digest of the final weights if all ranks that hold the model agree; otherwise one `rank: digest` line each.
    pub weights: Option<Result<String, Vec<String>>>,
    /// Traffic of each pair of ranks.
    pub links: Vec<LinkRow>,
    /// Throughput of each pair of ranks, from steps whose spans are kept; without messages below 1 KiB.
    pub transfers: Vec<TransferRow>,
    /// Accuracy of emulation on each rank; empty if nothing is emulated.
    pub emulation: Vec<EmulationRecord>,
    /// Bytes and error of compression on each lane; empty without compression.
    pub coding: Vec<CodingRecord>,
    /// Which layers' gradients travelled together; `None` where they travelled whole, and in runs recorded before.
    pub schedule: Option<ScheduleRecord>,
    /// Gradients by server, worker and staleness; empty unless servers apply gradients as they arrive.
    pub staleness: Vec<StalenessRow>,
    /// Averagings of pairs of ranks, by active rank and peer; empty unless the strategy gossips.
    pub averagings: Vec<AveragingRow>,
    /// The ranks that it lost and continued without, in the order of the losses.
    pub lost: Vec<LostRow>,
    /// Whether its recipe let every rank fail that it lost or failed by.
    pub as_ordered: bool,
    /// Readings of its machines while ranks trained, by machine and time; empty in runs recorded before they were taken.
    pub hosts: Vec<HostRecord>,
    /// Its steady steps in blocks of equal length, in order; empty if they are too few, and in runs recorded before blocks were
    /// kept.
    pub blocks: Vec<BlockRow>,
}

/// A block of consecutive steady steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockRow {
    /// Number of its steps: of the slowest worker, or, if workers step independently, of each on average.
    pub steps: u64,
    /// Mean length of a step, or the mean time in which all workers together used one global batch.
    pub length: Nanos,
}

/// A rank that an attempt lost and continued without.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LostRow {
    /// Rank that the attempt lost.
    pub rank: Rank,
    /// Its missing step, or the step in which it was last seen; 0 if neither is known.
    pub step: u64,
    /// When it was declared lost, on the clock of the run.
    pub at: Nanos,
    /// Reason of the loss, in a sentence.
    pub reason: String,
}

/// Value of a metric of one model, at one evaluation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MetricRow {
    /// Quantity that was measured; it decides the unit of `value`.
    pub metric: Metric,
    /// The model, in words: `rank 0`, `server`.
    pub model: String,
    /// Step of the model.
    pub step: u64,
    /// Samples consumed by all ranks together.
    pub samples: u64,
    /// The same in passes over the training set.
    pub epoch: f64,
    /// Time of the snapshot.
    pub at: Nanos,
    /// In the unit of the metric.
    pub value: f64,
}

/// The training loss at one step.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LossRow {
    /// Number of the step, from 1.
    pub step: u64,
    /// Samples consumed by all ranks together.
    pub samples: u64,
    /// End of the step on the slowest rank.
    pub at: Nanos,
    /// Mean over the workers, weighted by their samples.
    pub loss: f64,
}

/// Traffic from one rank to another.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LinkRow {
    /// Rank that sent them.
    pub from: Rank,
    /// Rank that received them.
    pub to: Rank,
    /// Payload in bytes, as encoded for the wire.
    pub bytes: u64,
    /// Each announcement with its chunks counts once.
    pub messages: u64,
}

/// Throughput from one rank to another, as the receiver saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransferRow {
    /// Rank that sent the messages.
    pub from: Rank,
    /// Rank that received the messages, and measured.
    pub to: Rank,
    /// Bytes of messages for which it was already waiting when they began to arrive.
    pub bytes: u64,
    /// Duration of their arrival.
    pub time: Nanos,
    /// Bytes of messages whose beginning it did not see.
    pub cut_bytes: u64,
    /// The part of their duration that it saw: a lower bound.
    pub cut_time: Nanos,
}

/// Gradients of one worker that were equally stale when a server applied them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StalenessRow {
    /// The server that applied them.
    pub server: Rank,
    /// The worker that computed them.
    pub worker: Rank,
    /// Updates between the weights that they were computed with and those that they were applied to.
    pub staleness: u64,
    /// Number of gradients with this staleness.
    pub count: u64,
}

/// Averagings of one rank with another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AveragingRow {
    /// Active rank, which asked for the averagings.
    pub rank: Rank,
    /// Passive rank, which it asked.
    pub peer: Rank,
    /// Number of averagings with these roles.
    pub count: u64,
}

/// A span: the time of a lane in one phase without interruption.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SpanRow {
    /// Rank of the lane.
    pub rank: Rank,
    /// Lane of the rank.
    pub lane: LaneId,
    /// Step of the lane.
    pub step: u64,
    /// Phase of the lane.
    pub phase: Phase,
    /// Begin, on the clock of the run.
    pub begin: Nanos,
    /// Duration of the span.
    pub length: Nanos,
    /// The other rank of a transfer or wait.
    pub peer: Option<Rank>,
    /// Bytes transferred; 0 in phases without a transfer.
    pub bytes: u64,
}

/// A line of `bakeoff list`.
#[derive(Clone, Debug, Serialize)]
pub struct RunLine {
    /// ULID of the run.
    pub id: String,
    /// ULID of its sweep.
    pub sweep: String,
    /// Name of the recipe.
    pub recipe: String,
    /// Name of the arm.
    pub arm: String,
    /// Condition of the run's cell.
    pub condition: String,
    /// Which repeat, from 0.
    pub repeat: u32,
    /// State of the run; interrupted if it was running and its driver is dead.
    pub state: RunState,
    /// Whether it lost ranks, or failed by one, because its recipe asked for it.
    pub as_ordered: bool,
    /// Start of its last attempt, in seconds since 1970.
    pub started: Option<i64>,
    /// Time from the start to the end of the slowest rank's last step, in its last attempt.
    pub training: Option<Nanos>,
    /// The last evaluation of the recipe's target metric, else of the test accuracy.
    pub metric: Option<(Metric, f64)>,
    /// The tags of its sweep.
    pub tags: Vec<String>,
    /// Whether its sweep was imported.
    pub imported: bool,
    /// Whether its numbers were taken from an earlier run.
    pub reused: bool,
}

/// A line of a list with the run's configuration.
#[derive(Clone, Debug, Serialize)]
pub struct RunInFull {
    /// As in the list.
    #[serde(flatten)]
    pub line: RunLine,
    /// Configuration of the run's cell.
    pub spec: RunSpec,
}

impl Deref for RunInFull {
    type Target = RunLine;

    fn deref(&self) -> &RunLine {
        &self.line
    }
}
