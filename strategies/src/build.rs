//! From a description to live lanes: the same for the simulator and the worker.

mod elastic;
mod gossip;

use crate::algorithm::{
    async_msgd, async_sgd, d_sync, eamsgd, easgd_async, easgd_original, easgd_sync, hogwild_sgd, local_sgd,
    pipe_sgd, ps_sync,
};
use crate::collective::{self, Collective};
use crate::compress::{self, Compressor, Origin};
use crate::course::Course;
use crate::desk::{Desk, Seat};
use crate::host::{Host, Shared};
use crate::learner::Learner;
use crate::messenger::{Jobs, Messenger};
use crate::node::{Node, Parts};
use crate::optimizer::Optimizer;
use crate::projection::{self, Matrix};
use crate::server::{Centre, Client, Elastic, Floor, Keeper, Ledger, Shards};
use crate::strategy::{CENTRE, Evaluated, Roles, Service, Strategy};
use crate::training::{self, Books};
use crate::{Group, Lane, StepError};
use recipe::{Compression, Measure, Role, RunSpec, Serve, Strategy as Kind};
use record::{LaneId, Overlap, PhaseClock, Rank, Trace};
use std::sync::Arc;

/// What every rank of a run is built from.
#[derive(Clone)]
pub struct Blueprint {
    strategy: Kind,
    compression: Compression,
    codec: Option<fn() -> Box<dyn Compressor>>,
    collective: Arc<dyn Collective>,
    measure: Measure,
    everyone: Arc<[Rank]>,
    trainers: Arc<[Rank]>,
    parameters: usize,
    matrices: Arc<[Matrix]>,
    course: Arc<Course>,
}

/// What one lane does from beginning to end.
pub type Body = Box<dyn FnOnce() -> Result<(), StepError> + Send>;

/// A lane that is ready to run, on a thread or as a coroutine.
pub struct LaneBody {
    /// Whose lane.
    pub rank: Rank,
    /// Which lane.
    pub lane: LaneId,
    /// What it does. A panic inside is answered as an error.
    pub run: Body,
}

impl Blueprint {
    /// The blueprint of a run. `parameters` is the size of the whole model.
    pub fn new(spec: &RunSpec, course: Arc<Course>, parameters: usize) -> Self {
        let ranks = |wanted: Option<Role>| -> Arc<[Rank]> {
            let seats = spec.cluster.seats.iter().enumerate();
            let chosen = seats.filter(|(_, seat)| wanted.is_none_or(|role| seat.role == role));
            chosen.map(|(rank, _)| Rank(rank as u32)).collect()
        };
        let trainers = ranks(Some(Role::Worker));
        Self {
            strategy: spec.strategy.clone(),
            // One worker trains as if nothing travelled, whatever the strategy.
            compression: if trainers.len() == 1 { Compression::None } else { spec.compression },
            codec: None,
            collective: collective::build(&spec.communication, &spec.cluster),
            measure: spec.measure,
            everyone: ranks(None),
            trainers,
            parameters,
            matrices: projection::matrices(&spec.model),
            course,
        }
    }

    /// The same with another codec for gradients: for codecs under development and tests.
    #[must_use]
    pub fn with_codec(self, codec: fn() -> Box<dyn Compressor>) -> Self {
        Self { codec: Some(codec), ..self }
    }

    /// The same for a model whose matrices of weights are these: for learners that the recipe does not know.
    #[must_use]
    pub fn with_matrices(self, matrices: impl Into<Arc<[Matrix]>>) -> Self {
        Self { matrices: matrices.into(), ..self }
    }

    /// The same with another all-reduce: for collectives under development and tests.
    #[must_use]
    pub fn with_collective(self, collective: Arc<dyn Collective>) -> Self {
        Self { collective, ..self }
    }

    /// All ranks.
    pub fn ranks(&self) -> &[Rank] {
        &self.everyone
    }

    /// The ranks that train.
    pub fn trainers(&self) -> &[Rank] {
        &self.trainers
    }

    /// Samples, steps and rates.
    pub fn course(&self) -> &Arc<Course> {
        &self.course
    }

    /// Number of weights of the whole model.
    pub fn parameters(&self) -> usize {
        self.parameters
    }

    /// The all-reduce.
    pub fn collective(&self) -> &Arc<dyn Collective> {
        &self.collective
    }

