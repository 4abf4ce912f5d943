//! A world to run a strategy in.

use super::aftermath::{self, Aftermath};
use super::blocked::blocked;
use super::choices::Choices;
use super::cost::Costs;
use super::fault::Faults;
use super::kernel::{Kernel, Next, Wait};
use super::lanes::{Lane, coroutines, unwind};
use super::outcome::{RankLog, WorldError, WorldOutcome, outcome};
use super::runtime::SimRuntime;
use crate::blueprint::RankSetup;
use crate::emulation::{ComputeModel, Fabric, Link, Parts, Slowness};
use crate::{Blueprint, CommQueue, LaneBody, Learner, Roles, Runtime, StepError};
use corosensei::CoroutineResult;
use recipe::{PlannedFault, RunSpec};
use record::{Nanos, Rank};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// A world: what things cost, who is slow, and the seed of everything that is left to chance.
#[derive(Clone, Debug)]
pub struct World {
    /// Decides ties and jitter: another seed is another interleaving.
    pub seed: u64,
    /// Time of each kind of work.
    pub costs: Costs,
    /// Latency and bandwidth between ranks.
    pub link: Link,
    /// Factors on the cost of a rank's work.
    pub slow: BTreeMap<Rank, f64>,
    /// Divisors of a rank's bandwidth.
    pub slow_links: BTreeMap<Rank, f64>,
    /// Stated times of work in place of its costs, by rank.
    pub paces: BTreeMap<Rank, ComputeModel>,
    /// Each piece of work takes up to this share longer.
    pub jitter: f64,
    /// Faults at steps of ranks; a rank that one of them ends leads to a deadlock, unless waits have a deadline.
    pub faults: Vec<PlannedFault>,
    /// Bytes that may be on their way from one rank to another before it takes them out, as in the real transports,
    /// where a larger message goes alone; without end where there is no number.
    pub window: Option<u64>,
    /// Tries orders one by one, instead of what the seed says.
    pub choices: Option<Arc<Mutex<Choices>>>,
}

impl World {
    /// A world in which work takes no time and a link has 1 us latency and 10 GB/s.
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            costs: Costs::default(),
            link: Link { latency: Nanos(1000), nanos_per_byte: 0.1 },
            slow: BTreeMap::new(),
            slow_links: BTreeMap::new(),
            paces: BTreeMap::new(),
            jitter: 0.0,
            faults: Vec::new(),
            window: None,
            choices: None,
        }
    }

    /// The same under what a run pretends and lets go wrong: its network, its step times, its slow ranks, its faults. `layers` are those of the
    /// learners' layout.
    #[must_use]
    pub fn emulating(mut self, spec: &RunSpec, seed: u64, layers: usize, parameter_count: usize) -> Self {
        let emulation = &spec.emulation;
        self.faults.clone_from(&spec.faults);
        if let Some(network) = emulation.network {
            self.link = Link::of(&network);
        }
        for rank in (0..spec.cluster.ranks()).map(Rank) {
            let slowness = Slowness::of(emulation, seed, spec.cluster.workers(), rank);
            self.slow_links.insert(rank, slowness.link());
            let parts = Parts::by_arithmetic(&spec.model, layers);
            self.paces.insert(rank, ComputeModel::of(spec, seed, rank, parts, parameter_count));
        }
        self
    }

    /// Runs a strategy; `learner` makes the model of each rank that trains.
    pub fn run(
        &self,
        blueprint: &Blueprint,
        learner: impl Fn(Rank) -> Box<dyn Learner>,
    ) -> Result<WorldOutcome, WorldError> {
        let roles =
            |rank: Rank, runtime: &dyn Runtime, comm: &CommQueue| blueprint.roles(rank, runtime, comm);
        self.run_lanes(blueprint.ranks().len(), |runtime| built(blueprint, &learner, &roles, runtime))
    }

    /// Runs roles that were built elsewhere: for methods under development and tests.
    pub fn run_roles(
        &self,
        blueprint: &Blueprint,
        learner: impl Fn(Rank) -> Box<dyn Learner>,
        roles: impl Fn(Rank, &dyn Runtime, &CommQueue) -> Roles,
    ) -> Result<WorldOutcome, WorldError> {
        let roles = |rank: Rank, runtime: &dyn Runtime, comm: &CommQueue| Ok(roles(rank, runtime, comm));
        self.run_lanes(blueprint.ranks().len(), |runtime| built(blueprint, &learner, &roles, runtime))
    }

    /// Runs lanes of `ranks` ranks that were built elsewhere: for tests without a strategy.
    pub fn run_lanes(
        &self,
        ranks: usize,
        lanes: impl FnOnce(&dyn Runtime) -> Result<Vec<LaneBody>, StepError>,
    ) -> Result<WorldOutcome, WorldError> {
        let (kernel, logs, bodies) = self.set_out(ranks, lanes)?;
        schedule(&kernel, bodies)?;
        Ok(outcome(&kernel, logs))
    }

    /// Runs a strategy in a world in which something goes wrong.
    pub fn run_into(
        &self,
        faults: &Faults,
        blueprint: &Blueprint,
        learner: impl Fn(Rank) -> Box<dyn Learner>,
    ) -> Result<Aftermath, WorldError> {
        let roles =
            |rank: Rank, runtime: &dyn Runtime, comm: &CommQueue| blueprint.roles(rank, runtime, comm);
        let lanes = |runtime: &dyn Runtime| built(blueprint, &learner, &roles, runtime);
        let (kernel, logs, bodies) = self.set_out(blueprint.ranks().len(), lanes)?;
        kernel.expect(faults);
        let endings = aftermath::schedule(&kernel, &mut coroutines(&kernel, bodies)?)?;
        let origin = kernel.lock().origin;
        Ok(Aftermath { outcome: outcome(&kernel, logs), origin, endings })
    }

    /// A kernel with these lanes.
    fn set_out(
        &self,
        ranks: usize,
        lanes: impl FnOnce(&dyn Runtime) -> Result<Vec<LaneBody>, StepError>,
    ) -> Result<Journey, WorldError> {
        let divisor = |rank| self.slow_links.get(&rank).copied().unwrap_or(1.0);
        let fabric = Fabric::new(self.link, ranks, divisor);
        let kernel =
            Kernel::new(self.seed, ranks, fabric).choosing(self.choices.clone()).limited(self.window);
        let kernel = Arc::new(kernel);
        let logs: Vec<Arc<Mutex<RankLog>>> = (0..ranks).map(|_| Arc::default()).collect();
        let runtime = SimRuntime {
            kernel: kernel.clone(),
            costs: self.costs.clone(),
            slow: self.slow.clone(),
            paces: self.paces.clone(),
            jitter: self.jitter,
            faults: self.faults.clone(),
            logs: logs.clone(),
        };
        let bodies = lanes(&runtime).map_err(WorldError::Unbuildable)?;
        for body in &bodies {
            kernel.enlist(body.rank, body.lane);
        }
        Ok((kernel, logs, bodies))
    }
}

