//! Faults that a recipe asks for: ranks that are killed, paused or slowed down at a step, and links between them that
//! carry nothing from a step on.

use crate::spec::family::family;
use crate::spec::lost_with_link::{LostWithLink, UsedLinks};
use crate::{Role, RunSpec, Whom};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::time::Duration;

family! {
    /// The faults that a recipe can name.
    pub enum FaultKind {
        Kill = "kill": "Its process is killed (SIGKILL).",
        Pause = "pause": "Its process is stopped (SIGSTOP), and continues (SIGCONT) after `for`; without `for` it never does.",
        Slow = "slow": "Its computing takes `compute` times as long, until the step `until` or to the end.",
        DropLink = "drop-link": "Messages between it and the rank `peer` vanish, in both directions and for good; both stay connected \
            with the driver.",
    }
}

/// A fault of one rank, and the step at which it strikes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PlannedFault {
    /// The rank, from 0.
    pub rank: u32,
    /// At the beginning of this step of the rank, from 1.
    pub step: u64,
    /// Effect of the fault on the rank.
    pub action: FaultAction,
}

/// Effect of a fault on a rank from a step on.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum FaultAction {
    /// Its process is killed.
    Kill,
    /// Its process is stopped.
    Pause {
        /// For how long; `None` for good.
        length: Option<Duration>,
    },
    /// Its computing is slow from this step on.
    Slow {
        /// Factor by which the time of every compute phase is multiplied.
        compute: f64,
        /// The first step that is as fast as before; `None` if there is none.
        until: Option<u64>,
    },
    /// Nothing that the rank and its peer send each other arrives from then on.
    DropLink {
        /// The rank at the other end of the link.
        peer: u32,
    },
}

impl FaultAction {
    /// Which kind it is.
    pub fn kind(self) -> FaultKind {
        match self {
            Self::Kill => FaultKind::Kill,
            Self::Pause { .. } => FaultKind::Pause,
            Self::Slow { .. } => FaultKind::Slow,
            Self::DropLink { .. } => FaultKind::DropLink,
        }
    }

    /// Whether the run has lost the rank from then on.
    pub fn is_fatal(self) -> bool {
        match self {
            Self::Kill | Self::Pause { length: None } => true,
            Self::Pause { length: Some(_) } | Self::Slow { .. } | Self::DropLink { .. } => false,
        }
    }

    /// The rank at the other end of the link that it drops.
    pub fn unlinked(self) -> Option<u32> {
        match self {
            Self::DropLink { peer } => Some(peer),
            Self::Kill | Self::Pause { .. } | Self::Slow { .. } => None,
        }
    }

    /// The action in the past tense, without rank and step: `was killed`.
    fn past(self) -> String {
        match self {
            Self::Kill => "was killed".to_owned(),
            Self::Pause { length: None } => "was paused for good".to_owned(),
            Self::Pause { length: Some(length) } => format!("was paused for {length:?}"),
            Self::Slow { compute, .. } => format!("was slowed down by {compute}"),
            Self::DropLink { peer } => format!("lost its link with rank {peer}"),
        }
    }
}

impl PlannedFault {
    /// Factor of the time that a step's computing takes; 1 where the fault does not slow it down.
    pub fn slowdown(&self, step: u64) -> f64 {
        match self.action {
            FaultAction::Slow { compute, until }
                if step >= self.step && until.is_none_or(|end| step < end) =>
            {
                compute
            }
            FaultAction::Slow { .. }
            | FaultAction::Kill
            | FaultAction::Pause { .. }
            | FaultAction::DropLink { .. } => 1.0,
        }
    }

    /// The ranks at the ends of the link that it drops.
    pub fn link(&self) -> Option<[u32; 2]> {
        self.action.unlinked().map(|peer| [self.rank, peer])
    }

    /// Sentence on a fault that has struck: `rank 2 was killed at the beginning of step 40, as the recipe says`.
    pub fn struck(&self) -> String {
        let Self { rank, step, action } = self;
        format!("rank {rank} {} at the beginning of step {step}, as the recipe says", action.past())
    }
}

impl std::fmt::Display for PlannedFault {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { rank, step, action } = self;
        match action {
            FaultAction::Kill => write!(out, "rank {rank} is killed at the beginning of its step {step}"),
            FaultAction::Pause { length: None } => {
                write!(out, "rank {rank} is paused for good at the beginning of its step {step}")
            }
            FaultAction::Pause { length: Some(length) } => {
                write!(out, "rank {rank} is paused for {length:?} at the beginning of its step {step}")
            }
            FaultAction::Slow { compute, until } => {
                write!(out, "rank {rank}: computing takes {compute} times as long from its step {step} on")?;
                until.map_or(Ok(()), |until| write!(out, " until step {until}"))
            }
            FaultAction::DropLink { peer } => {
                write!(out, "rank {rank} loses its link with rank {peer} at the beginning of its step {step}")
            }
        }
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_wrong_is_said_before_and_after() {
        let fault = |action| PlannedFault { rank: 2, step: 40, action };
        let two = Some(Duration::from_secs(2));
        let cases = [
            (FaultAction::Kill, "is killed at", "was killed at"),
            (FaultAction::Pause { length: two }, "is paused for 2s at", "was paused for 2s at"),
            (FaultAction::Pause { length: None }, "is paused for good at", "was paused for good at"),
            (
                FaultAction::DropLink { peer: 0 },
                "loses its link with rank 0 at",
                "lost its link with rank 0 at",
            ),
        ];
        for (action, before, after) in cases {
            assert_eq!(fault(action).to_string(), format!("rank 2 {before} the beginning of its step 40"));
            let words = format!("rank 2 {after} the beginning of step 40, as the recipe says");
            assert_eq!(fault(action).struck(), words);
        }
        let slow = fault(FaultAction::Slow { compute: 2.5, until: Some(60) });
        assert_eq!(
            slow.to_string(),
            "rank 2: computing takes 2.5 times as long from its step 40 on until step 60"
        );
    }

    #[test]
    fn a_rank_is_slow_from_one_step_to_another() {
        let slow =
            |until| PlannedFault { rank: 0, step: 4, action: FaultAction::Slow { compute: 3.0, until } };
        let factors = |until| -> Vec<u32> { (3..=6).map(|step| slow(until).slowdown(step) as u32).collect() };
        assert_eq!(factors(Some(6)), [1, 3, 3, 1]);
        assert_eq!(factors(None), [1, 3, 3, 3]);
        let killed = PlannedFault { rank: 0, step: 4, action: FaultAction::Kill };
        assert!((killed.slowdown(5) - 1.0).abs() < f64::EPSILON);
    }
}
