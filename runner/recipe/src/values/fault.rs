//! An entry of `[[faults]]`: what goes wrong, with whom, and when.

use crate::text::source::Span;
use crate::{Cluster, FaultAction, PlannedFault};

/// A fault and where it is written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FaultSetting {
    pub(crate) whom: Stricken,
    pub(crate) step: u64,
    pub(crate) action: FaultAction,
    pub(crate) span: Span,
}

/// Whom a fault strikes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Stricken {
    Rank(u32),
    /// All ranks of a machine.
    Host(String),
}

impl FaultSetting {
    /// Faults that the entry means in a cluster, one for each rank; none where there is no such rank.
    pub(crate) fn among(&self, cluster: &Cluster) -> Vec<PlannedFault> {
        let Self { step, action, .. } = *self;
        let placements = (0_u32..).zip(&cluster.placements);
        let is_meant = |node: u32, rank: u32| match &self.whom {
            Stricken::Rank(meant) => *meant == rank,
            Stricken::Host(host) => {
                cluster.nodes.get(node as usize).is_some_and(|machine| machine.name == *host)
            }
        };
        let meant = placements.filter(|(rank, placement)| is_meant(placement.node, *rank));
        meant.map(|(rank, _)| PlannedFault { rank, step, action }).collect()
    }

    /// In a few letters, for labels: `kill-rank2@40`.
    pub(crate) fn label(&self) -> String {
        let whom = match &self.whom {
            Stricken::Rank(rank) => format!("rank{rank}"),
            Stricken::Host(host) => host.clone(),
        };
        let step = self.step;
        match self.action {
            FaultAction::Kill => format!("kill-{whom}@{step}"),
            FaultAction::Pause { length: None } => format!("pause-{whom}@{step}"),
            FaultAction::Pause { length: Some(length) } => format!("pause-{whom}@{step}:{length:?}"),
            FaultAction::Slow { compute, until: None } => format!("slow-{whom}@{step}:compute*{compute}"),
            FaultAction::Slow { compute, until: Some(until) } => {
                format!("slow-{whom}@{step}-{until}:compute*{compute}")
            }
            FaultAction::DropLink { peer } => format!("drop-link-{whom}-rank{peer}@{step}"),
        }
    }
}
