//! What a query answers: plain rows, already chosen and thinned, for whoever shows them.
//!
//! Order is explicit everywhere: cells and arms as in the plan, runs by their order in the plan, ranks by
//! number, series by time.

use recipe::{Metric, Plan, Role, RunSpec};
use record::{CodingRecord, EmulationRecord, LaneId, Nanos, Phase, Rank};
use serde::{Deserialize, Serialize};

/// Everything that a report is made from: one sweep.
#[derive(Clone, Debug, Serialize)]
pub struct SweepRows {
    /// The sweep's id.
    pub id: String,
    /// The plan as it was made.
    pub plan: Plan,
    /// SHA-256 of the recipe's text.
    pub recipe_sha256: String,
    /// Path of the recipe as the user typed it.
    pub recipe_path: String,
    /// The command line.
    pub argv: Vec<String>,
    /// Version of the driver.
    pub version: String,
    /// Commit of the folder the recipe lies in, where it lies in a repository, and whether it had changes.
    pub commit: Option<(String, bool)>,
    /// When it began, as seconds since 1970.
    pub started: i64,
    /// The machines that took part.
    pub nodes: Vec<NodeRow>,
    /// The runs in the order of the plan; those never begun have no attempt.
    pub runs: Vec<RunRow>,
}

/// A machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeRow {
    /// Its name in the recipe.
    pub name: String,
    /// Host name.
    pub host: String,
    /// Operating system and kernel.
    pub system: String,
    /// Processor model.
    pub processor: String,
    /// Cores that this process may use.
    pub cores: u32,
    /// Memory, in bytes.
    pub memory: u64,
}

/// How a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunState {
    /// Not begun.
    Pending,
    /// Under way; or its driver was killed.
    Running,
    /// Ended as planned.
    Done,
    /// Ended as planned, but went on without ranks that were lost on the way.
    Degraded,
    /// Its loss or weights stopped being finite: a result.
    Diverged,
    /// It could not go on.
    Failed,
    /// It ran out of time.
    TimedOut,
    /// Stopped by the user.
    Interrupted,
}

impl RunState {
    /// Every state.
    pub const ALL: [Self; 8] = [
        Self::Pending,
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
}

/// One run with its last attempt.
#[derive(Clone, Debug, Serialize)]
pub struct RunRow {
    /// The run's id.
    pub id: String,
    /// Index into [`Plan::runs`].
    pub index: usize,
    /// Index into [`Plan::cells`].
    pub cell: usize,
    /// Which repeat, from 0.
    pub repeat: u32,
    /// Its seed.
    pub seed: u64,
    /// How it stands.
    pub state: RunState,
    /// Whether its numbers were taken from an earlier sweep with the same identity.
    pub reused: bool,
    /// The last attempt.
    pub attempt: Option<AttemptRow>,
}

/// One try at a run.
#[derive(Clone, Debug, Serialize)]
pub struct AttemptRow {
    /// Which try, from 1.
    pub number: u32,
    /// When it began, as seconds since 1970.
    pub started: i64,
    /// The wall time from spawn to the end of everything, evaluation included.
    pub wall: Option<Nanos>,
    /// Why it ended, or is degraded, in a sentence; empty for a run that is done.
    pub detail: String,
    /// The rank to blame, where there is one.
    pub culprit: Option<Rank>,
    /// Last lines of that rank's log.
    pub last_lines: Vec<String>,
    /// From start to the end of the last step, on the clock of the run: the slowest rank.
    pub training: Option<Nanos>,
    /// Median length of the steady steps of the slowest worker; where workers go at their own pace, the time in which
    /// all of them together consume one global batch.
    pub step_time: Option<Nanos>,
    /// Steps of the slowest worker; where workers go at their own pace, the samples of all by the global batch.
    pub steps: u64,
    /// Samples consumed by all ranks together.
    pub samples: u64,
    /// Rounds in which the workers were compared; none where each goes at its own pace. A round is a step, or the steps
    /// up to an exchange and with it.
    pub rounds: u64,
    /// The ranks.
    pub ranks: Vec<RankRow>,
    /// Evaluations of the model that the run is judged by, by time.
    pub metrics: Vec<MetricRow>,
    /// What was measured beside it, on other models and between models, by time.
    pub beside: Vec<MetricRow>,
    /// Mean training loss over the workers at some steps (thinned to at most 500), by step.
    pub losses: Vec<LossRow>,
    /// The final weights' digest, if all ranks that hold the model agree; `Err` lists `rank: digest` lines.
    pub weights: Option<Result<String, Vec<String>>>,
    /// What each rank sent to each other.
    pub links: Vec<LinkRow>,
    /// How fast that moved, in the steps that keep their spans; notes are left out.
    pub transfers: Vec<TransferRow>,
    /// How well each rank kept what it pretends; empty where nothing is pretended.
    pub emulation: Vec<EmulationRecord>,
    /// What coding saved and lost on each lane; empty where nothing was coded.
    pub coding: Vec<CodingRecord>,
    /// How stale the gradients were that servers applied, by server, worker and staleness; empty where no server
    /// applies gradients as they come.
    pub staleness: Vec<StalenessRow>,
    /// Who averaged with whom, by the active rank and its peer; empty where nobody gossips.
    pub averagings: Vec<AveragingRow>,
    /// The ranks without which it went on, in the order in which they were lost.
    pub lost: Vec<LostRow>,
}

/// A rank without which an attempt went on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LostRow {
    /// Which.
    pub rank: Rank,
    /// The step of it that did not come, or in which it was last seen; 0 where neither is known.
    pub step: u64,
    /// When it was missed, on the clock of the run.
    pub at: Nanos,
    /// Why, in a sentence.
    pub reason: String,
}

