//! PS-Sync: synchronous SGD with a parameter server.
//!
//! Source: Li et al., "Pipe-SGD: A Decentralized Pipelined SGD Framework for Distributed Deep Net Training",
//! NeurIPS 2018, section 2, "Parameter server with synchronous SGD".
//!
//! | paper | here |
//! |---|---|
//! | w on the server | `Server::weights` |
//! | w on a worker | `ctx.weights()` |
//! | gradient of one worker | `g` |
//!
//! Sent per step: one gradient up and one model down per worker. The gradient is coded, the model only with
//! `compression.parameters`; the server keeps its weights as they are. With a schedule of layers both travel bucket by bucket, each
//! as soon as its gradient is there, also while weights of earlier buckets are on their way; the server learns the sizes from the first
//! worker's messages.
//!
//! Departures: the paper sums gradients; here they are averaged over samples. The server adds in rank order,
//! not in order of arrival. The weights may be divided among several servers, each of which does the same to its part. The run is
//! judged by the exact weights: those of the server; of several, where workers get the same bits, those of rank 0, and where
//! the model is coded on its way, the parts of all servers, which the first puts together at each mark.

use crate::schedule::{GradientLane, Part};
use crate::server::Shards;
use crate::{
    GroupRank, Kind, Loss, Optimizer, Service, ServiceContext, ServiceStep, StateVisitor, StepError, Tag,
    Trainer, Vector, WorkerContext,
};
use record::{LaneId, Phase, Work};
use std::borrow::Cow;
use std::ops::Range;

/// A worker: it sends gradients to the servers and takes the new weights from them.
#[derive(Clone, Copy, Debug)]
pub struct Worker {
    /// The servers that hold the weights.
    pub servers: Shards,
    /// The lane on which it exchanges with them.
    pub lane: GradientLane,
}

impl Trainer for Worker {
    fn step(&mut self, ctx: &mut WorkerContext) -> Result<Loss, StepError> {
        match self.lane {
            GradientLane::Compute => {
                let (loss, g) = ctx.gradient()?;
                let g = ctx.weighted(g);
                self.servers.push(ctx, &g)?;
                self.servers.pull(ctx)?;
                ctx.recycle(g);
                Ok(loss)
            }
            GradientLane::Communication => {
                let loss = ctx.forward()?;
                let travelling = ctx.backward_sending()?;
                let w = ctx.arrived(travelling)?;
                w.copy_into(ctx.weights_mut());
                ctx.recycle_parts(w);
                Ok(loss)
            }
        }
    }
}

/// A server, which holds the weights or a part of them.
pub struct Server {
    servers: Shards,
    span: Range<usize>,
    weights: Vector,
    optimizer: Optimizer,
    /// Memory for the sum of each bucket: of this step, and of the one before.
    buffers: Vec<Vector>,
    spare: Vec<Vector>,
    t: u64,
    /// Whether the servers gather their exact parts, because the workers hold only coded ones.
    gathers: bool,
    /// On the first of servers that gather: the whole model after step `gathered_at`.
    whole: Vector,
    gathered_at: u64,
}

/// How the workers receive the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelCoding {
    /// Bit for bit, so that workers hold the weights of the servers.
    Exact,
    /// Through a codec; only the servers hold the exact weights.
    Coded,
}

impl Server {
    /// Server number `server` of these.
    pub fn new(servers: Shards, server: usize, optimizer: Optimizer, coding: ModelCoding) -> Self {
        let span = servers.span(server);
        let weights = Vector::zeros(span.len());
        let gathers = coding == ModelCoding::Coded && servers.servers() > 1;
        Self {
            servers,
            span,
            weights,
            optimizer,
            buffers: Vec::new(),
            spare: Vec::new(),
            t: 0,
            gathers,
            whole: Vector::default(),
            gathered_at: 0,
        }
    }

