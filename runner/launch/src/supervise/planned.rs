//! Planned faults of the recipe: a rank reports one before it strikes, and is not blamed for it.

use super::fault::{Cause, Fault};
use super::{Supervisor, nanos};
use recipe::{FaultAction, LostWithLink, PlannedFault, Role, StepPace};
use record::Rank;

impl Supervisor {
    /// A rank is about to be struck as its recipe says.
    pub(super) fn on_struck(&mut self, rank: Rank, fault: PlannedFault) {
        let Some(state) = self.ranks.get_mut(rank.index()) else { return };
        state.happened.push(fault);
        match fault.action {
            FaultAction::Pause { length: Some(length) } => state.excused = self.now + nanos(length),
            FaultAction::Kill | FaultAction::Pause { length: None } => state.struck = Some(fault),
            // No rank fails by it, and who waits in vain says so.
            FaultAction::DropLink { .. } | FaultAction::Slow { .. } => {}
        }
        self.note(fault.struck());
    }

    /// The fault, which is none of the rank's or of its machine's where the recipe let the rank fail or took a link.
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
            None => self.of_a_link(&fault).unwrap_or(fault),
        }
    }

    /// The fault as that of a link that dropped, where a rank waited in vain for one that is alive. Where ranks step together, those that
    /// wait for the ends of the link are as late as they are, and any of them may be the first to complain.
    fn of_a_link(&self, fault: &Fault) -> Option<Fault> {
        let (waiting, ends, reason) = match (&fault.cause, fault.culprit) {
            (Cause::Accused { by, reason }, Some(culprit)) => (*by, [*by, culprit], reason),
            (Cause::Missed { by, reason }, Some(culprit)) => (culprit, [*by, culprit], reason),
            _ => return None,
        };
        let links = || self.dropped_links().filter_map(|planned| Some((planned, planned.link()?.map(Rank))));
        let exact = |(_, link): &(PlannedFault, [Rank; 2])| ends.iter().all(|end| link.contains(end));
        let together = self.rules.strategy.kind().profile().pace == StepPace::Common;
        let is_felt = |(planned, _): &(PlannedFault, [Rank; 2])| together && !self.is_passed(*planned);
        let (planned, _) = links().find(exact).or_else(|| links().find(is_felt))?;
        let culprit = Some(Rank(planned.rank));
        let place = self.ranks.get(waiting.index()).and_then(super::rank::RankState::place);
        Some(Fault { culprit, place, cause: Cause::Unlinked { planned, waiting, reason: reason.clone() } })
    }

    /// Whether both ends of a link have trained on after the first exchange without it: then no rank waits because of it.
    fn is_passed(&self, planned: PlannedFault) -> bool {
        let ahead = self.rules.strategy.period() + self.rules.strategy.depth();
        let beyond = |rank: u32| {
            let place = self.ranks.get(rank as usize).and_then(super::rank::RankState::place);
            place.is_some_and(|place| place.step > planned.step + ahead)
        };
        planned.link().is_some_and(|ends| ends.into_iter().all(beyond))
    }

    /// Notes that a rank continues without a peer, where that is all that a link which dropped has cost. Then none of the two is lost.
    pub(super) fn parts(&mut self, rank: Rank, peer: Rank) -> bool {
        let link = [rank, peer];
        let is_between = |planned: PlannedFault| {
            planned.link().is_some_and(|ends| link.iter().all(|rank| ends.contains(&rank.0)))
        };
        let dropped = self.dropped_links().any(is_between);
        let role = |rank: Rank| self.rules.roles.get(rank.index()).copied().unwrap_or(Role::Worker);
        let lost = self.rules.strategy.lost_with_link(link.map(|rank| (rank.0, role(rank))));
        let parts = dropped && lost == LostWithLink::Link;
        if let Some(state) = self.ranks.get_mut(rank.index()).filter(|_| parts) {
            state.parted.insert(peer);
        }
        parts
    }

    /// The links that have dropped so far.
    fn dropped_links(&self) -> impl Iterator<Item = PlannedFault> {
        let happened = self.ranks.iter().flat_map(|rank| &rank.happened).copied();
        happened.filter(|planned| planned.link().is_some())
    }
}
