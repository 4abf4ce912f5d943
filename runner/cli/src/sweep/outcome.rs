//! How an attempt ended, in the store's words.

use crate::output::human;
use launch::{End, FaultOrigin, LaunchError, LostRank, Outcome};
use recipe::Source;
use record::Nanos;
use std::time::Instant;
use store::{AttemptEnd, LostRow, RunState};

/// How an attempt ended.
pub(super) struct Attempted {
    pub(super) end: AttemptEnd,
    /// Whether another attempt may do better.
    pub(super) may_do_better: bool,
    /// Whether it lost ranks, or failed by one, because its recipe asked for it.
    pub(super) as_ordered: bool,
    /// Whether it was left under way, in a queue.
    pub(super) is_left: bool,
    /// Whether its machines are gone, so that no further run can be made.
    pub(super) is_the_last: bool,
}

/// Whether an attempt failed by a fault that is not the run's own.
pub(crate) fn is_of_the_infrastructure(outcome: &Result<Outcome, LaunchError>) -> bool {
    let origin = match outcome {
        Ok(Outcome { end: End::Failed { origin, .. }, .. }) => Some(*origin),
        Ok(_) => None,
        Err(error) => Some(error.origin()),
    };
    origin == Some(FaultOrigin::Infrastructure)
}

/// Marks a run whose records are incomplete as failed.
pub(super) fn lost(end: &mut AttemptEnd, why: &str) {
    let before = if end.detail.is_empty() { String::new() } else { format!("; {}", end.detail) };
    end.state = RunState::Failed;
    end.detail = format!("the run's reports could not be kept: {why}{before}");
}

/// Why the data on this machine is not what the sweep was planned with; `None` where it is. Ranks compare their data with each
/// other only, and the evaluator reads its own later.
pub(crate) async fn changed_data(source: &Source, planned: &str) -> Option<String> {
    let folder = source.path()?.display().to_string();
    let source = source.clone();
    let found = tokio::task::spawn_blocking(move || launch::data_digest(&source)).await.ok()?;
    match found {
        Ok(found) if found == planned => None,
        Ok(_) => Some(format!(
            "the data in {folder} changed since the sweep was planned; run the same command again to train on the new data"
        )),
        Err(error) => Some(format!("the data of the run is gone: {error}")),
    }
}

/// Marks a run whose data changed as failed: it is not known what each of its ranks has read.
pub(crate) fn changed(end: &mut AttemptEnd, why: &str) {
    if matches!(end.state, RunState::Done | RunState::Degraded | RunState::Diverged) {
        end.state = RunState::Failed;
        why.clone_into(&mut end.detail);
    }
}

/// Marks a run as interrupted that has lost its machines because the allocation of this process has ended.
pub(super) fn without_machines(end: &mut AttemptEnd, allocation: &str) {
    end.state = RunState::Interrupted;
    end.detail = format!(
        "the allocation {allocation} has ended; the same command in another one continues: {}",
        end.detail
    );
}

pub(crate) fn ended(outcome: Result<Outcome, LaunchError>, begun: Instant) -> AttemptEnd {
    let ended = human::now();
    match outcome {
        Ok(outcome) => AttemptEnd {
            state: match outcome.end {
                End::Done | End::TargetReached { .. } if outcome.lost_ranks.is_empty() => RunState::Done,
                End::Done | End::TargetReached { .. } => RunState::Degraded,
                End::Diverged { .. } => RunState::Diverged,
                End::Failed { .. } => RunState::Failed,
                End::TimedOut { .. } => RunState::TimedOut,
                End::Interrupted { .. } => RunState::Interrupted,
            },
            detail: outcome.detail,
            culprit: outcome.culprit,
            last_lines: outcome.last_lines,
            wall: Some(outcome.wall),
            ended,
            lost: outcome.lost_ranks.into_iter().map(row).collect(),
        },
        Err(error) => AttemptEnd {
            state: RunState::Failed,
            detail: error.to_string(),
            culprit: None,
            last_lines: Vec::new(),
            wall: Some(Nanos(u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX))),
            ended,
            lost: Vec::new(),
        },
    }
}

fn row(lost: LostRank) -> LostRow {
    let LostRank { rank, step, at, reason } = lost;
    LostRow { rank, step, at, reason }
}