    /// Updates the weights of the next bucket, which ends at `end`, and returns where it begins.
    fn update(
        &mut self,
        ctx: &mut ServiceContext,
        end: usize,
        call: u32,
        consumed: u64,
    ) -> Result<usize, StepError> {
        let push = Tag { call, ..Tag::new(Kind::Push, self.t) };
        let pull = Tag { call, ..Tag::new(Kind::Pull, self.t) };
        let first = ctx.wire().recv_packet(GroupRank(0), push)?;
        let elements = ctx.wire().elements(&first);
        // A bucket without elements would have no end.
        let Some(at) = end.checked_sub(elements).filter(|at| *at < end || end == 0) else {
            return Err(StepError::Packet { bytes: first.0.len(), elements: end });
        };
        let workers = ctx.info.plan.workers();
        let mut sum = Part { at, values: self.buffer(elements) };
        sum.values.fill(0.0);
        ctx.wire().decode_add(&first, &mut sum.values)?;
        for worker in 1..workers {
            ctx.wire().recv_add(GroupRank(worker), push, &mut sum.values)?;
        }
        ctx.mean(&mut sum.values, workers);
        ctx.apply_part(&mut self.optimizer, &mut self.weights, &mut sum, consumed);
        self.buffers.push(sum.values);
        let mut wire = ctx.wire().weights();
        let packet = wire.encode(wire.slot(GroupRank(0), pull, self.span.start + at), &self.weights[at..end]);
        for worker in 0..workers {
            wire.send_packet(GroupRank(worker), pull, packet.clone())?;
        }
        Ok(at)
    }

    /// Memory of this length: what the bucket of the step before had.
    fn buffer(&mut self, elements: usize) -> Vector {
        let fits = self.spare.iter().position(|buffer| buffer.len() == elements);
        fits.map_or_else(|| Vector::zeros(elements), |found| self.spare.swap_remove(found))
    }

    /// Gathers the exact parts on the first server.
    fn gather(&mut self, ctx: &mut ServiceContext) -> Result<(), StepError> {
        let tag = Tag::new(Kind::Mark, self.t);
        let first = self.servers.place(0);
        if ctx.info.everyone.me() != first {
            return ctx.wire().exact().send(first, tag, self.span.start, &self.weights);
        }
        let Self { whole, weights, span, .. } = self;
        let copy = || whole[span.clone()].copy_from_slice(weights);
        ctx.lane.clock.timed(Phase::Snapshot, Work::Snapshot(weights.len()), copy);
        for server in 1..self.servers.servers() {
            let span = self.servers.span(server);
            ctx.wire().exact().recv_into(self.servers.place(server), tag, &mut self.whole[span])?;
        }
        self.gathered_at = self.t;
        Ok(())
    }
}

impl Service for Server {
    fn lane(&self) -> LaneId {
        LaneId::Clients
    }

    fn start(&mut self, ctx: &mut ServiceContext) -> Result<Option<Vector>, StepError> {
        let mut initial = Vector::zeros(self.servers.parameter_count());
        ctx.recv_broadcast(GroupRank(0), &mut initial)?;
        self.weights.copy_from_slice(&initial[self.span.clone()]);
        if self.gathers {
            self.whole = initial.clone();
        }
        Ok(Some(initial))
    }

    fn step(&mut self, ctx: &mut ServiceContext) -> Result<ServiceStep, StepError> {
        if self.t == ctx.info.plan.budget.steps() {
            return Ok(ServiceStep::Finished);
        }
        self.t += 1;
        let consumed = ctx.info.plan.budget.samples_after(self.t - 1);
        self.spare = std::mem::take(&mut self.buffers);
        let mut end = self.weights.len();
        let mut call = 0;
        loop {
            end = self.update(ctx, end, call, consumed)?;
            if end == 0 {
                break;
            }
            call += 1;
        }
        let samples = ctx.info.plan.budget.samples_after(self.t);
        let last = ctx.info.plan.budget.steps();
        if self.gathers && (self.t == last || ctx.info.plan.evaluations.due(consumed, samples)) {
            self.gather(ctx)?;
        }
        Ok(ServiceStep::Served(samples))
    }

    fn state(&mut self, state: &mut StateVisitor<'_>) -> Result<(), StepError> {
        state.number("t", &mut self.t)?;
        state.vector("weights", &mut self.weights)?;
        let length = self.weights.len();
        Ok(state.within("optimizer", |state| self.optimizer.state(length, state))?)
    }

    /// A part of the weights is not a model.
    fn model(&self) -> Option<Cow<'_, Vector>> {
        if self.servers.servers() == 1 {
            return Some(Cow::Borrowed(&self.weights));
        }
        let is_first = self.servers.span(0) == self.span;
        (is_first && self.gathered_at == self.t && !self.whole.is_empty())
            .then_some(Cow::Borrowed(&self.whole))
    }
}
