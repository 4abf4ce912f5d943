//! From a description to live lanes: the same for the simulator and the worker.

use crate::algorithm::{d_sync, ps_sync};
use crate::collective::{self, Collective};
use crate::compress::{Compressor, Identity};
use crate::course::Course;
use crate::host::{Host, Shared};
use crate::learner::Learner;
use crate::messenger::Jobs;
use crate::node::{Desk, Node, Parts, Seat};
use crate::optimizer::Optimizer;
use crate::strategy::{Roles, Service, Strategy};
use crate::training::{self, Books};
use crate::{Group, Lane, Place, StepError};
use recipe::{Compression, Measure, Role, RunSpec};
use record::{LaneId, PhaseClock, Rank, Trace};
use std::sync::Arc;

/// What every rank of a run is built from.
#[derive(Clone)]
pub struct Blueprint {
    strategy: recipe::Strategy,
    codec: fn() -> Box<dyn Compressor>,
    collective: Arc<dyn Collective>,
    measure: Measure,
    everyone: Arc<[Rank]>,
    trainers: Arc<[Rank]>,
    parameters: usize,
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
        Self {
            strategy: spec.strategy.clone(),
            codec: codec(spec.compression),
            collective: collective::build(&spec.communication),
            measure: spec.measure,
            everyone: ranks(None),
            trainers: ranks(Some(Role::Worker)),
            parameters,
            course,
        }
    }

    /// The same with another codec: for codecs under development and tests.
    #[must_use]
    pub fn with_codec(self, codec: fn() -> Box<dyn Compressor>) -> Self {
        Self { codec, ..self }
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

    /// What a rank does: the one place that knows every strategy.
    pub fn roles(&self, rank: Rank) -> Roles {
        let server = Place(self.trainers.len());
        let is_server = rank.index() >= self.trainers.len();
        match &self.strategy {
            recipe::Strategy::DSync => trainer(d_sync::DSync, (rank == Rank(0)).then_some("rank 0")),
            recipe::Strategy::PsSync if is_server => {
                let optimizer = Optimizer::new(self.course.optimizer());
                let server: Box<dyn Service> = Box::new(ps_sync::Server::new(self.parameters, optimizer));
                Roles { trainer: None, services: vec![server], evaluated: Some("server".into()) }
            }
            recipe::Strategy::PsSync => trainer(ps_sync::Worker { server }, None),
        }
    }

    /// The lanes of one rank. A rank that trains needs a learner.
    pub fn lanes(
        &self,
        rank: Rank,
        learner: Option<Box<dyn Learner>>,
        host: &dyn Host,
    ) -> Result<Vec<LaneBody>, StepError> {
        let jobs = Shared::new(Jobs::default(), host.bell(format!("jobs of rank {rank}")));
        self.lanes_of(self.roles(rank), rank, learner, (host, jobs))
    }

    /// The lanes of one rank with roles that were built elsewhere: for methods under development and tests.
    pub fn lanes_of(
        &self,
        roles: Roles,
        rank: Rank,
        learner: Option<Box<dyn Learner>>,
        (host, jobs): (&dyn Host, Shared<Jobs>),
    ) -> Result<Vec<LaneBody>, StepError> {
        let Roles { trainer, services, evaluated } = roles;
        let lanes = services.len() + usize::from(trainer.is_some());
        let gate = host.gate(rank, lanes);
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
        let mut bodies = Vec::with_capacity(lanes);
        if let Some(strategy) = trainer {
            let node = self.node(&seat, learner, (host, jobs))?;
            let books = books(LaneId::Compute, evaluated.clone());
            let run = guarded(move || training::train(node, strategy, books));
            bodies.push(LaneBody { rank, lane: LaneId::Compute, run });
        }
        for (number, service) in services.into_iter().enumerate() {
            let lane = LaneId::Service(number as u16);
            let desk = Desk { seat: seat.clone(), lane: self.lane(rank, host) };
            let books = books(lane, evaluated.clone().filter(|_| !trains));
            bodies.push(LaneBody { rank, lane, run: guarded(move || training::serve(desk, service, books)) });
        }
        Ok(bodies)
    }

    fn node(
        &self,
        seat: &Seat,
        learner: Option<Box<dyn Learner>>,
        (host, jobs): (&dyn Host, Shared<Jobs>),
    ) -> Result<Node, StepError> {
        let (Some(learner), Some(trainers)) = (learner, seat.trainers.clone()) else {
            return Err(StepError::Learner(format!("rank {} trains, but has no model", seat.rank)));
        };
        let desk = Desk { seat: seat.clone(), lane: self.lane(seat.rank, host) };
        Ok(Node::new(Parts { desk, trainers, learner, collective: self.collective.clone(), jobs }))
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
        Lane::new(host.transport(rank), (self.codec)(), clock)
    }
}

fn codec(compression: Compression) -> fn() -> Box<dyn Compressor> {
    match compression {
        Compression::None => || Box::new(Identity),
    }
}

fn trainer(strategy: impl Strategy + 'static, evaluated: Option<&str>) -> Roles {
    Roles { trainer: Some(Box::new(strategy)), services: vec![], evaluated: evaluated.map(Into::into) }
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
