//! The roles of methods that gossip.

use super::{Blueprint, trainer};
use crate::Place;
use crate::algorithm::{ad_psgd, d_psgd, sgp};
use crate::gossip::{Local, Rounds};
use crate::host::Host;
use crate::strategy::{Evaluated, Roles, Service};
use recipe::{Averaging, Graph, Strategy};
use record::Rank;

impl Blueprint {
    /// What a rank that gossips does.
    pub(super) fn gossip_roles(&self, rank: Rank, host: &dyn Host) -> Roles {
        let workers = self.trainers.len();
        let averaged = Some(Evaluated::averaged(rank, workers));
        match self.strategy {
            Strategy::DPsgd { topology, order } => {
                let row = Graph::new(topology, workers).weights(rank.index());
                let weights = row.into_iter().map(|(other, weight)| (Place(other), weight as f32)).collect();
                let bell = host.bell(format!("exchange of rank {rank}"));
                let (worker, mixer) = d_psgd::lanes(order, weights, bell);
                Roles { services: vec![Box::new(mixer)], ..trainer(worker, averaged) }
            }
            Strategy::AdPsgd { topology, averaging } => {
                let graph = Graph::bipartite(topology, workers);
                Roles { evaluated: averaged, ..self.pairs(rank, host, &graph, averaging) }
            }
            Strategy::Sgp => trainer(sgp::Sgp::new(Rounds::exponential(workers)), averaged),
            _ => Roles::default(),
        }
    }

    /// The lanes of a worker that averages in pairs: an active one has one that asks, a passive one has one for each
    /// neighbour that may ask.
    fn pairs(&self, rank: Rank, host: &dyn Host, graph: &Graph, averaging: Averaging) -> Roles {
        let neighbours: Vec<Place> = graph.neighbours(rank.index()).map(Place).collect();
        let (n, active) = (self.parameters, rank.index().is_multiple_of(2));
        let lanes = if active { neighbours.len().min(1) } else { neighbours.len() };
        let local = Local::new(graph.ranks(), lanes, host.bell(format!("model of rank {rank}")));
        let services: Vec<Box<dyn Service>> = if active && lanes > 0 {
            vec![Box::new(ad_psgd::Active::new(local.clone(), averaging, neighbours, n))]
        } else {
            let passive = |neighbour| Box::new(ad_psgd::Passive::new(local.clone(), neighbour, n)) as _;
            neighbours.into_iter().map(passive).collect()
        };
        Roles { services, ..trainer(ad_psgd::Worker::new(local), None) }
    }
}
