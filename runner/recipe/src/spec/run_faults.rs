//! Consequences of the faults of a run: the ranks that it loses, whether it ends by them, and how long it waits.

use crate::spec::lost_with_link::{LostWithLink, UsedLinks};
use crate::{FaultAction, PlannedFault, Role, RunSpec, Whom};
use std::collections::BTreeSet;
use std::time::Duration;

impl RunSpec {
    /// Whether the ranks that the recipe lets fail are more than the strategy can lose, or a link that it drops is one that the strategy
    /// needs: then its runs fail as ordered.
    pub fn ends_by_fault(&self) -> bool {
        let needs_link = self.lost_with_dropped_links().any(|lost| lost == LostWithLink::Run);
        needs_link
            || [Role::Worker, Role::Server].into_iter().any(|role| {
                let placements = self.cluster.placements.iter();
                let ranks = placements.filter(|placement| placement.role == role).count() as u32;
                self.lost_by_fault(role) > self.strategy.dispensable(role, ranks)
            })
    }

    /// Whether a fault is one of those that a run may end by.
    pub(crate) fn may_end_by(&self, fault: &PlannedFault) -> bool {
        fault.action.is_fatal()
            || matches!(
                self.lost_by(fault, &self.used_links()),
                Some(LostWithLink::Run | LostWithLink::Worker(_))
            )
    }

    /// Part of the run that fails with the link that a fault drops; `None` where it is not known to carry messages.
    fn lost_by(&self, fault: &PlannedFault, used: &UsedLinks) -> Option<LostWithLink> {
        let link = fault.link().filter(|link| used.carries(*link) == Some(true))?;
        Some(self.lost_with_link(link))
    }

    /// The same of each fault that drops such a link.
    fn lost_with_dropped_links(&self) -> impl Iterator<Item = LostWithLink> {
        let used = self.used_links();
        self.faults.iter().filter_map(move |fault| self.lost_by(fault, &used))
    }

    /// Whether the recipe lets this rank compute slowly, for the whole run or from a step on to its end. Of ranks that are drawn none
    /// is known to be.
    pub fn computes_slowly_on_purpose(&self, rank: u32) -> bool {
        let of_run =
            self.emulation.slow.iter().any(|slow| slow.whom == Whom::Rank(rank) && slow.compute > 1.0);
        let is_slow = |fault: &PlannedFault| {
            fault.rank == rank && matches!(fault.action, FaultAction::Slow { until: None, .. })
        };
        of_run || self.faults.iter().any(is_slow)
    }

    /// Whether the recipe gives this rank a slow link.
    pub fn has_slow_link_on_purpose(&self, rank: u32) -> bool {
        self.emulation.slow.iter().any(|slow| slow.whom == Whom::Rank(rank) && slow.link > 1.0)
    }

    /// Number of ranks that the recipe lets fail for good, or takes the link to their server from.
    pub(crate) fn lost_by_fault(&self, role: Role) -> u32 {
        let fatal = self.faults.iter().filter(|fault| fault.action.is_fatal()).map(|fault| fault.rank);
        let cut_off = self.lost_with_dropped_links().filter_map(|lost| match lost {
            LostWithLink::Worker(rank) => Some(rank),
            LostWithLink::Link | LostWithLink::Run => None,
        });
        let lost: BTreeSet<u32> = fatal.chain(cut_off).collect();
        let placements = (0_u32..).zip(&self.cluster.placements);
        placements.filter(|(rank, placement)| placement.role == role && lost.contains(rank)).count() as u32
    }

    /// The longest time that ranks are paused for, one after the other.
    pub fn paused(&self) -> Duration {
        let lengths = self.faults.iter().map(|fault| match fault.action {
            FaultAction::Pause { length } => length.unwrap_or_default(),
            FaultAction::Kill | FaultAction::Slow { .. } | FaultAction::DropLink { .. } => Duration::ZERO,
        });
        lengths.fold(Duration::ZERO, Duration::saturating_add)
    }
}
