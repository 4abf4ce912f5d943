//! The supervisor's rules, its events and its actions.

use crate::{End, LostRank, ProcessExit, Update};
use mesh::{Deadlines, Member, ToDriver, ToMember};
use recipe::{PlannedFault, Role, Strategy, Target};
use record::{Rank, SnapshotRecord};
use std::time::Duration;

/// The rules of an attempt.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    /// Each rank's role, by number.
    pub(crate) roles: Vec<Role>,
    /// Each rank's host by name, where there are several; else empty.
    pub(crate) hosts: Vec<String>,
    /// How they train: it decides how many of them the run may lose.
    pub(crate) strategy: Strategy,
    /// Time limits of waits, with the slowness and pauses that the recipe asks for.
    pub(crate) deadlines: Deadlines,
    /// Limit of the attempt's wall time.
    pub(crate) timeout: Option<Duration>,
    /// The target at which the run stops, if any.
    pub(crate) target: Option<Target>,
    /// Whether the evaluator runs beside the ranks instead of after them.
    pub(crate) evaluate_at_once: bool,
    /// Planned faults of the recipe that are still to come in this attempt.
    pub(crate) faults: Vec<PlannedFault>,
    /// Whether another attempt can continue this one if it ends early.
    pub(crate) continues: bool,
}

impl Rules {
    /// How long a rank may take to the end of its step, where it stops: no wait for a peer is longer.
    pub(super) fn longest_step(&self) -> Duration {
        self.deadlines.shut_down.max(self.deadlines.peer)
    }

    pub(super) fn ranks(&self) -> u32 {
        self.roles.len() as u32
    }

    /// `rank 3`, or `rank 3 on lab2`.
    pub(super) fn rank_in_words(&self, rank: Rank) -> String {
        let host = self.hosts.get(rank.index());
        host.map_or_else(|| format!("rank {rank}"), |host| format!("rank {rank} on {host}"))
    }

    /// Sets of ranks that must begin with equal weights.
    pub(super) fn replica_groups(&self) -> Vec<Vec<Rank>> {
        let workers = self.roles.iter().filter(|role| **role == Role::Worker).count() as u32;
        let groups = self.strategy.replica_groups(self.ranks(), workers).into_iter();
        groups.map(|group| group.into_iter().map(Rank).collect()).collect()
    }

    /// Whether a run that has begun and has lost the ranks `lost` tolerates the loss of `rank`.
    pub(super) fn tolerates_loss_of(&self, rank: Rank, lost: &[Rank]) -> bool {
        let Some(role) = self.roles.get(rank.index()) else { return false };
        let of_role = |rank: &&Rank| self.roles.get(rank.index()) == Some(role);
        let ranks = self.roles.iter().filter(|other| *other == role).count() as u32;
        let lost = lost.iter().filter(of_role).count() as u32;
        lost < self.strategy.dispensable(*role, ranks)
    }
}

/// Event that the supervisor reacts to.
#[derive(Clone, Debug)]
pub(crate) enum Input {
    /// A message of a member.
    Message(Member, ToDriver),
    /// A member's process exited.
    Exited(Member, ProcessExit),
    /// The user asks the run to stop at its next step.
    Stop,
    /// The user asks the run to end at once.
    StopNow,
    /// Nothing but that time passed: deadlines are checked.
    Tick,
}

/// An action for the shell.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Action {
    /// Start the clock of the run on all ranks.
    Start,
    /// Send a message to a member.
    Send(Member, ToMember),
    /// Start the evaluator's process.
    SpawnEvaluator,
    /// Kill a member's process and those that it started.
    Kill(Member),
    /// Delete the file of a snapshot that is no longer needed.
    Discard(SnapshotRecord),
    /// Report to the caller of the attempt.
    Tell(Update),
    /// The attempt is over.
    Finish,
}

/// The report on an attempt that is over.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AttemptReport {
    /// The kind of its end.
    pub(crate) end: End,
    /// The members whose logs may show the cause; the culprit first.
    pub(crate) suspects: Vec<Member>,
    /// One sentence; empty for a run that is done and lost no rank.
    pub(crate) detail: String,
    /// The ranks that the run lost and continued without, in the order of their loss.
    pub(crate) lost_ranks: Vec<LostRank>,
    /// Whether every rank that it lost or failed by is one that its recipe let fail.
    pub(crate) as_ordered: bool,
}