/// A kernel, what its ranks will leave, and the lanes that it will run.
type Journey = (Arc<Kernel>, Vec<Arc<Mutex<RankLog>>>, Vec<LaneBody>);

/// The lanes of all ranks of a blueprint.
fn built(
    blueprint: &Blueprint,
    learner: &impl Fn(Rank) -> Box<dyn Learner>,
    roles: &impl Fn(Rank, &dyn Runtime, &CommQueue) -> Result<Roles, StepError>,
    runtime: &dyn Runtime,
) -> Result<Vec<LaneBody>, StepError> {
    let mut bodies = Vec::new();
    for rank in blueprint.ranks().iter().copied() {
        let comm = CommQueue::new(runtime.bell(format!("all-reduces of rank {rank}")));
        let roles = roles(rank, runtime, &comm)?;
        let learner = roles.trainer.is_some().then(|| learner(rank));
        bodies.extend(blueprint.lanes_of(RankSetup { rank, roles, learner, comm }, runtime)?);
    }
    Ok(bodies)
}

/// The whole simulation: takes the next event in time; the lane that it wakes runs until it waits again.
fn schedule(kernel: &Arc<Kernel>, bodies: Vec<LaneBody>) -> Result<(), WorldError> {
    let mut lanes = coroutines(kernel, bodies)?;
    let ended = run_until_quiet(kernel, &mut lanes);
    let blocked = blocked(&kernel.lock());
    if !blocked.is_empty() {
        unwind(kernel, &mut lanes);
    }
    match ended {
        Err(failure) => Err(failure),
        Ok(()) if blocked.is_empty() => Ok(()),
        Ok(()) => Err(WorldError::Deadlock(blocked)),
    }
}

fn run_until_quiet(kernel: &Kernel, lanes: &mut [Lane]) -> Result<(), WorldError> {
    loop {
        let actor = match kernel.advance() {
            Next::Ready(actor) => actor,
            Next::Later => continue,
            Next::Quiet => return Ok(()),
        };
        if let CoroutineResult::Return(result) = lanes[actor].resume(()) {
            let mut state = kernel.lock();
            state.actors[actor].wait = Wait::Done;
            let rank = state.actors[actor].rank;
            let lane = state.actors[actor].lane;
            result.map_err(|source| WorldError::Failed { rank, lane, source })?;
        }
    }
}
