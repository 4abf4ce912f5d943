//! What the supervisor is told, and what it answers.

use crate::ProcessExit;
use crate::{End, LostRank, Update};
use mesh::{Deadlines, Member, ToDriver, ToMember};
use recipe::{Role, Strategy, Target};
use record::{Rank, SnapshotRecord};
use std::time::Duration;

/// What the supervisor goes by.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    /// What each rank is for, by number.
    pub(crate) roles: Vec<Role>,
    /// How they train: it says without how many of them the run goes on.
    pub(crate) strategy: Strategy,
    /// How long to wait for what.
    pub(crate) deadlines: Deadlines,
    /// How long the attempt may take.
    pub(crate) timeout: Option<Duration>,
    /// What the run is after.
    pub(crate) target: Option<Target>,
    /// Whether the evaluator works beside the ranks instead of after them.
    pub(crate) evaluate_at_once: bool,
}

impl Rules {
    /// How long a rank may take to the end of its step, which is where it is told to stop: nobody waits longer for a peer.
    pub(super) fn longest_step(&self) -> Duration {
        self.deadlines.shut_down.max(self.deadlines.peer)
    }

    /// Number of ranks.
    pub(super) fn ranks(&self) -> u32 {
        self.roles.len() as u32
    }

    /// Whether a run that has begun goes on without this rank, too, when it has lost those.
    pub(super) fn spares(&self, rank: Rank, lost: &[Rank]) -> bool {
        let Some(role) = self.roles.get(rank.index()) else { return false };
        let of_role = |rank: &&Rank| self.roles.get(rank.index()) == Some(role);
        let ranks = self.roles.iter().filter(|other| *other == role).count() as u32;
        let lost = lost.iter().filter(of_role).count() as u32;
        lost < self.strategy.spares(*role, ranks)
    }
}

/// Something that happened.
#[derive(Clone, Debug)]
pub(crate) enum Input {
    /// A member said something.
    Message(Member, ToDriver),
    /// A member's process is gone.
    Exited(Member, ProcessExit),
    /// The user wants the run to end at its next step.
    Stop,
    /// The user wants it to end.
    StopNow,
    /// Nothing but time passed.
    Tick,
}

/// Something to do.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Action {
    /// Tell all ranks that the clock of the run starts now.
    Start,
    /// Say this to a member.
    Send(Member, ToMember),
    /// Start the evaluator.
    SpawnEvaluator,
    /// Kill a member's process and all that belong to it.
    Kill(Member),
    /// Delete the file of this snapshot: it will not be looked at again.
    Discard(SnapshotRecord),
    /// Tell this to whoever records the attempt.
    Tell(Update),
    /// Everything is over: nothing else will happen.
    Finish,
}

/// What is to be said about an attempt that is over.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AttemptReport {
    /// How it ended.
    pub(crate) end: End,
    /// Whose logs tell more; the culprit first.
    pub(crate) suspects: Vec<Member>,
    /// One sentence; empty for a run that is done and lost nobody.
    pub(crate) detail: String,
    /// The ranks without which the run went on, in this order.
    pub(crate) lost_ranks: Vec<LostRank>,
}
