//! A world to run a strategy in, and its outcome.

use super::choices::Choices;
use super::cost::Costs;
use super::fault::{self, Aftermath, Faults};
use super::kernel::{Actor, Kernel, Next, State, Wait};
use super::runtime::SimRuntime;
use crate::blueprint::RankSetup;
use crate::emulation::{ComputeModel, Fabric, Link, Parts, Slowness};
use crate::{Blueprint, Checkpoint, CommQueue, LaneBody, Learner, Roles, Runtime, StepError, Vector};
use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use recipe::{PlannedFault, RunSpec};
use record::{Event, LaneId, Nanos, Rank, StepRecord};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// Pages are touched lazily, so a stack costs what it uses; 16 KiB are too few in an unoptimised build.
const STACK: usize = 256 << 10;

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
    /// Faults at steps of ranks; a rank that one of them ends makes the world a deadlock, unless waits have a deadline.
    pub faults: Vec<PlannedFault>,
    /// Bytes that may be on their way from one rank to another before it takes them out, as in the real transports,
    /// where a larger message goes alone; without end where there is no number.
    pub window: Option<u64>,
    /// Tries orders one by one, instead of what the seed says.
    pub choices: Option<Arc<Mutex<Choices>>>,
}

/// A run that ended.
#[derive(Debug)]
pub struct WorldOutcome {
    /// Records of all ranks, in their order.
    pub ranks: Vec<RankOutcome>,
    /// When the last lane ended, since the start of the run.
    pub time: Nanos,
    /// Number of messages sent by all ranks.
    pub messages: u64,
    /// Bytes of these messages, as they were encoded.
    pub bytes: u64,
    /// How often the scheduler changed lanes.
    pub switches: u64,
}

/// The records of a rank.
#[derive(Debug)]
pub struct RankOutcome {
    /// Everything it recorded, in order.
    pub events: Vec<Event>,
    /// Its model after each step that was hashed; the last entry is the final one.
    pub weights: BTreeMap<u64, Vector>,
    /// Its own model beside a centre that it holds, whose digest stands for it.
    pub beside: BTreeMap<u64, Vector>,
    /// The checkpoints of its lanes, in order.
    pub checkpoints: Vec<Checkpoint>,
}

impl RankOutcome {
    /// The model that the rank ended with.
    pub fn model(&self) -> &Vector {
        static NONE: std::sync::LazyLock<Vector> = std::sync::LazyLock::new(Vector::default);
        self.weights.last_key_value().map_or(&NONE, |(_, weights)| weights)
    }

    /// The steps of one lane.
    pub fn steps(&self, lane: LaneId) -> Vec<&StepRecord> {
        let steps = self.events.iter().filter_map(|event| match event {
            Event::Step(step) if step.lane == lane => Some(step),
            _ => None,
        });
        steps.collect()
    }
}

/// The records of a rank, while it runs.
#[derive(Default)]
pub(super) struct RankLog {
    pub(super) events: Vec<Event>,
    pub(super) weights: BTreeMap<u64, Vector>,
    pub(super) beside: BTreeMap<u64, Vector>,
    pub(super) checkpoints: Vec<Checkpoint>,
}

/// Why a world came to an end too early.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the message of each variant says what its fields are")]
pub enum WorldError {
    /// Nothing can happen any more, but lanes still wait.
    #[error("deadlock: {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Deadlock(Vec<Blocked>),
    /// A lane returned an error.
    #[error("{lane} of rank {rank}: {source}")]
    Failed { rank: Rank, lane: LaneId, source: StepError },
    /// The lanes could not be built.
    #[error(transparent)]
    Unbuildable(StepError),
    /// The system gave no memory for a stack.
    #[error("no memory for the stack of a lane: {0}")]
    Stack(std::io::Error),
}

/// A lane that waits for what will never come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// The rank of the lane.
    pub rank: Rank,
    /// Its purpose on its rank.
    pub lane: LaneId,
    /// Object of its wait, as the end of a sentence.
    pub wants: String,
    /// Since when, on the world's clock.
    pub since: Nanos,
    /// Whether it is part of a cycle of lanes that wait for each other.
    pub on_cycle: bool,
}

