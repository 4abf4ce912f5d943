//! The roles of workers and servers: with those of elastic methods and of gossip, the one place that knows every
//! strategy.

use super::Blueprint;
use crate::algorithm::ps_sync::ModelCoding;
use crate::algorithm::{
    async_msgd, async_sgd, d_sync, eamsgd, easgd_async, easgd_original, easgd_sync, gmp, hogwild_sgd,
    local_sgd, pipe_sgd, ps_sync, slowmo,
};
use crate::all_reduce::CommQueue;
use crate::comm_lane::CommLane;
use crate::group::Group;
use crate::runtime::Runtime;
use crate::schedule::GradientLane;
use crate::server::{
    Adder, AdderScope, Centre, Client, Elastic, ReceivingLane, SendingLane, SentBuckets, ServerState, Shards,
    SnapshotLane, TrainingEnd, WorkerClocks,
};
use crate::strategy::{CENTRE, Evaluated, Roles, Service, Trainer};
use recipe::{Compression, ModelPartition, Serve, Strategy as Kind};
use record::Rank;

impl Blueprint {
    /// With [`roles_of_server`](Self::roles_of_server), the one place that knows every strategy.
    pub(super) fn roles_of_worker(&self, rank: Rank, runtime: &dyn Runtime, comm: &CommQueue) -> Roles {
        let shards = self.shards();
        let first = (rank == Rank(0)).then(|| Evaluated::judged("rank 0"));
        match self.strategy {
            Kind::DSync => self.beside(comm, trainer(d_sync::DSync, first)),
            Kind::LocalSgd { period } => {
                let compared = Evaluated::compared(rank, self.trainers.len());
                trainer(local_sgd::LocalSgd { period }, Some(compared))
            }
            Kind::Slowmo { period, slow_momentum, slow_lr } => {
                let compared = Evaluated::compared(rank, self.trainers.len());
                trainer(slowmo::SlowMo::new(period, slow_momentum, slow_lr), Some(compared))
            }
            Kind::PipeSgd { depth, warmup, .. } => {
                let pipe = pipe_sgd::PipeSgd::new(depth as usize, self.plan.in_samples(warmup));
                self.beside(comm, trainer(pipe, first))
            }
            Kind::PsSync => {
                // One server holds the model itself; of several, each holds a part, and rank 0 the same bits.
                let first = first.filter(|_| shards.servers() > 1 && !self.codes_weights());
                let lane = self.gradient_lane();
                let roles = trainer(ps_sync::Worker { servers: shards, lane }, first);
                match lane {
                    GradientLane::Compute => roles,
                    GradientLane::Communication => {
                        let sent = SentBuckets::new(runtime.bell(format!("sent buckets of rank {rank}")));
                        let sending = SendingLane::new(comm.clone(), sent.clone(), shards);
                        let receiving = ReceivingLane::new(comm.clone(), sent, shards);
                        Roles { services: vec![Box::new(sending), Box::new(receiving)], ..roles }
                    }
                }
            }
            Kind::AsyncSgd { serve, .. } | Kind::AsyncMsgd { serve, .. } => {
                trainer(async_sgd::Worker::new(shards, serve), None)
            }
            Kind::HogwildSgd { .. } => trainer(async_sgd::Worker::new(shards, Serve::All), None),
            Kind::EasgdOriginal { moving_rate, overlap } => {
                self.elastic(rank, easgd_original::Worker::new(shards, moving_rate, overlap))
            }
            Kind::EasgdSync { moving_rate, variant } => {
                self.synchronous_elastic(rank, runtime, moving_rate, variant)
            }
            Kind::EasgdAsync { moving_rate, period, .. } | Kind::EasgdHogwild { moving_rate, period } => {
                self.moved_by(rank, runtime, Elastic { moving_rate, period }, easgd_async::Descent)
            }
            Kind::MeasgdAsync { moving_rate, momentum, period, .. }
            | Kind::Eamsgd { moving_rate, momentum, period, look_ahead: false, .. } => {
                self.moved_by(rank, runtime, Elastic { moving_rate, period }, self.velocity(momentum))
            }
            Kind::Eamsgd { moving_rate, momentum, period, look_ahead: true, .. } => {
                let ahead = eamsgd::LookAhead(self.velocity(momentum));
                self.moved_by(rank, runtime, Elastic { moving_rate, period }, ahead)
            }
            Kind::DPsgd { topology, order } => self.mixing(rank, runtime, topology, order),
            Kind::AdPsgd { topology, averaging } => self.pairs(rank, runtime, topology, averaging),
            Kind::Sgp => self.pushing(rank),
            Kind::Gmp { scheme, fc_update, average_every, .. } => {
                let rounds = |partition| gmp::GroupPlan { partition, scheme, fc_update, average_every };
                self.beside(comm, self.in_groups(rank, rounds))
            }
            // Built by the registry.
            Kind::Custom { .. } => Roles::default(),
        }
    }

