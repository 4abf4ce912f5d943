//! The roles of elastic methods.

use super::Blueprint;
use super::roles::{open, trainer};
use crate::Handoff;
use crate::algorithm::easgd_async::Motion;
use crate::algorithm::measgd_async::Velocity;
use crate::algorithm::{easgd_async, easgd_hogwild, easgd_sync, hogwild_sgd};
use crate::runtime::Runtime;
use crate::server::{Elastic, ElasticClient, ExchangeLane, TrainingEnd, WorkerClocks};
use crate::strategy::{CENTRE, Evaluated, Roles, Service, Trainer};
use recipe::{MovingRate, Serve, SyncVariant};
use record::Rank;

impl Blueprint {
    /// A worker whose model is compared with the others', and none of which the run is judged by.
    pub(super) fn elastic(&self, rank: Rank, worker: impl Trainer + 'static) -> Roles {
        trainer(worker, Some(Evaluated::beside(rank, self.trainers.len())))
    }

    /// A worker that exchanges with the centre every few steps, and moves by itself in between.
    pub(super) fn moved_by(
        &self,
        rank: Rank,
        runtime: &dyn Runtime,
        elastic: Elastic,
        motion: impl Motion + 'static,
    ) -> Roles {
        let worker = easgd_async::Worker::new(self.shards(), elastic, motion);
        if self.strategy.serve() != Some(Serve::One) {
            return self.elastic(rank, worker);
        }
        let exchanges = Handoff::new(runtime.bell(format!("exchanges of rank {rank}")));
        let lane: Box<dyn Service> = Box::new(ExchangeLane::new(exchanges.clone(), self.shards()));
        Roles { services: vec![lane], ..self.elastic(rank, worker.with_exchange_lane(exchanges)) }
    }

    /// The momentum of a worker.
    pub(super) fn velocity(&self, momentum: f32) -> Velocity {
        Velocity::new(self.parameter_count, momentum, self.plan.optimizer().weight_decay)
    }

    /// A server whose part of the centre one worker at a time may change.
    pub(super) fn locked_centre(&self, server: usize, runtime: &dyn Runtime, elastic: Elastic) -> Roles {
        let n = self.shards().span(server).len();
        let state = open(self.in_blocks(server, elastic), server, runtime, easgd_async::Locked::new(n));
        let roles = self.served(server, state, |state, client| {
            easgd_async::Master::new(state, ElasticClient::new(client, elastic.period), elastic, n)
        });
        Roles { evaluated: Some(Evaluated::judged(CENTRE)), ..roles }
    }

    /// A server whose part of the centre all workers change at once.
    pub(super) fn lock_free_centre(&self, server: usize, runtime: &dyn Runtime, elastic: Elastic) -> Roles {
        let n = self.shards().span(server).len();
        let centre = hogwild_sgd::LockFree::new(n, 0.0);
        let state = open(self.in_blocks(server, elastic), server, runtime, centre.clone());
        let roles = self.served(server, state, |state, client| {
            let client = ElasticClient::new(client, elastic.period);
            easgd_hogwild::Master::new(state, centre.clone(), client, elastic, n)
        });
        Roles { evaluated: Some(Evaluated::judged(CENTRE)), ..roles }
    }

    fn in_blocks(&self, server: usize, elastic: Elastic) -> WorkerClocks {
        WorkerClocks::in_blocks(
            &self.plan,
            elastic.first_block(&self.plan),
            None,
            TrainingEnd::of_server(server),
        )
    }

    /// A worker of the synchronous method, with a second lane where that overlaps.
    pub(super) fn synchronous_elastic(
        &self,
        rank: Rank,
        runtime: &dyn Runtime,
        a: MovingRate,
        variant: SyncVariant,
    ) -> Roles {
        let worker = easgd_sync::Worker::new(self.parameter_count, a, variant, self.trainers.len())
            .divided(self.division_of_weights());
        if variant != SyncVariant::Overlapped {
            return self.elastic(rank, worker);
        }
        let loads = Handoff::new(runtime.bell(format!("centre and sum of rank {rank}")));
        let lane: Box<dyn Service> = Box::new(easgd_sync::TreeLane::new(loads.clone(), a));
        Roles { services: vec![lane], ..self.elastic(rank, worker.with_tree_lane(loads)) }
    }
}