    /// What a rank does.
    pub fn roles(&self, rank: Rank, host: &dyn Host, jobs: &Shared<Jobs>) -> Roles {
        match rank.index().checked_sub(self.trainers.len()) {
            None => self.roles_of_worker(rank, host, jobs),
            Some(server) => self.roles_of_server(server, host),
        }
    }

    /// With [`roles_of_server`](Self::roles_of_server), the one place that knows every strategy.
    fn roles_of_worker(&self, rank: Rank, host: &dyn Host, jobs: &Shared<Jobs>) -> Roles {
        let shards = self.shards();
        let first = (rank == Rank(0)).then(|| Evaluated::judged("rank 0"));
        match self.strategy {
            Kind::DSync => trainer(d_sync::DSync, first),
            Kind::LocalSgd { period } => {
                let compared = Evaluated::compared(rank, self.trainers.len());
                trainer(local_sgd::LocalSgd { period }, Some(compared))
            }
            Kind::PipeSgd { depth, warmup, segments } => {
                let warmup = self.course.in_samples(warmup);
                let pipe = pipe_sgd::PipeSgd::new(depth as usize, warmup, segments as usize);
                let messenger = Messenger::new(jobs.clone(), self.collective.clone());
                Roles { services: vec![Box::new(messenger)], ..trainer(pipe, first) }
            }
            Kind::PsSync => {
                // One server holds the model itself; of several, each holds a part, and rank 0 the same bits.
                let first = first.filter(|_| shards.servers() > 1 && !self.codes_weights());
                trainer(ps_sync::Worker { servers: shards }, first)
            }
            Kind::AsyncSgd { serve, .. } | Kind::AsyncMsgd { serve, .. } => {
                trainer(async_sgd::Worker::new(shards, serve), None)
            }
            Kind::HogwildSgd { .. } => trainer(async_sgd::Worker::new(shards, Serve::All), None),
            Kind::EasgdOriginal { moving_rate, overlap } => {
                self.elastic(rank, easgd_original::Worker::new(shards, moving_rate, overlap))
            }
            Kind::EasgdSync { moving_rate, variant } => {
                self.synchronous_elastic(rank, host, moving_rate, variant)
            }
            Kind::EasgdAsync { moving_rate, period, .. } | Kind::EasgdHogwild { moving_rate, period } => {
                self.moved_by((rank, host), Elastic { moving_rate, period }, easgd_async::Descent)
            }
            Kind::MeasgdAsync { moving_rate, momentum, period, .. }
            | Kind::Eamsgd { moving_rate, momentum, period, look_ahead: false, .. } => {
                self.moved_by((rank, host), Elastic { moving_rate, period }, self.velocity(momentum))
            }
            Kind::Eamsgd { moving_rate, momentum, period, look_ahead: true, .. } => {
                let ahead = eamsgd::LookAhead(self.velocity(momentum));
                self.moved_by((rank, host), Elastic { moving_rate, period }, ahead)
            }
            Kind::DPsgd { topology, order } => self.mixing(rank, host, topology, order),
            Kind::AdPsgd { topology, averaging } => self.pairs(rank, host, topology, averaging),
            Kind::Sgp => self.pushing(rank),
        }
    }

    fn roles_of_server(&self, server: usize, host: &dyn Host) -> Roles {
        let (shards, sgd) = (self.shards(), self.course.optimizer());
        let n = shards.span(server).len();
        match self.strategy {
            Kind::PsSync => {
                let server = ps_sync::Server::new(shards, server, Optimizer::new(sgd), self.codes_weights());
                holder(server, Evaluated::judged("server"))
            }
            Kind::AsyncSgd { .. } => {
                // Workers clip: a server may hold a part of the weights only.
                let rule = Optimizer::new(recipe::Sgd { clip: None, ..sgd });
                let floor = self.floor(server, host, async_sgd::Locked::new(n, rule));
                self.served(server, floor, |floor, client| async_sgd::Master::new(floor, client, n))
            }
            Kind::AsyncMsgd { momentum, .. } => {
                let rule = async_msgd::Msgd::new(n, momentum, sgd.weight_decay);
                let floor = self.floor(server, host, async_sgd::Locked::new(n, rule));
                self.served(server, floor, |floor, client| async_sgd::Master::new(floor, client, n))
            }
            Kind::HogwildSgd { .. } => {
                let weights = hogwild_sgd::LockFree::new(n, sgd.weight_decay);
                let floor = self.floor(server, host, weights.clone());
                let master = |floor, client| hogwild_sgd::Master::new(floor, weights.clone(), client, n);
                self.served(server, floor, master)
            }
            Kind::EasgdOriginal { moving_rate, .. } => {
                holder(easgd_original::Master::new(shards, moving_rate), Evaluated::judged(CENTRE))
            }
            Kind::EasgdSync { moving_rate, .. } => {
                holder(easgd_sync::Master::new(self.parameters, moving_rate), Evaluated::judged(CENTRE))
            }
            Kind::EasgdAsync { moving_rate, period, .. }
            | Kind::MeasgdAsync { moving_rate, period, .. }
            | Kind::Eamsgd { moving_rate, period, .. } => {
                self.locked_centre(server, host, Elastic { moving_rate, period })
            }
            Kind::EasgdHogwild { moving_rate, period } => {
                self.lock_free_centre(server, host, Elastic { moving_rate, period })
            }
            // These have no servers.
            Kind::DSync
            | Kind::LocalSgd { .. }
            | Kind::PipeSgd { .. }
            | Kind::DPsgd { .. }
            | Kind::AdPsgd { .. }
            | Kind::Sgp => Roles::default(),
        }
    }