impl fmt::Display for Blocked {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "rank {} {} waits for {} since {}", self.rank, self.lane, self.wants, self.since)
    }
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
        let endings = fault::schedule(&kernel, &mut coroutines(&kernel, bodies)?)?;
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
        let runtime = SimRuntime { kernel: kernel.clone(), world: self.clone(), logs: logs.clone() };
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

fn outcome(kernel: &Kernel, logs: Vec<Arc<Mutex<RankLog>>>) -> WorldOutcome {
    let ranks = logs.into_iter().map(|log| {
        let log = std::mem::take(&mut *log.lock().unwrap_or_else(PoisonError::into_inner));
        RankOutcome {
            events: log.events,
            weights: log.weights,
            beside: log.beside,
            checkpoints: log.checkpoints,
        }
    });
    let ranks = ranks.collect();
    let State { now, origin, messages, bytes, switches, .. } = *kernel.lock();
    WorldOutcome { ranks, time: now - origin, messages, bytes, switches }
}

/// A lane that can be left and entered again.
pub(super) type Lane = Coroutine<(), (), Result<(), StepError>>;

/// The lanes, each on a stack of its own.
fn coroutines(kernel: &Arc<Kernel>, bodies: Vec<LaneBody>) -> Result<Vec<Lane>, WorldError> {
    let mut lanes = Vec::with_capacity(bodies.len());
    for (actor, body) in bodies.into_iter().enumerate() {
        let stack = DefaultStack::new(STACK).map_err(WorldError::Stack)?;
        let kernel = kernel.clone();
        let lane: Lane = Coroutine::with_stack(stack, move |yielder: &Yielder<(), ()>, ()| {
            kernel.register(actor, yielder);
            (body.run)()
        });
        lanes.push(lane);
    }
    Ok(lanes)
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

/// Lets every lane that still waits leave through its own errors, so that destructors run.
pub(super) fn unwind(kernel: &Kernel, lanes: &mut [Lane]) {
    kernel.lock().stopping = true;
    for (actor, lane) in lanes.iter_mut().enumerate() {
        while lane.started() && !lane.done() {
            kernel.lock().current = actor;
            lane.resume(());
        }
    }
}

/// The lanes that wait, those on a cycle first.
pub(super) fn blocked(state: &State) -> Vec<Blocked> {
    let waiting: Vec<Actor> =
        (0..state.actors.len()).filter(|actor| !matches!(state.actors[*actor].wait, Wait::Done)).collect();
    let cycle = cycle(state);
    let mut blocked: Vec<Blocked> = waiting
        .into_iter()
        .map(|actor| {
            let lane = &state.actors[actor];
            let on_cycle = cycle.contains(&lane.rank);
            Blocked {
                rank: lane.rank,
                lane: lane.lane,
                wants: wants(&lane.wait),
                since: lane.since,
                on_cycle,
            }
        })
        .collect();
    blocked.sort_by_key(|lane| (!lane.on_cycle, lane.rank, lane.lane));
    blocked
}

fn wants(wait: &Wait) -> String {
    match wait {
        Wait::Message { from: Some(from), tag: Some(tag), .. } => format!("{tag} from rank {from}"),
        Wait::Message { kind, .. } => format!("any {kind:?}"),
        Wait::Credit { to, tag, .. } => format!("room to send {tag} to rank {to}"),
        Wait::Bell(name) => name.to_string(),
        Wait::Start => "the start".into(),
        Wait::Time | Wait::Running | Wait::Done => "nothing".into(),
    }
}

/// The ranks on a cycle of waits for a particular rank, if there is one.
fn cycle(state: &State) -> Vec<Rank> {
    let waits_for: BTreeMap<Rank, Rank> = state
        .actors
        .iter()
        .filter_map(|actor| match actor.wait {
            Wait::Message { rank, from: Some(from), .. } => Some((rank, from)),
            Wait::Credit { from, to, .. } => Some((from, to)),
            _ => None,
        })
        .collect();
    for start in waits_for.keys() {
        let mut path = vec![*start];
        while let Some(next) = path.last().and_then(|rank| waits_for.get(rank)) {
            if let Some(begin) = path.iter().position(|rank| rank == next) {
                return path.split_off(begin);
            }
            path.push(*next);
        }
    }
    Vec::new()
}
