//! Entries of a journal: the facts about a sweep that no worker reports. Plain data; the names in JSON are a file
//! format and never change.

use crate::derive::roll_up::Histogram;
use crate::derive::summary::Summary;
use crate::rows::{Commit, LostRow, NodeRow};
use crate::{Driver, RunState};
use recipe::Plan;
use record::{Nanos, Rank};
use serde::{Deserialize, Serialize};

/// A line of a journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Entry {
    /// The first line: the sweep as it began.
    Sweep(Box<SweepEntry>),
    /// The identity of a run ([`recipe::Run::identity`]) became known.
    Identity { run: String, identity: String },
    /// A run took its result from the run `source`.
    Reused { run: String, source: String },
    /// An attempt at a run began, on these machines.
    Attempt { run: String, number: u32, started: i64, nodes: Vec<NodeRow> },
    /// An event of an attempt's history.
    Note { run: String, number: u32, time: i64, state: String, text: String },
    /// An attempt ended, with an event log of `log` bytes.
    AttemptEnd {
        run: String,
        number: u32,
        end: AttemptEnd,
        log: u64,
        /// Its totals, which its log does not tell any more.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        totals: Option<Box<RolledUp>>,
    },
    /// A run was removed with its attempts; it reads as never begun, unless later entries tell of it.
    Pruned { run: String },
    /// The sweep ended. The time is unknown if its driver was killed.
    SweepEnd { end: SweepEnd, time: Option<i64> },
    /// The user gave the sweep a tag.
    Tag { name: String, time: i64 },
    /// The user took a tag from the sweep.
    Untag { name: String, time: i64 },
    /// The user set the note of the sweep; an empty text removes it.
    SweepNote { text: String, time: i64 },
    /// The sweep was made elsewhere, and imported into this store.
    Imported { time: i64 },
    /// A page was made.
    #[serde(rename = "page")]
    Report { selection: String, path: String, sha256: String, created: i64 },
}

impl Entry {
    /// Whether it is what users say of the sweep or do with it, and nothing that was measured.
    pub(crate) fn is_annotation(&self) -> bool {
        match self {
            Self::Tag { .. } | Self::Untag { .. } | Self::SweepNote { .. } | Self::Imported { .. } => true,
            Self::Sweep(_)
            | Self::Identity { .. }
            | Self::Reused { .. }
            | Self::Attempt { .. }
            | Self::Note { .. }
            | Self::AttemptEnd { .. }
            | Self::Pruned { .. }
            | Self::SweepEnd { .. }
            | Self::Report { .. } => false,
        }
    }

    /// Subject of the entry, in words: `the end of the sweep`.
    pub(crate) fn words(&self) -> String {
        match self {
            Self::Sweep(_) => "a second sweep".to_owned(),
            Self::Identity { run, .. } => format!("the identity of run {run}"),
            Self::Reused { run, .. } => format!("the source of run {run}"),
            Self::Attempt { run, number, .. } => format!("the begin of attempt {number} of run {run}"),
            Self::Note { run, number, .. } => format!("a note on attempt {number} of run {run}"),
            Self::AttemptEnd { run, number, .. } => format!("the end of attempt {number} of run {run}"),
            Self::Pruned { run } => format!("the removal of run {run}"),
            Self::SweepEnd { .. } => "the end of the sweep".to_owned(),
            Self::Tag { .. } | Self::Untag { .. } => "a tag".to_owned(),
            Self::SweepNote { .. } => "the note on the sweep".to_owned(),
            Self::Imported { .. } => "the mark of an imported sweep".to_owned(),
            Self::Report { path, .. } => format!("the page {path}"),
        }
    }
}

/// The first evaluation that reached the target in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TargetHit {
    /// Nanoseconds on the clock of the run.
    pub(crate) at: i64,
    /// In global batches: a server's step is one update, a worker's one gradient, so that only samples compare.
    pub(crate) step: i64,
    pub(crate) samples: i64,
    /// Sent by all ranks until then.
    pub(crate) bytes: i64,
}

/// The totals of an attempt of which not all steps are kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct RolledUp {
    pub(crate) summary: Summary,
    pub(crate) hit: Option<TargetHit>,
    pub(crate) histograms: Vec<Histogram>,
    /// Number of steps of the compute lanes that recorded spans, if not all of them are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) recorded_spans: Option<u64>,
}

/// A sweep as its driver began it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SweepEntry {
    pub(crate) sweep: String,
    /// Run ids in the order of the plan.
    pub(crate) runs: Vec<String>,
    pub(crate) recipe_path: String,
    pub(crate) argv: Vec<String>,
    pub(crate) version: String,
    pub(crate) commit: Option<Commit>,
    pub(crate) started: i64,
    pub(crate) driver: Driver,
    pub(crate) plan: Plan,
}

/// How a sweep ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SweepEnd {
    /// Every run has ended, well or not, or is not needed.
    Done,
    /// Some runs were not begun, or were stopped.
    Interrupted,
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AttemptEnd {
    /// The state of the run after it.
    pub state: RunState,
    /// The reason, in a sentence; empty if the run is done.
    pub detail: String,
    /// The rank to blame, if there is one.
    pub culprit: Option<Rank>,
    /// Last lines of that rank's log.
    pub last_lines: Vec<String>,
    /// The wall time from spawn to the end of everything, evaluation included.
    pub wall: Option<Nanos>,
    /// End of the attempt, in seconds since 1970.
    pub ended: i64,
    /// The ranks that it lost and continued without.
    #[serde(default)]
    pub lost: Vec<LostRow>,
}
