//! Ranks that are lost, and without which the others go on.

use super::blame::{Cause, Fault};
use super::rank::RankState;
use super::{Conclusion, DOUBT, Stage, Supervisor};
use crate::Update;
use mesh::Member;
use record::{LostRecord, Rank};

impl Supervisor {
    /// A rank goes on without a peer. Why, that peer's own end may still tell.
    pub(super) fn on_missed(&mut self, missed: &LostRecord) {
        // Ranks that were told to stop leave in any order, and nothing is wrong with that.
        if !self.running() {
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

    /// Goes on, if the conclusion is about a rank that the run can spare; else the conclusion stands.
    pub(super) fn unless_spared(&mut self, conclusion: Conclusion) -> Option<Conclusion> {
        let Conclusion::Failed(fault) = conclusion else { return Some(conclusion) };
        match fault.gone().filter(|rank| self.can_spare(*rank)) {
            Some(rank) => {
                self.lose(rank, fault);
                None
            }
            None => Some(Conclusion::Failed(fault)),
        }
    }

    fn can_spare(&self, rank: Rank) -> bool {
        let lost = self.ranks_where(|rank| rank.lost.is_some());
        let begun = self.started.is_some() && self.running();
        begun && !lost.contains(&rank) && self.rules.spares(rank, &lost)
    }

    /// The run goes on without this rank. What is left of its process must not stay: nobody waits for it any more.
    fn lose(&mut self, rank: Rank, fault: Fault) {
        let state = &mut self.ranks[rank.index()];
        let fault = match fault.cause {
            Cause::Accused { reason, .. } => {
                Fault { culprit: Some(rank), place: state.place(), cause: Cause::Reported(reason) }
            }
            cause => Fault { cause, ..fault },
        };
        let reason = fault.sentence();
        state.lost = Some((self.now, fault));
        let gone = state.exit.is_some();
        self.tell(Update::Lost { rank, reason });
        if !gone {
            self.kill(Member::Rank(rank));
        }
        self.stage = Stage::Running;
        // Whoever else is in doubt has a moment of its own, in which the cause may come to light.
        if self.ranks.iter().any(RankState::is_doubtful) {
            self.doubt(DOUBT);
        }
        self.gather();
        self.hand_over();
    }
}
