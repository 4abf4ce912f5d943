//! Everything that a strategy can see and do. Each operation times itself.

mod communicate;
mod exchange;
mod gradient;
mod layers;
mod meeting;
mod travelling;
mod update;
mod weights;

use crate::all_reduce::{AllReduce, CommQueue};
use crate::group::Group;
use crate::learner::{Batch, Learner};
use crate::optimizer::Optimizer;
use crate::service_context::{RankInfo, ServiceContext};
use crate::vector::{Layout, Vector};
use crate::{Kind, Lane, StateError, StateVisitor, Tag};
use record::{BatchShare, Nanos, Rank, UsageRecord};

use exchange::Exchange;
pub(crate) use exchange::GradientRoute;
pub use travelling::{Averaging, Travelling};

/// The gradient of one layer, ready while the backward pass continues.
#[derive(Debug)]
pub struct LayerGradient {
    /// Index of the layer in the layout.
    pub layer: usize,
    /// One element per weight of the layer.
    pub gradient: Vector,
}

/// The context of a strategy: the compute lane of a rank with the model, its weights, and the optimizer.
pub struct WorkerContext {
    service: ServiceContext,
    learner: Box<dyn Learner>,
    weights: Vector,
    optimizer: Optimizer,
    all_reduce: AllReduce,
    comm: CommQueue,
    exchange: Exchange,
    trainers: Group,
    batch: Batch,
    // Of the activations that the next pass takes through a layer.
    share: BatchShare,
    next_backward: usize,
    accumulated: Option<Accumulated>,
    t: u64,
    consumed: u64,
    calls: u32,
    // The most bytes that a forward pass kept.
    kept: usize,
    // Communication and waiting in all exchanges of activations.
    exchanging: Nanos,
    // Counted apart: one group may exchange activations more often in a step than another.
    exchanges: u32,
    // Free vectors of the model's length: a step allocates nothing of that size.
    spare: Vec<Vector>,
}

/// The gradient of a batch that is computed in micro-batches, without the last one.
struct Accumulated {
    /// Their mean gradients, each times its share of the samples.
    sum: Vector,
    /// The share of the last micro-batch.
    last: f32,
}

/// The parts of a worker's context.
pub(crate) struct WorkerParts {
    /// Facts about the rank, and its compute lane.
    pub(crate) service: ServiceContext,
    /// Group of all workers.
    pub(crate) trainers: Group,
    /// The model and the data.
    pub(crate) learner: Box<dyn Learner>,
    /// All-reduces on the compute lane.
    pub(crate) all_reduce: AllReduce,
    /// All-reduces on the communication lane.
    pub(crate) comm: CommQueue,
    /// Division of gradients, and the lane on which they travel.
    pub(crate) route: GradientRoute,
    /// The optimizer of the recipe, at rest.
    pub(crate) optimizer: Optimizer,
}

impl WorkerContext {
    /// A context with the learner's initial weights.
    pub(crate) fn new(parts: WorkerParts) -> Self {
        let WorkerParts { service, trainers, learner, all_reduce, comm, route, optimizer } = parts;
        let weights = learner.initial();
        let exchange = Exchange::new(route, learner.layout());
        Self {
            service,
            learner,
            weights,
            optimizer,
            all_reduce,
            comm,
            exchange,
            trainers,
            batch: Batch::default(),
            share: BatchShare::WHOLE,
            next_backward: 0,
            accumulated: None,
            t: 0,
            consumed: 0,
            calls: 0,
            kept: 0,
            exchanging: Nanos(0),
            exchanges: 0,
            spare: Vec::new(),
        }
    }

    // Facts.

    /// Workers come first, then servers.
    pub fn rank(&self) -> Rank {
        self.service.info.rank
    }

    /// Facts about the rank and the run.
    pub fn info(&self) -> &RankInfo {
        &self.service.info
    }

    /// The group of the workers.
    pub fn trainers(&self) -> &Group {
        &self.trainers
    }

    /// The current step, from 1; 0 before the first.
    pub fn t(&self) -> u64 {
        self.t
    }

    /// Samples consumed by all ranks together before the step, as far as this rank knows.
    pub fn consumed(&self) -> u64 {
        self.consumed
    }

    /// The learning rate of the step: a function of the samples consumed before it.
    pub fn rate(&self) -> f32 {
        self.service.info.plan.learning_rate.at(self.consumed)
    }

    /// The span of each layer in the weights.
    pub fn layout(&self) -> &Layout {
        self.learner.layout()
    }

    /// The weights of the model.
    pub fn weights(&self) -> &Vector {
        &self.weights
    }

    /// The weights of the model, to change them in place.
    pub fn weights_mut(&mut self) -> &mut Vector {
        &mut self.weights
    }

    /// Sets the samples that all ranks together have consumed, as a server knows them: the rate of the step follows.
    pub fn set_consumed(&mut self, consumed: u64) {
        self.consumed = consumed;
    }

    /// A fresh tag: counts the calls of the step, which every rank makes in the same order; exchanges of activations, which the
    /// ranks of a group make in the same order, are counted by themselves.
    pub fn tag(&mut self, kind: Kind) -> Tag {
        let calls = if kind == Kind::Exchange { &mut self.exchanges } else { &mut self.calls };
        *calls += 1;
        Tag { call: *calls, ..Tag::new(kind, self.t) }
    }

    /// The compute lane as a service sees it, for protocols that workers and services share.
    pub fn service(&mut self) -> &mut ServiceContext {
        &mut self.service
    }

    /// The same beside the weights.
    pub fn split(&mut self) -> (&mut ServiceContext, &mut Vector) {
        (&mut self.service, &mut self.weights)
    }

    /// The compute lane, with its transport, codecs and clock.
    pub fn lane(&mut self) -> &mut Lane {
        &mut self.service.lane
    }

    // For the loop that drives the strategy.

    pub(crate) fn begin(&mut self, t: u64, consumed: u64) {
        self.t = t;
        self.consumed = consumed;
        self.calls = 0;
        self.exchanges = 0;
    }

    /// The weights, the optimizer, and what the lane remembers.
    pub(crate) fn state(&mut self, state: &mut StateVisitor<'_>) -> Result<(), StateError> {
        state.vector("weights", &mut self.weights)?;
        let length = self.weights.len();
        state.within("optimizer", |state| self.optimizer.state(length, state))?;
        self.all_reduce.state(state)?;
        state.within("exchange", |state| self.exchange.state(self.learner.layout(), state))?;
        state.within("lane", |state| self.service.lane.state(state))
    }

    /// Memory held, and time spent in exchanges of activations, in `steps` steps.
    pub(crate) fn usage(&self, steps: u64) -> UsageRecord {
        let bytes = |elements: usize| (size_of::<f32>() * elements) as u64;
        let spare: usize = self.spare.iter().map(|vector| vector.len()).sum();
        UsageRecord {
            rank: self.rank(),
            weights: bytes(self.weights.len()),
            gradients: bytes(spare + self.exchange.kept_elements()),
            optimizer: bytes(self.optimizer.remembered()),
            activations: self.kept as u64,
            steps,
            exchanging: self.exchanging,
        }
    }

    pub(crate) fn close_comm_queue(&self) {
        self.comm.close();
    }
}
