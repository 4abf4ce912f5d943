//! The roles of elastic methods.

use super::{Blueprint, open, trainer};
use crate::algorithm::measgd_async::Velocity;
use crate::algorithm::{eamsgd, easgd_async, easgd_hogwild, easgd_original, easgd_sync, hogwild_sgd};
use crate::host::{Host, Shared};
use crate::server::{Elastic, Ledger, Visitor};
use crate::strategy::{CENTRE, Evaluated, Roles, Service};
use recipe::{MovingRate, Strategy, SyncVariant};
use record::Rank;

impl Blueprint {
    /// What a rank of an elastic method does.
    pub(super) fn elastic_roles(&self, server: Option<usize>, rank: Rank, host: &dyn Host) -> Roles {
        let beside = Some(Evaluated::beside(rank, self.trainers.len()));
        match self.strategy {
            Strategy::EasgdOriginal { moving_rate, overlap } => match server {
                None => trainer(easgd_original::Worker::new(self.shards(), moving_rate, overlap), beside),
                Some(_) => only(easgd_original::Master::new(self.shards(), moving_rate)),
            },
            Strategy::EasgdSync { moving_rate, variant } if server.is_none() => {
                self.sync_worker((moving_rate, variant), rank, host, beside)
            }
            Strategy::EasgdSync { moving_rate, .. } => {
                only(easgd_sync::Master::new(self.parameters, moving_rate))
            }
            Strategy::EasgdAsync { moving_rate, period }
            | Strategy::EasgdHogwild { moving_rate, period }
            | Strategy::MeasgdAsync { moving_rate, period, .. }
            | Strategy::Eamsgd { moving_rate, period, .. } => {
                self.asynchronous((server, beside), host, Elastic { moving_rate, period })
            }
            _ => Roles::default(),
        }
    }

    fn asynchronous(
        &self,
        (server, beside): (Option<usize>, Option<Evaluated>),
        host: &dyn Host,
        elastic: Elastic,
    ) -> Roles {
        let (shards, n) = (self.shards(), self.parameters);
        let decay = self.course.optimizer().weight_decay;
        let Some(server) = server else {
            return match self.strategy {
                Strategy::MeasgdAsync { momentum, .. }
                | Strategy::Eamsgd { momentum, look_ahead: false, .. } => {
                    let velocity = Velocity::new(n, momentum, decay);
                    trainer(easgd_async::Worker::new(shards, elastic, velocity), beside)
                }
                Strategy::Eamsgd { momentum, .. } => {
                    let ahead = eamsgd::LookAhead(Velocity::new(n, momentum, decay));
                    trainer(easgd_async::Worker::new(shards, elastic, ahead), beside)
                }
                _ => trainer(easgd_async::Worker::new(shards, elastic, easgd_async::Descent), beside),
            };
        };
        let n = shards.span(server).len();
        let first = elastic.first_block(&self.course);
        let ledger = Ledger::in_blocks(&self.course, first, None, server == 0);
        let roles = if matches!(self.strategy, Strategy::EasgdHogwild { .. }) {
            let centre = hogwild_sgd::LockFree::new(n, 0.0);
            let floor = open(ledger, server, host, centre.clone());
            self.served(server, floor, |floor, client| {
                easgd_hogwild::Master::new(
                    floor,
                    centre.clone(),
                    Visitor::new(client, elastic.period),
                    elastic,
                    n,
                )
            })
        } else {
            let floor = open(ledger, server, host, easgd_async::Locked::new(n));
            self.served(server, floor, |floor, client| {
                easgd_async::Master::new(floor, Visitor::new(client, elastic.period), elastic, n)
            })
        };
        Roles { evaluated: Some(Evaluated::judged(CENTRE)), ..roles }
    }

    fn sync_worker(
        &self,
        (a, variant): (MovingRate, SyncVariant),
        rank: Rank,
        host: &dyn Host,
        beside: Option<Evaluated>,
    ) -> Roles {
        let worker = easgd_sync::Worker::new(self.parameters, a, variant, self.trainers.len());
        if variant != SyncVariant::Overlapped {
            return trainer(worker, beside);
        }
        let post = Shared::new(easgd_sync::Post::default(), host.bell(format!("post of rank {rank}")));
        let messenger: Box<dyn Service> = Box::new(easgd_sync::Messenger::new(post.clone(), a));
        Roles { services: vec![messenger], ..trainer(worker.with_messenger(post), beside) }
    }
}

/// A rank with one service, which holds the centre.
fn only(service: impl Service + 'static) -> Roles {
    Roles { trainer: None, services: vec![Box::new(service)], evaluated: Some(Evaluated::judged(CENTRE)) }
}
