//! The roles of methods that gossip.

use super::Blueprint;
use super::roles::trainer;
use crate::algorithm::{ad_psgd, d_psgd, sgp};
use crate::gossip::{EvaluationSnapshots, Local, Rounds, SampleCount};
use crate::runtime::Runtime;
use crate::strategy::{Evaluated, Roles, Service};
use crate::{GroupRank, Handoff};
use recipe::{Averaging, Graph, MixOrder, Topology};
use record::Rank;

impl Blueprint {
    /// A worker that averages with its neighbours in every step, on a lane of its own.
    pub(super) fn mixing(
        &self,
        rank: Rank,
        runtime: &dyn Runtime,
        topology: Topology,
        order: MixOrder,
    ) -> Roles {
        let weights = row(self.graph.get_or_init(|| Graph::new(topology, self.trainers.len())), rank);
        let models = Handoff::new(runtime.bell(format!("models of rank {rank}")));
        let worker = d_psgd::Worker::new(order, models.clone());
        let mixer = d_psgd::Mixer::new(weights, models);
        Roles { services: vec![Box::new(mixer)], ..trainer(worker, Some(self.averaged(rank))) }
    }

    /// A worker that pushes its model along the edges of a graph.
    pub(super) fn pushing(&self, rank: Rank) -> Roles {
        trainer(sgp::Sgp::new(Rounds::exponential(self.trainers.len())), Some(self.averaged(rank)))
    }

    fn averaged(&self, rank: Rank) -> Evaluated {
        Evaluated::averaged(rank, self.trainers.len())
    }

    /// The lanes of a worker that averages in pairs: an active one has one that asks, a passive one has one for each
    /// neighbour that may ask.
    pub(super) fn pairs(
        &self,
        rank: Rank,
        runtime: &dyn Runtime,
        topology: Topology,
        averaging: Averaging,
    ) -> Roles {
        let graph = self.graph.get_or_init(|| Graph::bipartite(topology, self.trainers.len()));
        let neighbours: Vec<GroupRank> = graph.neighbours(rank.index()).map(GroupRank).collect();
        let n = self.parameter_count;
        let active = rank.index().is_multiple_of(2);
        let lanes = if active { neighbours.len().min(1) } else { neighbours.len() };
        let local = Local::new(graph.ranks(), lanes, runtime.bell(format!("model of rank {rank}")));
        let services: Vec<Box<dyn Service>> = if active && lanes > 0 {
            vec![Box::new(ad_psgd::Active::new(local.clone(), averaging, neighbours, n))]
        } else {
            let passive = |neighbour| Box::new(ad_psgd::Passive::new(local.clone(), neighbour, n)) as _;
            neighbours.into_iter().map(passive).collect()
        };
        let worker = ad_psgd::Worker::new(local.clone());
        if self.trainers.len() == 1 {
            return trainer(worker, Some(self.averaged(rank)));
        }
        let mut attendants: Vec<Box<dyn Service>> = vec![Box::new(EvaluationSnapshots::new(local))];
        if rank == Rank(0) {
            let count = SampleCount::new(&self.plan, runtime.bell("sample count".into()));
            attendants.extend(count.lanes(self.trainers.len()));
        }
        Roles { services, attendants, ..trainer(worker.counted(), Some(self.averaged(rank))) }
    }
}

/// Weights by which a rank mixes the models, its own among them: in single precision, and yet 1 in all, or models would
/// grow or shrink a little in every step.
fn row(graph: &Graph, rank: Rank) -> Vec<(GroupRank, f32)> {
    let mut row: Vec<(GroupRank, f32)> = graph
        .weights(rank.index())
        .into_iter()
        .map(|(other, weight)| (GroupRank(other), weight as f32))
        .collect();
    let others: f32 = row.iter().filter(|(place, _)| place.0 != rank.index()).map(|(_, weight)| weight).sum();
    for (_, own) in row.iter_mut().filter(|(place, _)| place.0 == rank.index()) {
        *own = 1.0 - others;
    }
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_add_up_to_one_and_stay_those_of_the_graph() {
        for topology in [Topology::Ring, Topology::Complete, Topology::Exponential, Topology::ExponentialWide]
        {
            for workers in (1..=16).filter(|n| topology != Topology::Exponential || n % 2 == 0) {
                let graph = Graph::new(topology, workers);
                for rank in 0..workers {
                    let row = row(&graph, Rank(rank as u32));
                    let (own, others): (Vec<_>, Vec<_>) = row.iter().partition(|(place, _)| place.0 == rank);
                    let sum: f32 = others.iter().map(|(_, weight)| weight).sum();
                    assert_eq!((own.len(), own[0].1 + sum), (1, 1.0), "{topology:?}, {workers} workers");
                    for (exact, (_, weight)) in graph.weights(rank).into_iter().zip(&row) {
                        assert!((exact.1 - f64::from(*weight)).abs() < 1e-6);
                    }
                }
            }
        }
    }
}
