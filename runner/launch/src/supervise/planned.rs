//! What the recipe lets go wrong: a rank says so before it happens, and is not blamed for it.

use super::blame::{Cause, Fault};
use super::{Supervisor, nanos};
use recipe::{FaultAction, PlannedFault};
use record::Rank;

impl Supervisor {
    /// A rank is about to be struck as its recipe says.
    pub(super) fn on_struck(&mut self, rank: Rank, fault: PlannedFault) {
        let Some(state) = self.ranks.get_mut(rank.index()) else { return };
        state.happened.push(fault);
        match fault.action {
            FaultAction::Pause { length: Some(length) } => state.excused = self.now + nanos(length),
            FaultAction::Kill | FaultAction::Pause { length: None } => state.struck = Some(fault),
            FaultAction::Slow { .. } => {}
        }
        self.note(fault.struck());
    }

    /// The fault, which is none of the rank's or of its machine's where the recipe let the rank fail.
    pub(super) fn as_ordered(&self, fault: Fault) -> Fault {
        let ordered = |rank: Rank| self.ranks.get(rank.index())?.struck;
        // A rank that reports a reason has failed by itself, even if its fault had begun.
        let by_signal = matches!(
            fault.cause,
            Cause::Exited(_)
                | Cause::Silent(_)
                | Cause::Accused { .. }
                | Cause::NoGoodbye
                | Cause::Missed { .. }
        );
        match fault.culprit.and_then(ordered).filter(|_| by_signal) {
            Some(planned) => Fault { cause: Cause::Ordered(planned), ..fault },
            None => fault,
        }
    }
}