    /// A worker of a group that holds one model.
    fn in_groups(&self, rank: Rank, rounds: impl Fn(ModelPartition) -> gmp::GroupPlan) -> Roles {
        let parts = self.partition.parts();
        let number = rank.index() / parts;
        let part = rank.index() % parts;
        let group = self.trainers.iter().copied().skip(number * parts).take(parts).collect();
        let holders = self.trainers.iter().copied().skip(part).step_by(parts).collect();
        let neighbours = Group::new(&group, rank).zip(Group::new(&holders, rank));
        // A rank that is in neither is no worker.
        let Some((group, holders)) = neighbours else { return Roles::default() };
        let rounds = rounds(self.partition.as_ref().clone());
        let evaluated = if parts > 1 {
            Evaluated::part(rank, parts)
        } else {
            (rank == Rank(0)).then(|| Evaluated::judged("rank 0"))
        };
        trainer(gmp::Gmp::new(rounds, gmp::Neighbours { group, holders }), evaluated)
    }

    pub(super) fn roles_of_server(&self, server: usize, runtime: &dyn Runtime) -> Roles {
        let shards = self.shards();
        let weight_decay = self.plan.optimizer().weight_decay;
        let n = shards.span(server).len();
        match self.strategy {
            Kind::PsSync => {
                let coding = if self.codes_weights() { ModelCoding::Coded } else { ModelCoding::Exact };
                let server = ps_sync::Server::new(shards, server, self.optimizer(), coding);
                holder(server, Evaluated::judged("server"))
            }
            Kind::AsyncSgd { .. } => {
                // Workers clip: a server may hold a part of the weights only.
                let rule = self.optimizer().without_clipping();
                let state = self.server_state(server, runtime, async_sgd::Locked::new(n, rule));
                self.served(server, state, |state, client| async_sgd::Master::new(state, client, n))
            }
            Kind::AsyncMsgd { momentum, .. } => {
                let rule = async_msgd::Msgd::new(n, momentum, weight_decay);
                let state = self.server_state(server, runtime, async_sgd::Locked::new(n, rule));
                self.served(server, state, |state, client| async_sgd::Master::new(state, client, n))
            }
            Kind::HogwildSgd { .. } => {
                let weights = hogwild_sgd::LockFree::new(n, weight_decay);
                let state = self.server_state(server, runtime, weights.clone());
                let master = |state, client| hogwild_sgd::Master::new(state, weights.clone(), client, n);
                self.served(server, state, master)
            }
            Kind::EasgdOriginal { moving_rate, .. } => {
                holder(easgd_original::Master::new(shards, moving_rate), Evaluated::judged(CENTRE))
            }
            Kind::EasgdSync { moving_rate, .. } => {
                holder(easgd_sync::Master::new(self.parameter_count, moving_rate), Evaluated::judged(CENTRE))
            }
            Kind::EasgdAsync { moving_rate, period, .. }
            | Kind::MeasgdAsync { moving_rate, period, .. }
            | Kind::Eamsgd { moving_rate, period, .. } => {
                self.locked_centre(server, runtime, Elastic { moving_rate, period })
            }
            Kind::EasgdHogwild { moving_rate, period } => {
                self.lock_free_centre(server, runtime, Elastic { moving_rate, period })
            }
            Kind::Gmp { average_every, .. } => {
                let scope = self.adds(average_every.unwrap_or(1));
                let rank = self.everyone[self.trainers.len() + server];
                let clients = self.trainers.iter().copied().chain([rank]).collect();
                let Some(clients) = Group::new(&clients, rank) else { return Roles::default() };
                Roles { services: vec![Box::new(Adder::new(scope, clients))], ..Roles::default() }
            }
            // These have no servers.
            Kind::DSync
            | Kind::LocalSgd { .. }
            | Kind::Slowmo { .. }
            | Kind::PipeSgd { .. }
            | Kind::DPsgd { .. }
            | Kind::AdPsgd { .. }
            | Kind::Sgp
            | Kind::Custom { .. } => Roles::default(),
        }
    }