/// One rank of an attempt.
#[derive(Clone, Debug, Serialize)]
pub struct RankRow {
    /// Its number.
    pub rank: Rank,
    /// What it is for.
    pub role: Role,
    /// Index into [`SweepRows::nodes`].
    pub node: u32,
    /// Threads that its tensor library computed with.
    pub threads: u32,
    /// How it ended.
    pub end: String,
    /// Resident memory when prepared, in bytes.
    pub resident_bytes: u64,
    /// Processor time of recording as a share of the wall time.
    pub recording_share: Option<f64>,
    /// How often and how long its lanes were in each phase; in steady steps only.
    pub phases: Vec<PhaseRow>,
    /// Sum over the compute lane's steady steps of the time during which communication was exposed.
    pub exposed: Nanos,
    /// Sum over the same steps of the time during which communication of the rank's other lanes was hidden.
    pub hidden: Nanos,
    /// The compute lane's steady steps.
    pub steady: Steady,
    /// How it compares with the other workers; of workers with steady steps only, and none in a run that was recorded
    /// before this was kept.
    pub pace: Option<PaceRow>,
    /// Bytes that all lanes sent, encoded.
    pub bytes_out: u64,
    /// Bytes that all lanes received, encoded.
    pub bytes_in: u64,
}

/// The steps of a lane that are taken as its usual ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Steady {
    /// Sum of their lengths.
    pub time: Nanos,
    /// Their number.
    pub steps: u64,
}

/// How a worker compares with the others, in steady steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PaceRow {
    /// Median per step of the time in which its compute lane did not wait.
    pub own: Nanos,
    /// Rounds in which it was the last one: the one with the largest such time.
    pub last: u64,
    /// For how long it made the others wait in these, all together.
    pub imposed: Nanos,
}

/// The time of one lane in one phase.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PhaseRow {
    /// On which lane.
    pub lane: LaneId,
    /// In which phase.
    pub phase: Phase,
    /// Steps in which it occurred.
    pub count: u64,
    /// Sum over these steps.
    pub total: Nanos,
    /// Median per step, over the steps in which it occurred.
    pub p50: Nanos,
    /// 95th percentile per step.
    pub p95: Nanos,
    /// Longest in a step.
    pub max: Nanos,
}

/// One evaluation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MetricRow {
    /// What was measured.
    pub metric: Metric,
    /// On which model, in words.
    pub model: String,
    /// Step of the model.
    pub step: u64,
    /// Samples consumed by all ranks together.
    pub samples: u64,
    /// The same as passes over the training set.
    pub epoch: f64,
    /// When the model was set aside.
    pub at: Nanos,
    /// The value.
    pub value: f64,
}

/// The training loss at one step.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LossRow {
    /// Which step.
    pub step: u64,
    /// Samples consumed by all ranks together.
    pub samples: u64,
    /// End of the step on the slowest rank.
    pub at: Nanos,
    /// Mean over the workers, weighted by their samples.
    pub loss: f64,
}

/// What one rank sent to another.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LinkRow {
    /// The sender.
    pub from: Rank,
    /// The receiver.
    pub to: Rank,
    /// Payload bytes, encoded.
    pub bytes: u64,
    /// Messages.
    pub messages: u64,
}

/// How fast bytes moved from one rank to another, as the receiver saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TransferRow {
    /// The sender.
    pub from: Rank,
    /// The receiver.
    pub to: Rank,
    /// Bytes of messages that it already waited for when they began to come.
    pub bytes: u64,
    /// For how long they came.
    pub time: Nanos,
    /// Bytes of messages whose beginning it did not see.
    pub cut_bytes: u64,
    /// For how long it saw them come, which is no longer than they did.
    pub cut_time: Nanos,
}

/// Gradients of one worker that were equally stale when a server applied them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StalenessRow {
    /// Who applied them.
    pub server: Rank,
    /// Whose they were.
    pub worker: Rank,
    /// Updates between the weights that they were computed with and those that they were applied to.
    pub staleness: u64,
    /// How many.
    pub count: u64,
}

/// How often one rank asked another for the mean of both models.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AveragingRow {
    /// The active rank.
    pub rank: Rank,
    /// The one it asked.
    pub peer: Rank,
    /// How often.
    pub count: u64,
}

/// A stretch of a lane's time, for the timeline.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SpanRow {
    /// Whose.
    pub rank: Rank,
    /// On which lane.
    pub lane: LaneId,
    /// In which step.
    pub step: u64,
    /// Doing what.
    pub phase: Phase,
    /// When it began.
    pub begin: Nanos,
    /// For how long.
    pub length: Nanos,
    /// With whom.
    pub peer: Option<Rank>,
    /// How many bytes moved.
    pub bytes: u64,
}

/// A line of `bakeoff list`.
#[derive(Clone, Debug, Serialize)]
pub struct RunLine {
    /// The run's id.
    pub id: String,
    /// The sweep's id.
    pub sweep: String,
    /// Name of the recipe.
    pub recipe: String,
    /// Name of the arm.
    pub arm: String,
    /// The cell's condition.
    pub condition: String,
    /// Which repeat, from 0.
    pub repeat: u32,
    /// How it stands.
    pub state: RunState,
    /// When its last attempt began, as seconds since 1970.
    pub started: Option<i64>,
    /// Training time.
    pub training: Option<Nanos>,
    /// The last evaluation of the recipe's target metric, else of the test accuracy.
    pub metric: Option<(Metric, f64)>,
    /// What it did.
    pub spec: RunSpec,
}
