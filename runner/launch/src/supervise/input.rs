//! What the supervisor is told, and what it answers.

use crate::exit::Exit;
use crate::{End, Update};
use mesh::{Deadlines, Member, ToDriver, ToMember};
use recipe::Target;
use record::SnapshotRecord;
use std::time::Duration;

/// What the supervisor goes by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    /// Number of ranks.
    pub(crate) ranks: u32,
    /// How long to wait for what.
    pub(crate) deadlines: Deadlines,
    /// How long the attempt may take.
    pub(crate) timeout: Option<Duration>,
    /// What the run is after.
    pub(crate) target: Option<Target>,
    /// Whether the evaluator works beside the ranks instead of after them.
    pub(crate) evaluate_at_once: bool,
}

/// Something that happened.
#[derive(Clone, Debug)]
pub(crate) enum Input {
    /// A member said something.
    Message(Member, ToDriver),
    /// A member's process is gone.
    Exited(Member, Exit),
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
pub(crate) struct Judgement {
    /// How it ended.
    pub(crate) end: End,
    /// Whose logs tell more; the culprit first.
    pub(crate) suspects: Vec<Member>,
    /// One sentence; empty for a run that is done.
    pub(crate) detail: String,
}
