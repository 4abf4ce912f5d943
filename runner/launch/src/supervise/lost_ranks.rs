//! Lost ranks, without which the others continue.

use super::fault::{Cause, Fault};
use super::rank::RankState;
use super::{Conclusion, DOUBT, Stage, Supervisor};
use crate::Update;
use mesh::Member;
use record::{LostRecord, Rank};

impl Supervisor {
    /// A rank continues without a peer, whose own end may still show the cause.
    pub(super) fn on_missed(&mut self, missed: &LostRecord) {
        // Ranks that were asked to stop exit in any order, which is no fault.
        if !self.running() {
            return;
        }
        if self.parts(missed.rank, missed.peer) {
            return;
        }
        let Some(state) = self.ranks.get_mut(missed.peer.index()) else { return };
        state.missed.get_or_insert((self.now, missed.clone()));
        if state.is_doubtful() {
            self.doubt(DOUBT);
        }
        self.gather();
        self.hand_over();
    }

    /// Loses the rank if the run tolerates that and returns nothing; else returns the conclusion.
    pub(super) fn unless_tolerated(&mut self, conclusion: Conclusion) -> Option<Conclusion> {
        let Conclusion::Failed(fault) = conclusion else { return Some(conclusion) };
        let fault = self.as_ordered(fault);
        match fault.gone().filter(|rank| self.can_lose(*rank)) {
            Some(rank) => {
                self.lose(rank, fault);
                None
            }
            None => Some(Conclusion::Failed(fault)),
        }
    }

    fn can_lose(&self, rank: Rank) -> bool {
        let lost = self.ranks_where(|rank| rank.lost.is_some());
        let begun = self.started.is_some() && self.running();
        begun && !lost.contains(&rank) && self.rules.tolerates_loss_of(rank, &lost)
    }

    /// The run continues without this rank. The rest of its process is killed, because its exit is no longer waited for.
    fn lose(&mut self, rank: Rank, fault: Fault) {
        let state = &mut self.ranks[rank.index()];
        let fault = match fault.cause {
            Cause::Accused { reason, .. } => {
                Fault { culprit: Some(rank), place: state.place(), cause: Cause::Reported(reason) }
            }
            cause @ Cause::Unlinked { .. } => Fault { culprit: Some(rank), place: fault.place, cause },
            cause => Fault { cause, ..fault },
        };
        let reason = fault.sentence(&self.rules);
        state.lost = Some((self.now, fault));
        let gone = state.exit.is_some();
        self.tell(Update::Lost { rank, reason });
        if !gone {
            self.kill(Member::Rank(rank));
        }
        self.stage = Stage::Running;
        // Each other rank in doubt gets its own time for evidence.
        if self.ranks.iter().any(RankState::is_doubtful) {
            self.doubt(DOUBT);
        }
        self.gather();
        self.hand_over();
    }
}
