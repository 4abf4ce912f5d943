//! The lanes of one rank: contexts, recorders, and the loops that drive them.

use super::Blueprint;
use crate::all_reduce::CommQueue;
use crate::compress::{LaneCodecs, Origin};
use crate::group::Group;
use crate::lane_loops;
use crate::learner::Learner;
use crate::runtime::{Gate, Runtime};
use crate::service_context::{RankInfo, ServiceContext};
use crate::step_recorder::{Digests, Samples, StepRecorder};
use crate::strategy::{Evaluated, Roles};
use crate::worker_context::{WorkerContext, WorkerParts};
use crate::{Lane, State, StateError, StepError};
use record::{LaneId, Overlap, PhaseClock, Rank, Trace};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The work of one lane from beginning to end.
pub type Body = Box<dyn FnOnce() -> Result<(), StepError> + Send>;

/// A lane that is ready to run, on a thread or as a coroutine.
pub struct LaneBody {
    /// The rank of the lane.
    pub rank: Rank,
    /// The lane of the rank.
    pub lane: LaneId,
    /// The work of the lane. It returns a panic as an error.
    pub run: Body,
}

/// A rank whose lanes are to be built.
pub struct RankSetup {
    /// Workers come first, then servers.
    pub rank: Rank,
    /// Trainer, services and attendants of the rank.
    pub roles: Roles,
    /// The model of a rank that trains.
    pub learner: Option<Box<dyn Learner>>,
    /// The queue between its compute lane and its communication lane.
    pub comm: CommQueue,
}

impl Blueprint {
    /// The lanes of one rank. A rank that trains needs a learner.
    pub fn lanes(
        &self,
        rank: Rank,
        learner: Option<Box<dyn Learner>>,
        runtime: &dyn Runtime,
    ) -> Result<Vec<LaneBody>, StepError> {
        let comm = CommQueue::new(runtime.bell(format!("all-reduces of rank {rank}")));
        let roles = self.roles(rank, runtime, &comm)?;
        self.lanes_of(RankSetup { rank, roles, learner, comm }, runtime)
    }

    /// The lanes of one rank with roles that were built elsewhere: for methods under development and tests.
    pub fn lanes_of(&self, setup: RankSetup, runtime: &dyn Runtime) -> Result<Vec<LaneBody>, StepError> {
        let RankSetup { rank, roles, learner, comm } = setup;
        let Roles { trainer, services, attendants, evaluated } = roles;
        let trains = trainer.is_some();
        let lanes = services.len() + usize::from(trains);
        let all = services.iter().chain(&attendants).map(|service| service.lane());
        check_lanes(rank, trains.then_some(LaneId::Compute).into_iter().chain(all))?;
        let rank = RankLanes {
            blueprint: self,
            info: self.info(rank)?,
            runtime,
            gate: runtime.gate(rank, lanes + attendants.len()),
            // Only a rank that trains on one lane and communicates on another can hide anything.
            overlap: (trains && lanes > 1).then(Arc::<Overlap>::default),
        };
        let mut bodies = Vec::with_capacity(lanes + attendants.len());
        if let Some(strategy) = trainer {
            let ctx = self.worker_context(rank.context(LaneId::Compute)?, learner, comm)?;
            let gate = rank.gate.clone();
            let recorder = rank.recorder(LaneId::Compute, evaluated.clone());
            let state = self.state_of(rank.info.rank, LaneId::Compute)?;
            let run = guarded(move || lane_loops::train(ctx, strategy, gate.as_ref(), &recorder, state));
            bodies.push(LaneBody { rank: rank.info.rank, lane: LaneId::Compute, run });
        }
        for service in services {
            let lane = service.lane();
            let ctx = rank.context(lane)?;
            let gate = rank.gate.clone();
            let recorder = rank.recorder(lane, evaluated.clone().filter(|_| !trains));
            let state = self.state_of(rank.info.rank, lane)?;
            let run = guarded(move || lane_loops::serve(ctx, service, gate.as_ref(), &recorder, state));
            bodies.push(LaneBody { rank: rank.info.rank, lane, run });
        }
        for service in attendants {
            let lane = service.lane();
            let ctx = rank.context_beside()?;
            let gate = rank.gate.clone();
            let recorder = rank.recorder(lane, evaluated.clone());
            let run = guarded(move || lane_loops::attend(ctx, service, gate.as_ref(), &recorder));
            bodies.push(LaneBody { rank: rank.info.rank, lane, run });
        }
        Ok(bodies)
    }

