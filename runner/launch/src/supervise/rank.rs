//! The supervisor's knowledge of one rank.

use super::fault::{Cause, Fault};
use crate::{ProcessExit, Whereabouts};
use mesh::Heartbeat;
use recipe::PlannedFault;
use record::{LostRecord, Nanos, Prepared, Rank, RankEnd};
use std::collections::BTreeSet;

/// The supervisor's knowledge of one rank. Times are on the supervisor's clock.
#[derive(Debug, Default)]
pub(super) struct RankState {
    /// Its data, weights and process, once it is prepared.
    pub(super) prepared: Option<Prepared>,
    /// When its last message arrived; none is required before the run begins.
    pub(super) heard: Option<Nanos>,
    /// Its last reported activity.
    pub(super) heartbeat: Option<Heartbeat>,
    /// When its lanes ended, and how.
    pub(super) ended: Option<(Nanos, RankEnd)>,
    /// When it said goodbye.
    pub(super) goodbye: Option<Nanos>,
    /// When its process exited, and how.
    pub(super) exit: Option<(Nanos, ProcessExit)>,
    /// Whether the driver killed it.
    pub(super) killed: bool,
    /// When the first peer reported it as lost, and that report.
    pub(super) missed: Option<(Nanos, LostRecord)>,
    /// Since when it counts as lost, and why.
    pub(super) lost: Option<(Nanos, Fault)>,
    /// Planned faults that have struck it so far, in that order.
    pub(super) happened: Vec<PlannedFault>,
    /// The fault by which its recipe lets it fail for good, once it has struck.
    pub(super) struck: Option<PlannedFault>,
    /// The peers that it continues without because the recipe took the link with them.
    pub(super) parted: BTreeSet<Rank>,
    /// Until then its recipe lets it be silent.
    pub(super) excused: Nanos,
}

impl RankState {
    /// Whether the run, or only a peer, continues without it.
    pub(super) fn is_given_up(&self) -> bool {
        self.missed.is_some() || self.lost.is_some()
    }

    /// Its last known activity.
    pub(super) fn place(&self) -> Option<Whereabouts> {
        match (&self.ended, &self.heartbeat) {
            (Some((_, RankEnd::Failed { lane, step, phase, .. })), _) => {
                Some(Whereabouts { lane: *lane, step: *step, phase: *phase })
            }
            (_, Some(beat)) => Some(Whereabouts { lane: beat.lane, step: beat.step, phase: beat.phase }),
            _ => None,
        }
    }

    /// How long it has sent nothing although it should have.
    pub(super) fn silence(&self, now: Nanos) -> Nanos {
        match (&self.ended, &self.exit, self.heard) {
            (None, None, Some(heard)) if self.lost.is_none() => now.since(heard.max(self.excused)),
            _ => Nanos(0),
        }
    }

    /// Whether it ended without a fault and said goodbye.
    pub(super) fn left_in_order(&self) -> bool {
        let without_fault = matches!(self.ended, Some((_, RankEnd::Finished | RankEnd::Stopped { .. })));
        without_fault && self.goodbye.is_some()
    }

    /// Whether its process exited in order, or is no longer waited for.
    pub(super) fn is_settled(&self, now: Nanos, patience: Nanos) -> bool {
        match &self.lost {
            None => self.exit.is_some() && self.left_in_order(),
            Some((since, _)) => self.exit.is_some() || now.since(*since) > patience,
        }
    }

    /// Whether it failed, exited without a goodbye or was reported as lost, and no conclusion was drawn yet.
    pub(super) fn is_doubtful(&self) -> bool {
        let ended_badly = matches!(self.ended, Some((_, RankEnd::Failed { .. } | RankEnd::Diverged { .. })));
        let left_badly = self.exit.is_some() && !self.left_in_order();
        let missed = self.missed.is_some() && self.ended.is_none();
        self.lost.is_none() && (ended_badly || left_badly || missed)
    }