    /// Whether weights that a server sends are coded.
    fn codes_weights(&self) -> bool {
        matches!(self.compression, Compression::Coded { parameters: true, .. })
    }

    /// How the weights are divided among the servers.
    fn shards(&self) -> Shards {
        let workers = self.trainers.len();
        Shards::new(workers, self.everyone.len() - workers, self.parameters)
    }

    /// What the lanes of a server share.
    fn floor<C: Centre>(&self, server: usize, host: &dyn Host, centre: C) -> Floor<C> {
        // Servers that serve one worker at a time are met in their order, and the first enforces the bound.
        let held_back = server == 0 || self.strategy.serve() != Some(Serve::One);
        let bound = self.strategy.staleness_bound().filter(|_| held_back);
        let ledger = Ledger::new(&self.course, bound, server == 0);
        open(ledger, server, host, centre)
    }

    /// The lanes of a server: one for each worker, and the keeper.
    fn served<C: Centre, S: Service + 'static>(
        &self,
        server: usize,
        floor: Floor<C>,
        lane: impl Fn(Floor<C>, Client) -> S,
    ) -> Roles {
        let shards = self.shards();
        let at = shards.span(server).start;
        let serve = self.strategy.serve().unwrap_or(Serve::All);
        let (silences, most) = match serve {
            Serve::One => (shards.silences_before_asking(server), shards.most_silences()),
            Serve::All => (1, 1),
        };
        let client = |worker| Client::new(worker, at).served(serve, silences);
        let lane = |worker| Box::new(lane(floor.clone(), client(worker))) as Box<dyn Service>;
        let mut services: Vec<_> = (0..self.trainers.len()).map(lane).collect();
        services.push(Box::new(Keeper::new(floor.clone(), shards, server, most)));
        Roles { services, evaluated: Some(Evaluated::judged("server")), ..Roles::default() }
    }

    /// The lanes of one rank. A rank that trains needs a learner.
    pub fn lanes(
        &self,
        rank: Rank,
        learner: Option<Box<dyn Learner>>,
        host: &dyn Host,
    ) -> Result<Vec<LaneBody>, StepError> {
        let jobs = Shared::new(Jobs::default(), host.bell(format!("jobs of rank {rank}")));
        self.lanes_of(self.roles(rank, host, &jobs), rank, learner, (host, jobs))
    }

    /// The lanes of one rank with roles that were built elsewhere: for methods under development and tests.
    pub fn lanes_of(
        &self,
        roles: Roles,
        rank: Rank,
        learner: Option<Box<dyn Learner>>,
        (host, jobs): (&dyn Host, Shared<Jobs>),
    ) -> Result<Vec<LaneBody>, StepError> {
        let Roles { trainer, services, attendants, evaluated } = roles;
        let lanes = services.len() + usize::from(trainer.is_some());
        let gate = host.gate(rank, lanes + attendants.len());
        let books = |lane, evaluated| Books {
            gate: gate.clone(),
            observer: host.observer(rank),
            lane,
            evaluated,
            hash_every_step: self.measure.hash_every_step,
            samples: self.measure.samples,
        };
        let seat = self.seat(rank)?;
        let trains = trainer.is_some();
        // Only a rank that trains on one lane and communicates on another can hide anything.
        let overlap = (trains && lanes > 1).then(Arc::<Overlap>::default);
        let mut bodies = Vec::with_capacity(lanes);
        if let Some(strategy) = trainer {
            let desk = self.desk(&seat, host, (LaneId::Compute, overlap.as_ref()));
            let node = self.node(desk, learner, jobs)?;
            let books = books(LaneId::Compute, evaluated.clone());
            let run = guarded(move || training::train(node, strategy, books));
            bodies.push(LaneBody { rank, lane: LaneId::Compute, run });
        }
        for service in services {
            let lane = service.lane();
            let desk = self.desk(&seat, host, (lane, overlap.as_ref()));
            let books = books(lane, evaluated.clone().filter(|_| !trains));
            bodies.push(LaneBody { rank, lane, run: guarded(move || training::serve(desk, service, books)) });
        }
        for service in attendants {
            let lane = service.lane();
            let desk = self.desk(&seat, host, (lane, None));
            let books = books(lane, evaluated.clone());
            bodies.push(LaneBody {
                rank,
                lane,
                run: guarded(move || training::attend(desk, service, books)),
            });
        }
        Ok(bodies)
    }

    fn node(
        &self,
        desk: Desk,
        learner: Option<Box<dyn Learner>>,
        jobs: Shared<Jobs>,
    ) -> Result<Node, StepError> {
        let (Some(learner), Some(trainers)) = (learner, desk.seat.trainers.clone()) else {
            return Err(StepError::Learner(format!("rank {} trains, but has no model", desk.seat.rank)));
        };
        Ok(Node::new(Parts { desk, trainers, learner, collective: self.collective.clone(), jobs }))
    }

    fn desk(&self, seat: &Seat, host: &dyn Host, (lane, overlap): (LaneId, Option<&Arc<Overlap>>)) -> Desk {
        let mut desk =
            Desk { seat: seat.clone(), lane: self.lane(seat.rank, host), observer: host.observer(seat.rank) };
        if let Some(overlap) = overlap {
            desk.lane.clock.beside(overlap.clone(), lane);
        }
        desk
    }

    fn seat(&self, rank: Rank) -> Result<Seat, StepError> {
        let everyone = Group::new(&self.everyone, rank).ok_or_else(|| StepError::Transport {
            rank,
            reason: format!("the run has only {} ranks", self.everyone.len()),
        })?;
        let trainers = Group::new(&self.trainers, rank);
        Ok(Seat { rank, everyone, trainers, course: self.course.clone() })
    }

    fn lane(&self, rank: Rank, host: &dyn Host) -> Lane {
        let trace = Trace { first_steps: self.measure.trace_first_steps, every: self.measure.trace_every };
        let clock = PhaseClock::new(host.clock(rank), trace);
        let (gradients, weights) =
            compress::build(self.compression, Origin { seed: self.course.seed(), rank });
        let gradients = self.codec.map_or(gradients, |codec| codec());
        let projector = projection::build(self.compression, self.course.seed(), &self.matrices);
        Lane::new(host.transport(rank), gradients, clock).coding_weights(weights).projecting(projector)
    }
}

fn open<C: Centre>(ledger: Ledger, server: usize, host: &dyn Host, centre: C) -> Floor<C> {
    Floor::new(ledger, centre, host.bell(format!("floor of server {server}")))
}

/// A rank with one service, which holds the model.
fn holder(service: impl Service + 'static, evaluated: Evaluated) -> Roles {
    Roles { services: vec![Box::new(service)], evaluated: Some(evaluated), ..Roles::default() }
}

fn trainer(strategy: impl Strategy + 'static, evaluated: Option<Evaluated>) -> Roles {
    Roles { trainer: Some(Box::new(strategy)), evaluated, ..Roles::default() }
}

/// A panic in a lane is an error of that lane, or the others would wait for it in vain.
fn guarded(body: impl FnOnce() -> Result<(), StepError> + Send + 'static) -> Body {
    Box::new(|| {
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(body))
            .unwrap_or_else(|cause| Err(StepError::Panicked(panic_text(cause.as_ref()))))
    })
}

/// What a panic said.
pub fn panic_text(cause: &(dyn std::any::Any + Send)) -> String {
    let text = cause.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| cause.downcast_ref::<String>().cloned()).unwrap_or_else(|| "for an unknown reason".into())
}
