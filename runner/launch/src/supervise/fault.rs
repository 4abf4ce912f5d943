//! A fault that ends an attempt, with its culprit and its cause.

use crate::{ProcessExit, Whereabouts};
use recipe::PlannedFault;
use record::{Nanos, Rank};

/// A fault and its culprit.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Fault {
    /// The rank to blame, if any.
    pub(super) culprit: Option<Rank>,
    /// That rank's last known activity.
    pub(super) place: Option<Whereabouts>,
    pub(super) cause: Cause,
}

/// The cause of a fault.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Cause {
    /// The culprit's process exited without a message.
    Exited(ProcessExit),
    /// The culprit sent nothing for this long.
    Silent(Nanos),
    /// The culprit reported the reason.
    Reported(String),
    /// The culprit is alive, but rank `by` waited for it without success.
    Accused { by: Rank, reason: String },
    /// The culprit ended, but never said goodbye.
    NoGoodbye,
    /// Rank `by` continues without the culprit.
    Missed { by: Rank, reason: String },
    /// The culprit was let fail by the recipe.
    Ordered(PlannedFault),
    /// A rank waited in vain over a link that the recipe let drop. `waiting` cannot go on; no rank is to blame.
    Unlinked { planned: PlannedFault, waiting: Rank, reason: String },
    /// The culprit stopped without being asked to.
    Unbidden,
    /// `missing` were not ready in time. `mute` is set if exactly one of them never sent a message.
    NotReady { missing: Vec<Rank>, mute: Option<Rank>, waited: Nanos },
    /// Two ranks differ in what must be equal on all.
    Differ { what: &'static str, values: [(Rank, String); 2] },
    /// The evaluator's fault, in words.
    Evaluator(String),
    /// The evaluator's process exited before it was dismissed.
    EvaluatorExited(ProcessExit),
}
