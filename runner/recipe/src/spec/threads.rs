//! How the cores of the machine are divided among the processes of a run. Decided once for all arms of a condition: how
//! many threads an operation has decides its speed, and the bits of its sums.

use crate::{Access, Cluster, Node, Role};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Who computes with how many threads, and where a model is evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Threads {
    /// Of each worker. A server has one: it runs no model, and its own loops have none beside them.
    pub worker: u32,
    /// Threads of the evaluator.
    pub evaluator: u32,
    /// Whether the evaluator works beside the ranks instead of after them.
    pub evaluate_at_once: bool,
}

/// Threads of a run that was planned before plans divided cores.
impl Default for Threads {
    fn default() -> Self {
        Self { worker: 1, evaluator: 1, evaluate_at_once: false }
    }
}

/// Threads of a server.
const SERVER: u32 = 1;

impl Threads {
    /// Those of a rank.
    pub fn of(&self, role: Role) -> u32 {
        match role {
            Role::Worker => self.worker,
            Role::Server => SERVER,
        }
    }

    /// Divides `cores` among the ranks of `largest`, the run with the most ranks of a condition.
    ///
    /// Each server takes a core, and the workers divide the others evenly, unless `given` says how many threads each
    /// has. The evaluator works at once on cores that are left over, never on one that a rank computes with; only a
    /// run that stops at its target cannot wait, and keeps a core free for it as far as there are enough.
    pub(crate) fn divide(largest: Ranks, cores: u32, stops_at_target: bool, given: Option<u32>) -> Self {
        let Ranks { workers, servers } = largest;
        let cores = cores.max(1);
        let for_ranks = if stops_at_target { cores - 1 } else { cores };
        let worker =
            given.unwrap_or_else(|| for_ranks.saturating_sub(servers * SERVER) / workers.max(1)).max(1);
        let taken = workers.saturating_mul(worker).saturating_add(servers * SERVER);
        let left = cores.saturating_sub(taken);
        let evaluate_at_once = stops_at_target || left > 0;
        let evaluator = if evaluate_at_once { left.max(1) } else { cores };
        Self { worker, evaluator, evaluate_at_once }
    }

    /// Divides the cores of each machine among the ranks of a cluster, the one with the most ranks of a condition. Every worker has
    /// the same number of threads, whatever the machine: the bits of its sums depend on it. `here` are the cores of the driver's machine.
    pub(crate) fn of_cluster(
        cluster: &Cluster,
        here: u32,
        stops_at_target: bool,
        given: Option<u32>,
    ) -> Self {
        let loads = Load::of_nodes(cluster, here);
        let mut whole = match loads.iter().find(|load| load.local) {
            Some(load) => Self::divide(load.ranks, here, stops_at_target, given),
            // No rank disturbs the evaluator.
            None => {
                Self { worker: given.unwrap_or(u32::MAX), evaluator: here.max(1), evaluate_at_once: true }
            }
        };
        for load in loads.iter().filter(|load| !load.local && load.ranks.workers > 0 && given.is_none()) {
            // The evaluator is elsewhere, so that no core is kept free for it.
            let keeps_a_core = false;
            whole.worker = whole.worker.min(Self::divide(load.ranks, load.cores, keeps_a_core, None).worker);
        }
        whole
    }

    /// Those of a job whose machines are not known yet: its cores are those that it asks for, and it evaluates where its first ranks are.
    pub(crate) fn of_job(cluster: &Cluster, stops_at_target: bool, given: Option<u32>) -> Self {
        let worker = given.unwrap_or(1);
        let first = cluster
            .placements
            .iter()
            .filter(|placement| placement.node == 0 && placement.role == Role::Worker);
        let evaluator = if stops_at_target { 1 } else { worker.saturating_mul(first.count() as u32).max(1) };
        Self { worker, evaluator, evaluate_at_once: stops_at_target }
    }

    /// In words: `2 per worker, 4 for evaluation after the run`.
    pub(crate) fn words(&self) -> String {
        let when = if self.evaluate_at_once { "beside the run" } else { "after the run" };
        format!("{} per worker, {} for evaluation {when}", self.worker, self.evaluator)
    }
}

/// The ranks of one machine, and its cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Load {
    pub(crate) ranks: Ranks,
    pub(crate) cores: u32,
    /// Whether it is the driver's own.
    pub(crate) local: bool,
}

impl Load {
    /// That of each machine with ranks, where the driver's own has `here` cores. A machine whose cores are not known has one
    /// for each rank.
    pub(crate) fn of_nodes(cluster: &Cluster, here: u32) -> Vec<Self> {
        let load = |(index, node): (u32, &Node)| {
            let of = |role| {
                let on = cluster
                    .placements
                    .iter()
                    .filter(|placement| placement.node == index && placement.role == role);
                on.count() as u32
            };
            let ranks = Ranks { workers: of(Role::Worker), servers: of(Role::Server) };
            let local = node.access == Access::Local;
            let cores = if local { here } else { node.cores.unwrap_or(node.slots.max(ranks.all())) };
            (ranks.all() > 0).then_some(Self { ranks, cores, local })
        };
        (0..).zip(&cluster.nodes).filter_map(load).collect()
    }
}

/// How many ranks of each kind a run has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ranks {
    pub(crate) workers: u32,
    pub(crate) servers: u32,
}

impl Ranks {
    pub(crate) fn of(cluster: &Cluster) -> Self {
        let workers = cluster.workers();
        Self { workers, servers: cluster.ranks() - workers }
    }

    pub(crate) fn all(self) -> u32 {
        self.workers.saturating_add(self.servers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_shared_out() {
        // workers, servers, cores, stops at its target -> threads of a worker, of the evaluator, beside the ranks
        let table = [
            ((1, 0, 1, false), (1, 1, false)),
            ((1, 0, 2, false), (2, 2, false)),
            ((1, 1, 2, false), (1, 2, false)),
            ((2, 1, 4, false), (1, 1, true)),
            ((2, 2, 8, false), (3, 8, false)),
            ((4, 0, 2, false), (1, 2, false)),
            ((4, 0, 4, false), (1, 4, false)),
            ((4, 1, 4, false), (1, 4, false)),
            ((4, 0, 6, false), (1, 2, true)),
            ((4, 0, 8, false), (2, 8, false)),
            ((4, 0, 8, true), (1, 4, true)),
            ((3, 0, 8, true), (2, 2, true)),
            ((4, 0, 2, true), (1, 1, true)),
            ((1, 9, 4, false), (1, 4, false)),
            ((1, 0, 1, true), (1, 1, true)),
        ];
        for ((workers, servers, cores, stops), (worker, evaluator, evaluate_at_once)) in table {
            let expected = Threads { worker, evaluator, evaluate_at_once };
            let ranks = Ranks { workers, servers };
            let divided = Threads::divide(ranks, cores, stops, None);
            assert_eq!(divided, expected, "{workers} + {servers} ranks, {cores} cores, {stops}");
            // The decided threads divide the cores in the same way when a recipe gives them.
            assert_eq!(Threads::divide(ranks, cores, stops, Some(worker)), expected);
        }
    }

    #[test]
    fn given_threads_leave_what_is_left_to_the_evaluator() {
        let given = |threads| Threads::divide(Ranks { workers: 2, servers: 1 }, 8, false, Some(threads));
        assert_eq!(given(2), Threads { worker: 2, evaluator: 3, evaluate_at_once: true });
        assert_eq!(given(9), Threads { worker: 9, evaluator: 8, evaluate_at_once: false });
    }
}
