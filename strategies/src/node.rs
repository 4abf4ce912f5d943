//! All that a strategy can see and do. Everything here times itself.

mod communicate;
mod cursor;
mod gradient;
mod update;
mod weights;

use crate::collective::Collective;
use crate::desk::{Desk, Seat};
use crate::host::Shared;
use crate::learner::{Batch, Learner};
use crate::messenger::Jobs;
use crate::optimizer::Optimizer;
use crate::vector::{Layout, Vector};
use crate::{Group, Kind, Lane, Tag};
use record::Rank;
use std::sync::Arc;

/// The gradient of one layer, on its way out while the backward pass goes on.
#[derive(Debug)]
pub struct LayerGradient {
    /// Which layer.
    pub layer: usize,
    /// Its gradient.
    pub gradient: Vector,
}

/// The compute lane of a rank: a desk, a model, its weights, and the one optimizer.
pub struct Node {
    desk: Desk,
    learner: Box<dyn Learner>,
    params: Vector,
    optimizer: Optimizer,
    collective: Arc<dyn Collective>,
    jobs: Shared<Jobs>,
    trainers: Group,
    batch: Batch,
    next_backward: usize,
    accumulated: Option<Accumulated>,
    t: u64,
    consumed: u64,
    calls: u32,
    // Vectors of the model's length that are free: a step allocates nothing of that size.
    spare: Vec<Vector>,
}

/// What the pieces of a batch before the last one gave.
struct Accumulated {
    /// Their mean gradients, each times its share of the samples.
    sum: Vector,
    /// The share of the last piece.
    last: f32,
}

/// What a node is made of.
pub struct Parts {
    /// Who it is, and its lane.
    pub desk: Desk,
    /// The workers.
    pub trainers: Group,
    /// The model and the data.
    pub learner: Box<dyn Learner>,
    /// The all-reduce.
    pub collective: Arc<dyn Collective>,
    /// The queue of the communication lane.
    pub jobs: Shared<Jobs>,
}

impl Node {
    /// A node with the learner's initial weights.
    pub fn new(parts: Parts) -> Self {
        let Parts { desk, trainers, learner, collective, jobs } = parts;
        let optimizer = Optimizer::new(desk.seat.course.optimizer());
        let params = learner.initial();
        Self {
            desk,
            learner,
            params,
            optimizer,
            collective,
            jobs,
            trainers,
            batch: Batch::default(),
            next_backward: 0,
            accumulated: None,
            t: 0,
            consumed: 0,
            calls: 0,
            spare: Vec::new(),
        }
    }

    // Where am I.

    /// My rank.
    pub fn rank(&self) -> Rank {
        self.desk.seat.rank
    }

    /// Who I am.
    pub fn seat(&self) -> &Seat {
        &self.desk.seat
    }

    /// The workers, and my place among them.
    pub fn trainers(&self) -> &Group {
        &self.trainers
    }

    /// The step I am in, from 1; 0 before the first.
    pub fn t(&self) -> u64 {
        self.t
    }

    /// Samples consumed by all ranks together before the step, as far as I know.
    pub fn consumed(&self) -> u64 {
        self.consumed
    }

    /// The learning rate of the step: a function of the samples consumed before it.
    pub fn rate(&self) -> f32 {
        self.desk.seat.course.rate(self.consumed)
    }

    /// Which weights belong to which layer.
    pub fn layout(&self) -> &Layout {
        self.learner.layout()
    }

    /// My weights.
    pub fn params(&self) -> &Vector {
        &self.params
    }

    /// My weights, to change them in place.
    pub fn params_mut(&mut self) -> &mut Vector {
        &mut self.params
    }

    /// A server says how many samples all ranks together have consumed: the rate of the step follows.
    pub fn is_told(&mut self, consumed: u64) {
        self.consumed = consumed;
    }

    /// A fresh tag: counts the calls of the step, which every rank makes in the same order.
    pub fn tag(&mut self, kind: Kind) -> Tag {
        self.calls += 1;
        Tag { call: self.calls, ..Tag::new(kind, self.t) }
    }

    // For the loop that drives the strategy.

    pub(crate) fn begin(&mut self, t: u64, consumed: u64) {
        (self.t, self.consumed, self.calls) = (t, consumed, 0);
    }

    /// All steps are taken; what is still applied is applied after all samples.
    pub(crate) fn end(&mut self, consumed: u64) {
        self.consumed = consumed;
    }

    /// My lane with my seat, and my weights.
    pub(crate) fn parts(&mut self) -> (&mut Desk, &mut Vector) {
        (&mut self.desk, &mut self.params)
    }

    pub(crate) fn lane(&mut self) -> &mut Lane {
        &mut self.desk.lane
    }

    pub(crate) fn close_jobs(&self) {
        Jobs::close(&self.jobs);
    }
}
