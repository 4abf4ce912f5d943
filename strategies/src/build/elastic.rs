//! The roles of elastic methods.

use super::{Blueprint, open, trainer};
use crate::algorithm::easgd_async::Motion;
use crate::algorithm::measgd_async::Velocity;
use crate::algorithm::{easgd_async, easgd_hogwild, easgd_sync, hogwild_sgd};
use crate::host::{Host, Shared};
use crate::server::{Courier, Elastic, Ledger, Post, Visitor};
use crate::strategy::{CENTRE, Evaluated, Roles, Service, Strategy};
use recipe::{MovingRate, Serve, SyncVariant};
use record::Rank;

impl Blueprint {
    /// A worker whose model is compared with the others', and none of which the run is judged by.
    pub(super) fn elastic(&self, rank: Rank, worker: impl Strategy + 'static) -> Roles {
        trainer(worker, Some(Evaluated::beside(rank, self.trainers.len())))
    }

    /// A worker that exchanges with the centre every few steps, and moves by itself in between.
    pub(super) fn moved_by(
        &self,
        (rank, host): (Rank, &dyn Host),
        elastic: Elastic,
        motion: impl Motion + 'static,
    ) -> Roles {
        let worker = easgd_async::Worker::new(self.shards(), elastic, motion);
        if self.strategy.serve() != Some(Serve::One) {
            return self.elastic(rank, worker);
        }
        let post = Shared::new(Post::default(), host.bell(format!("courier of rank {rank}")));
        let courier: Box<dyn Service> = Box::new(Courier::new(post.clone(), self.shards()));
        Roles { services: vec![courier], ..self.elastic(rank, worker.with_courier(post)) }
    }

    /// The momentum of a worker.
    pub(super) fn velocity(&self, momentum: f32) -> Velocity {
        Velocity::new(self.parameters, momentum, self.course.optimizer().weight_decay)
    }

    /// A server whose part of the centre one worker at a time may change.
    pub(super) fn locked_centre(&self, server: usize, host: &dyn Host, elastic: Elastic) -> Roles {
        let n = self.shards().span(server).len();
        let floor = open(self.in_blocks(server, elastic), server, host, easgd_async::Locked::new(n));
        let roles = self.served(server, floor, |floor, client| {
            easgd_async::Master::new(floor, Visitor::new(client, elastic.period), elastic, n)
        });
        Roles { evaluated: Some(Evaluated::judged(CENTRE)), ..roles }
    }

    /// A server whose part of the centre all workers change at once.
    pub(super) fn lock_free_centre(&self, server: usize, host: &dyn Host, elastic: Elastic) -> Roles {
        let n = self.shards().span(server).len();
        let centre = hogwild_sgd::LockFree::new(n, 0.0);
        let floor = open(self.in_blocks(server, elastic), server, host, centre.clone());
        let roles = self.served(server, floor, |floor, client| {
            let visitor = Visitor::new(client, elastic.period);
            easgd_hogwild::Master::new(floor, centre.clone(), visitor, elastic, n)
        });
        Roles { evaluated: Some(Evaluated::judged(CENTRE)), ..roles }
    }

    fn in_blocks(&self, server: usize, elastic: Elastic) -> Ledger {
        Ledger::in_blocks(&self.course, elastic.first_block(&self.course), None, server == 0)
    }

    /// A worker of the synchronous method, with a second lane where that overlaps.
    pub(super) fn synchronous_elastic(
        &self,
        rank: Rank,
        host: &dyn Host,
        a: MovingRate,
        variant: SyncVariant,
    ) -> Roles {
        let worker = easgd_sync::Worker::new(self.parameters, a, variant, self.trainers.len());
        if variant != SyncVariant::Overlapped {
            return self.elastic(rank, worker);
        }
        let post = Shared::new(easgd_sync::Post::default(), host.bell(format!("post of rank {rank}")));
        let messenger: Box<dyn Service> = Box::new(easgd_sync::Messenger::new(post.clone(), a));
        Roles { services: vec![messenger], ..self.elastic(rank, worker.with_messenger(post)) }
    }
}