    /// The roles of a trainer, with a communication lane where its gradients travel on one.
    fn beside(&self, comm: &CommQueue, roles: Roles) -> Roles {
        match self.gradient_lane() {
            GradientLane::Compute => roles,
            GradientLane::Communication => {
                let lane = CommLane::new(comm.clone(), self.all_reduce());
                Roles { services: vec![Box::new(lane)], ..roles }
            }
        }
    }

    /// Whether weights that a server sends are coded.
    pub(super) fn codes_weights(&self) -> bool {
        matches!(self.compression, Compression::Coded { parameters: true, .. })
    }

    /// How the weights are divided among the servers.
    pub(super) fn shards(&self) -> Shards {
        let workers = self.trainers.len();
        Shards::new(workers, self.everyone.len() - workers, self.parameter_count)
    }

    /// Scope of a server that adds and holds no weights, where sums are `period` steps apart.
    fn adds(&self, period: u64) -> AdderScope {
        let workers = self.trainers.len();
        let parts = self.partition.parts();
        let shared = !self.partition.below().is_empty() || !self.partition.whole_above().is_empty();
        // Where each worker alone holds what it holds, nothing is ever added.
        let adds = workers > parts || workers > 1 && shared;
        let period = if adds { period } else { self.plan.budget.steps() + 1 };
        AdderScope { workers, parts, weights: self.parameter_count, period }
    }

    /// The state that the lanes of a server share.
    fn server_state<C: Centre>(&self, server: usize, runtime: &dyn Runtime, centre: C) -> ServerState<C> {
        // A worker goes to servers that serve one worker at a time in their order, and the first enforces the bound.
        let enforces_bound = server == 0 || self.strategy.serve() != Some(Serve::One);
        let bound = self.strategy.staleness_bound().filter(|_| enforces_bound);
        let clocks = WorkerClocks::new(&self.plan, bound, TrainingEnd::of_server(server));
        open(clocks, server, runtime, centre)
    }

    /// The lanes of a server: one for each worker, and one that snapshots the model.
    pub(super) fn served<C: Centre, S: Service + 'static>(
        &self,
        server: usize,
        state: ServerState<C>,
        lane: impl Fn(ServerState<C>, Client) -> S,
    ) -> Roles {
        let shards = self.shards();
        let at = shards.span(server).start;
        let serve = self.strategy.serve().unwrap_or(Serve::All);
        let (silences, most) = match serve {
            Serve::One => (shards.silences_before_asking(server), shards.most_silences()),
            Serve::All => (1, 1),
        };
        let client = |worker| Client::new(worker, at).served(serve, silences);
        let lane = |worker| Box::new(lane(state.clone(), client(worker))) as Box<dyn Service>;
        let mut services: Vec<_> = (0..self.trainers.len()).map(lane).collect();
        services.push(Box::new(SnapshotLane::new(state.clone(), shards, server, most)));
        Roles { services, evaluated: Some(Evaluated::judged("server")), ..Roles::default() }
    }
}

pub(super) fn open<C: Centre>(
    clocks: WorkerClocks,
    server: usize,
    runtime: &dyn Runtime,
    centre: C,
) -> ServerState<C> {
    ServerState::new(clocks, centre, runtime.bell(format!("state of server {server}")))
}

/// A rank with one service, which holds the model.
fn holder(service: impl Service + 'static, evaluated: Evaluated) -> Roles {
    Roles { services: vec![Box::new(service)], evaluated: Some(evaluated), ..Roles::default() }
}

pub(super) fn trainer(strategy: impl Trainer + 'static, evaluated: Option<Evaluated>) -> Roles {
    Roles { trainer: Some(Box::new(strategy)), evaluated, ..Roles::default() }
}