    /// Number of the last step that it is known to have finished.
    pub(super) fn last_step(&self) -> u64 {
        match (&self.ended, &self.heartbeat) {
            (Some((_, RankEnd::Stopped { step })), _) => *step,
            (_, Some(beat)) => beat.step.saturating_sub(1),
            _ => 0,
        }
    }
}

/// A difference between prepared ranks: in the data of any two, or in the weights of two that `replicas`, sets of ranks with
/// equal weights, puts together.
pub(super) fn difference(ranks: &[RankState], replicas: &[Vec<Rank>]) -> Option<Cause> {
    let prepared = |rank: Rank| ranks.get(rank.index())?.prepared.as_ref();
    for (rank, other) in
        (0..).map(Rank).zip(ranks).filter_map(|(rank, state)| Some((rank, state.prepared.as_ref()?)))
    {
        let group = replicas.iter().find(|group| group.contains(&rank));
        let replica = group.and_then(|group| group.first().copied()).unwrap_or(rank);
        let Some((first, same)) = prepared(Rank(0)).zip(prepared(replica)) else { continue };
        let facts = [
            ("the number of weights", replica, same.parameters.to_string(), other.parameters.to_string()),
            ("the data", Rank(0), first.data_digest.clone(), other.data_digest.clone()),
            ("the initial weights", replica, same.weights.clone(), other.weights.clone()),
        ];
        if let Some((what, reference, one, another)) =
            facts.into_iter().find(|(_, _, one, another)| one != another)
        {
            return Some(Cause::Differ { what, values: [(reference, short(&one)), (rank, short(&another))] });
        }
    }
    None
}

/// The beginning of a digest, which is enough for people to see a difference.
fn short(digest: &str) -> String {
    digest.chars().take(12).collect()
}

/// `rank 1`, `ranks 1 and 3`, `ranks 0, 1 and 3`.
pub(super) fn list(ranks: &[Rank]) -> String {
    let numbers: Vec<String> = ranks.iter().map(ToString::to_string).collect();
    match numbers.as_slice() {
        [] => "no rank".into(),
        [one] => format!("rank {one}"),
        [most @ .., last] => format!("ranks {} and {last}", most.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prepared(rank: u32, data: &str, weights: &str) -> RankState {
        let prepared = Prepared {
            rank: Rank(rank),
            pid: 1,
            threads: 1,
            training_samples: 10,
            data_digest: data.into(),
            weights: weights.into(),
            parameters: weights.len() as u64,
            resident_bytes: 0,
            replica_group: None,
        };
        RankState { prepared: Some(prepared), ..RankState::default() }
    }

    fn differ(ranks: &[RankState], groups: &[&[u32]]) -> Option<(&'static str, u32, u32)> {
        let groups: Vec<Vec<Rank>> =
            groups.iter().map(|group| group.iter().copied().map(Rank).collect()).collect();
        match difference(ranks, &groups)? {
            Cause::Differ { what, values: [(one, _), (other, _)] } => Some((what, one.0, other.0)),
            _ => None,
        }
    }

    #[test]
    fn only_replicas_must_agree_on_their_weights_and_all_ranks_on_their_data() {
        let halves = [
            prepared(0, "mnist", "left"),
            prepared(1, "mnist", "right"),
            prepared(2, "mnist", "left"),
            prepared(3, "mnist", "right"),
        ];
        assert_eq!(differ(&halves, &[&[0, 2], &[1, 3]]), None);
        assert_eq!(differ(&halves, &[&[0, 1, 2, 3]]), Some(("the number of weights", 0, 1)));
        let one_apart = [prepared(0, "mnist", "left"), prepared(1, "mnist", "lest")];
        assert_eq!(differ(&one_apart, &[&[0, 1]]), Some(("the initial weights", 0, 1)));
        assert_eq!(differ(&one_apart, &[&[0], &[1]]), None);
        let other_data = [prepared(0, "mnist", "left"), prepared(1, "cifar", "left")];
        assert_eq!(differ(&other_data, &[&[0], &[1]]), Some(("the data", 0, 1)));
    }
}
