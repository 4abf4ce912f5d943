//! Async SGD: asynchronous SGD with a parameter server, first come, first served.
//!
//! Source: You, Buluc and Demmel, "Scaling Deep Learning on GPU and Knights Landing Clusters", SC 2017, section 3.1,
//! after Dean et al., NIPS 2012; the bound on staleness is that of Ho et al., NIPS 2013 (SSP).
//!
//! | paper | here |
//! |---|---|
//! | W on the master | `Locked::weights` |
//! | W on the i-th worker | `ctx.weights()` |
//! | dW_i | `delta` |
//! | eta | `plan.learning_rate`, after the samples of all gradients applied before |
//!
//! Sent per step: one gradient up and one model down per worker, and a note of how far the run is; with `serve = "one"`
//! three words more: the worker asks, the master says that its turn has come, and the worker that it has the model.
//!
//! With `serve = "one"`, the default, the master serves one worker at a time, from its request to the end of the answer, as
//! in the source: "the master only communicates with one worker at a time" (introduction), in the order of requests. With
//! "all" gradients and models of several workers travel at once, and only the update has a lock. The updates are the same.
//!
//! Each of p workers' gradients is an update at the full rate: at one rate the weights move p times as far per sample as
//! those of synchronous SGD, whose update is the mean of all p.
//!
//! Departures: with `adamw` or `lars` the master applies each gradient by that rule in place of W - eta dW_i, and has one memory
//! for the gradients of all workers. Each worker draws from samples of its own pace. The weights may be divided among several masters,
//! each with its own order of gradients; the first gathers the parts of the others for evaluation, each as it is when its
//! master reaches the evaluation point. A worker that is more steps ahead of the slowest than the bound allows
//! gets its answer when the slowest has caught up, with the weights of that moment; meanwhile its turn is over. With
//! several masters a worker has its turn at one after the other, so that none is kept waiting for another, and the first
//! enforces the bound on staleness.

use crate::server::{Centre, Client, Push, ServerState, Shards};
use crate::{
    Loss, Optimizer, Progress, Service, ServiceContext, ServiceStep, StepError, Trainer, Vector,
    WorkerContext,
};
use recipe::Serve;
use record::{LaneId, Phase, Work};

/// A worker: it pushes each gradient to the masters and takes their weights.
#[derive(Debug)]
pub struct Worker {
    servers: Shards,
    serve: Serve,
    progress: Progress,
}

impl Worker {
    /// A worker of these servers, which serve one worker at a time or all.
    pub fn new(servers: Shards, serve: Serve) -> Self {
        Self { servers, serve, progress: Progress { samples: 0, over: false } }
    }
}

impl Trainer for Worker {
    fn step(&mut self, ctx: &mut WorkerContext) -> Result<Loss, StepError> {
        let (loss, delta) = ctx.gradient()?;
        let delta = ctx.clipped(delta);
        self.progress = match self.serve {
            Serve::One => self.servers.exchange_in_turn(ctx, &delta)?,
            Serve::All => {
                self.servers.push(ctx, &delta)?;
                self.servers.pull_with_notes(ctx)?
            }
        };
        ctx.recycle(delta);
        Ok(loss)
    }

    fn progress(&self, _: &WorkerContext) -> Progress {
        self.progress
    }

    fn finish(&mut self, ctx: &mut WorkerContext) -> Result<(), StepError> {
        self.servers.leave_servers(ctx)
    }
}

/// How a master applies a gradient to its weights.
pub trait Rule: Send + 'static {
    /// Changes the weights. The gradient's memory is left with arbitrary content.
    fn update(&mut self, weights: &mut Vector, delta: &mut Vector, rate: f32);
}

/// W <- W - eta dW_i.
impl Rule for Optimizer {
    fn update(&mut self, weights: &mut Vector, delta: &mut Vector, rate: f32) {
        self.apply_gradient(weights, delta, rate);
    }
}

/// Weights that one lane at a time may change.
pub struct Locked<R> {
    weights: Vector,
    rule: R,
}

impl<R: Rule> Locked<R> {
    /// `parameter_count` zeros until weights are loaded; `rule` changes them.
    pub fn new(parameter_count: usize, rule: R) -> Self {
        Self { weights: Vector::zeros(parameter_count), rule }
    }
}

impl<R: Rule> Centre for Locked<R> {
    fn load(&mut self, weights: &[f32]) {
        self.weights.copy_from_slice(weights);
    }

    fn copy(&self, into: &mut [f32]) {
        into.copy_from_slice(&self.weights);
    }
}

/// The master's lane for one worker.
pub struct Master<R> {
    state: ServerState<Locked<R>>,
    client: Client,
    delta: Vector,
}

impl<R: Rule> Master<R> {
    /// The lane for `client` of a master with `parameter_count` weights.
    pub fn new(state: ServerState<Locked<R>>, client: Client, parameter_count: usize) -> Self {
        Self { state, client, delta: Vector::zeros(parameter_count) }
    }

    fn serve(&mut self, ctx: &mut ServiceContext) -> Result<ServiceStep, StepError> {
        let Self { state, client, delta } = self;
        if client.receive(ctx, state, delta)? == Push::Left {
            return Ok(ServiceStep::Finished);
        }
        let i = client.worker();
        let mut master = state.take(ctx, i)?;
        let applied = state.write(|clocks| clocks.apply(i));
        let rate = ctx.info.plan.learning_rate.at(applied.consumed);
        ctx.lane.clock.timed(Phase::Update, Work::Update(delta.len()), || {
            master.rule.update(&mut master.weights, delta, rate);
        });
        client.record(ctx, applied);
        if !state.read(|clocks| clocks.may_go(i)) {
            state.put_back(master);
            client.wait_to_go(ctx, state)?;
            master = state.take(ctx, i)?;
        }
        let progress = state.write(|clocks| clocks.release(i));
        let weights = client.encode(ctx, progress, &master.weights);
        state.put_back(master);
        client.answer(ctx, state, progress, weights)?;
        Ok(ServiceStep::Served(applied.samples))
    }
}

impl<R: Rule> Service for Master<R> {
    fn lane(&self) -> LaneId {
        LaneId::Client(self.client.worker() as u16)
    }

    fn step(&mut self, ctx: &mut ServiceContext) -> Result<ServiceStep, StepError> {
        let step = self.serve(ctx);
        self.client.settle(step, ctx, &self.state)
    }
}