    fn worker_context(
        &self,
        service: ServiceContext,
        learner: Option<Box<dyn Learner>>,
        comm: CommQueue,
    ) -> Result<WorkerContext, StepError> {
        let (Some(learner), Some(trainers)) = (learner, service.info.trainers.clone()) else {
            return Err(StepError::Learner(format!("rank {} trains, but has no model", service.info.rank)));
        };
        let all_reduce = self.all_reduce();
        Ok(WorkerContext::new(WorkerParts {
            service,
            trainers,
            learner,
            all_reduce,
            comm,
            route: self.route(),
            optimizer: self.optimizer(),
        }))
    }

    /// The state from which a lane continues; `None` for a run that begins.
    fn state_of(&self, rank: Rank, lane: LaneId) -> Result<Option<State>, StepError> {
        match self.resumed.get(&(rank, lane)) {
            Some(state) => Ok(Some(state.clone())),
            None if self.resumed.is_empty() => Ok(None),
            None => Err(StateError::Missing { name: format!("lane {lane}") }.into()),
        }
    }

    fn info(&self, rank: Rank) -> Result<RankInfo, StepError> {
        let everyone = Group::new(&self.everyone, rank).ok_or_else(|| StepError::Transport {
            rank,
            reason: format!("the run has only {} ranks", self.everyone.len()),
        })?;
        let trainers = Group::new(&self.trainers, rank);
        Ok(RankInfo { rank, everyone, trainers, plan: self.plan.clone() })
    }

    fn lane(&self, rank: Rank, runtime: &dyn Runtime) -> Result<Lane, StepError> {
        let trace = Trace { first_steps: self.measure.trace_first_steps, every: self.measure.trace_every };
        let clock = PhaseClock::new(runtime.clock(rank), trace);
        let origin = Origin { seed: self.plan.seed(), rank };
        let LaneCodecs { gradients, weights } =
            LaneCodecs::build(self.compression, origin, || self.registry.codec(self.custom_codec.as_ref()))?;
        let gradients = self.codec.map_or(gradients, |codec| codec());
        let lane = Lane::new(runtime.transport(rank), gradients, clock).coding_weights(weights);
        Ok(if self.all_reduce().projects() { lane.projecting_gradients() } else { lane })
    }
}

/// The parts that the lanes of a rank have in common.
struct RankLanes<'a> {
    blueprint: &'a Blueprint,
    info: RankInfo,
    runtime: &'a dyn Runtime,
    gate: Arc<dyn Gate>,
    overlap: Option<Arc<Overlap>>,
}

impl RankLanes<'_> {
    /// The context of a lane of the method.
    fn context(&self, lane: LaneId) -> Result<ServiceContext, StepError> {
        let mut ctx = self.context_beside()?;
        if let Some(overlap) = &self.overlap {
            ctx.lane.clock.beside(overlap.clone(), lane);
        }
        Ok(ctx)
    }

    /// The context of a lane of the measurement, which hides nothing.
    fn context_beside(&self) -> Result<ServiceContext, StepError> {
        let rank = self.info.rank;
        Ok(ServiceContext {
            info: self.info.clone(),
            lane: self.blueprint.lane(rank, self.runtime)?,
            observer: self.runtime.observer(rank),
        })
    }

    fn recorder(&self, lane: LaneId, evaluated: Option<Evaluated>) -> StepRecorder {
        let measure = self.blueprint.measure;
        StepRecorder {
            observer: self.runtime.observer(self.info.rank),
            lane,
            evaluated,
            digests: if measure.hash_every_step { Digests::OfEveryStep } else { Digests::OfSnapshots },
            samples: if measure.samples { Samples::Recorded } else { Samples::Unrecorded },
        }
    }
}

/// Records name a lane by its purpose, so that no two lanes of a rank have the same.
fn check_lanes(rank: Rank, lanes: impl Iterator<Item = LaneId>) -> Result<(), StepError> {
    let mut seen = BTreeSet::new();
    for lane in lanes {
        if !seen.insert(lane) {
            return Err(StepError::Environment(format!(
                "rank {rank} has two lanes `{lane}`; give each service a `LaneId` of its own"
            )));
        }
    }
    Ok(())
}

/// A panic in a lane is an error of that lane, or the others would wait for it in vain.
fn guarded(body: impl FnOnce() -> Result<(), StepError> + Send + 'static) -> Body {
    Box::new(|| {
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(body))
            .unwrap_or_else(|cause| Err(StepError::Panicked(panic_text(cause.as_ref()))))
    })
}

/// The message of a panic.
pub fn panic_text(cause: &(dyn std::any::Any + Send)) -> String {
    let text = cause.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| cause.downcast_ref::<String>().cloned()).unwrap_or_else(|| "for an unknown reason".into())
}
