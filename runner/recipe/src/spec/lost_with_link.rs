//! Which ranks of a run exchange messages, and what the run loses with the link between two of them.

use crate::{Collective, ExchangeThrough, Graph, ReduceOrder, Role, RunSpec, Schedule, StepPace, Strategy};
use std::cell::OnceCell;
use std::time::Duration;

/// How long a rank waits for a peer from which nothing comes: longer than anything takes that works, apart from what the recipe makes
/// slow.
pub const LONGEST_WAIT: Duration = Duration::from_mins(1);

/// Part of a run that fails with a link on which it depends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LostWithLink {
    /// Nothing else: both ends go on, each without the other.
    Link,
    /// The worker at one end, whose server is at the other.
    Worker(u32),
    /// The run as a whole.
    Run,
}

impl Strategy {
    /// Part of a run that fails with the link between two ranks that exchange messages, each with its role.
    pub fn lost_with_link(&self, ends: [(u32, Role); 2]) -> LostWithLink {
        match (self.kind().profile().pace, ends) {
            (StepPace::Own, [(_, Role::Worker), (_, Role::Worker)]) => LostWithLink::Link,
            (
                StepPace::Own,
                [(worker, Role::Worker), (_, Role::Server)] | [(_, Role::Server), (worker, Role::Worker)],
            ) => LostWithLink::Worker(worker),
            (StepPace::Own, [(_, Role::Server), (_, Role::Server)]) | (StepPace::Common, _) => {
                LostWithLink::Run
            }
        }
    }
}

impl RunSpec {
    /// Part of the run that fails with the link between two of its ranks, if they exchange messages.
    pub(crate) fn lost_with_link(&self, link: [u32; 2]) -> LostWithLink {
        self.strategy.lost_with_link(link.map(|rank| (rank, self.role(rank))))
    }

    /// Its links that carry messages.
    pub fn used_links(&self) -> UsedLinks<'_> {
        UsedLinks { spec: self, graph: OnceCell::new() }
    }

    /// Whether workers agree on a plan during the first steps.
    fn plans_buckets(&self) -> bool {
        match self.communication.schedule {
            Schedule::Merged | Schedule::MergedExact => true,
            Schedule::Single | Schedule::PerLayer | Schedule::Fixed { .. } => false,
        }
    }

    fn role(&self, rank: u32) -> Role {
        self.cluster.placements.get(rank as usize).map_or(Role::Worker, |placement| placement.role)
    }
}

/// The links of a run that carry messages once training has begun.
pub struct UsedLinks<'a> {
    spec: &'a RunSpec,
    /// Of a strategy that gossips, once it is asked for.
    graph: OnceCell<Graph>,
}

impl UsedLinks<'_> {
    fn workers(&self) -> usize {
        self.spec.cluster.workers() as usize
    }

    /// Whether the link between two ranks does; `None` where only the strategy's code knows.
    pub fn carries(&self, link: [u32; 2]) -> Option<bool> {
        let [one, other] = link;
        if one == other {
            return Some(false);
        }
        match link.map(|rank| self.spec.role(rank)) {
            [Role::Worker, Role::Worker] => self.workers_exchange(one as usize, other as usize),
            // Messages between servers all go to one of them.
            [Role::Server, Role::Server] => None,
            // A tree joins the master of synchronous elastic averaging with some of its workers.
            [Role::Worker, Role::Server] | [Role::Server, Role::Worker] => {
                let profile = self.spec.strategy.kind().profile();
                let in_a_tree =
                    profile.exchange == ExchangeThrough::Centre && profile.pace == StepPace::Common;
                (!in_a_tree).then_some(true)
            }
        }
    }

    fn workers_exchange(&self, one: usize, other: usize) -> Option<bool> {
        // The workers meet before they measure, and the first one plans for the others.
        if self.spec.plans_buckets() {
            return None;
        }
        match &self.spec.strategy {
            Strategy::PsSync
            | Strategy::AsyncSgd { .. }
            | Strategy::AsyncMsgd { .. }
            | Strategy::HogwildSgd { .. }
            | Strategy::EasgdOriginal { .. }
            | Strategy::EasgdAsync { .. }
            | Strategy::MeasgdAsync { .. }
            | Strategy::EasgdHogwild { .. }
            | Strategy::Eamsgd { .. } => Some(false),
            // The first worker counts the samples of all.
            Strategy::AdPsgd { .. } if one == 0 || other == 0 => Some(true),
            Strategy::DPsgd { topology, .. } => {
                let graph = self.graph.get_or_init(|| Graph::new(*topology, self.workers()));
                Some(graph.joins(one, other))
            }
            Strategy::AdPsgd { topology, .. } => {
                let graph = self.graph.get_or_init(|| Graph::bipartite(*topology, self.workers()));
                Some(graph.joins(one, other))
            }
            Strategy::DSync
            | Strategy::PipeSgd { .. }
            | Strategy::LocalSgd { .. }
            | Strategy::Slowmo { .. } => self.all_reduce_exchanges(one, other),
            Strategy::EasgdSync { .. } | Strategy::Sgp | Strategy::Gmp { .. } | Strategy::Custom { .. } => {
                None
            }
        }
    }

    /// Whether an all-reduce over all workers sends anything between two of them.
    fn all_reduce_exchanges(&self, one: usize, other: usize) -> Option<bool> {
        let workers = self.workers();
        let apart = one.abs_diff(other);
        let are_neighbours = apart == 1 || apart + 1 == workers;
        match self.spec.communication.collective {
            Collective::AllGather => Some(true),
            Collective::Star => Some(one == 0 || other == 0),
            Collective::Ring if self.spec.communication.reduce_order == ReduceOrder::Rank => Some(true),
            Collective::Ring | Collective::PipelinedRing { .. } => Some(are_neighbours),
            Collective::Tree
            | Collective::RecursiveDoubling
            | Collective::HalvingDoubling
            | Collective::Hierarchical { .. } => None,
        }
    }
}
