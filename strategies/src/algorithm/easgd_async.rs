//! Async EASGD: elastic averaging, first come, first served.
//!
//! Source: You, Buluc and Demmel, "Scaling Deep Learning on GPU and Knights Landing Clusters", SC 2017, section 5.1,
//! "Async EASGD", Equations 1 and 2, after Zhang, Choromanska and `LeCun`, NIPS 2015.
//!
//! | paper | here |
//! |---|---|
//! | W^i | `ctx.weights()` |
//! | the center weight on the master | `Locked::centre`; `Worker::centre` as it was sent |
//! | dW^i | `g` |
//! | eta | `ctx.rate()`, after the samples that the centre knows of |
//! | eta rho | `Elastic::at`: the moving rate a |
//!
//! Sent per step: every `period` steps, the weights up and the centre down, before and while the worker computes, with
//! notes of how far each is; with `serve = "one"` three words more: the worker asks, the master says that its turn has come,
//! and the worker that it has the centre.
//!
//! With `serve = "one"`, the default, the master serves one worker at a time, from its request to the end of the answer, as
//! in the source: "in both Original-EASGD and Async-EASGD, the master only communicates with one worker at a time"
//! (introduction), first come, first served. A lane of its own waits for the worker's turn and exchanges, while the worker
//! computes (step 2). With "all" weights of several workers travel at once, and only the update has a lock.
//!
//! Departures: each worker draws from samples of its own pace. An exchange takes place before every `period`-th local
//! step of the worker, with the gradient at the weights before the pull. The centre may be divided among several
//! masters, each with its own order of workers; of those that serve one at a time a worker goes to one after the other. Samples count when the worker
//! visits again, or leaves, so that a centre after N samples has seen weights that learned from them; the steps after a
//! worker's last visit are not in the centre. The answer of a master tells the length of the worker's next block, one visit
//! ahead: with a long period, steps that were granted to a worker before it became slow are missing to a fast one. Staleness counts the exchanges of others since the worker's last. Where
//! weights are coded, each end moves towards the decoded other, and their sum by the coding error.

use crate::server::{
    Arrival, Centre, CentrePart, Elastic, ElasticClient, Exchanges, Grant, ServerState, Shards, Visit,
    pulled, pulled_centre,
};
use crate::{
    Loss, Pending, Progress, Service, ServiceContext, ServiceStep, StepError, Trainer, Vector, WorkerContext,
};
use record::{LaneId, Phase, Work};
use std::ops::Range;

/// How a worker moves without the centre.
pub trait Motion: Send {
    /// The gradient of a step.
    fn gradient(&mut self, ctx: &mut WorkerContext) -> Result<(Loss, Vector), StepError> {
        ctx.gradient()
    }

    /// The update of the weights for a gradient.
    fn compute_update(&mut self, ctx: &mut WorkerContext, g: Vector) -> Vector;
}

/// Motion by the update of the optimizer: - eta dW^i.
#[derive(Clone, Copy, Debug)]
pub struct Descent;

impl Motion for Descent {
    fn compute_update(&mut self, ctx: &mut WorkerContext, g: Vector) -> Vector {
        ctx.compute_update(g)
    }
}

/// A worker: it exchanges with the masters once in each block of local steps, and moves by `M`.
pub struct Worker<M> {
    servers: Shards,
    elastic: Elastic,
    motion: M,
    /// Where the servers serve one worker at a time: the way to the lane that waits for its turn.
    exchanges: Option<Exchanges>,
    centre: Vector,
    /// Number of the last visit.
    visit: u64,
    /// Samples that the centre knew of at the last visit.
    told: u64,
    /// Local steps since then.
    done: u64,
    /// Steps of the current block.
    block: u64,
    /// Steps of the next block.
    next_block: u64,
}

/// An exchange under way.
enum Started {
    Here,
    /// On the exchange lane.
    Beside(Pending),
}

impl<M> Worker<M> {
    /// A worker of these servers.
    pub fn new(servers: Shards, elastic: Elastic, motion: M) -> Self {
        let centre = Vector::zeros(servers.parameter_count());
        Self {
            servers,
            elastic,
            motion,
            exchanges: None,
            centre,
            visit: 0,
            told: 0,
            done: 0,
            block: 0,
            next_block: 0,
        }
    }

    /// The same with a lane beside it that exchanges.
    #[must_use]
    pub fn with_exchange_lane(self, exchanges: Exchanges) -> Self {
        Self { exchanges: Some(exchanges), ..self }
    }
}

impl<M: Motion> Trainer for Worker<M> {
    fn step(&mut self, ctx: &mut WorkerContext) -> Result<Loss, StepError> {
        let loss = if self.done == self.block { self.exchange(ctx)? } else { self.local_step(ctx)? };
        self.done += 1;
        Ok(loss)
    }

    fn progress(&self, ctx: &WorkerContext) -> Progress {
        let samples = self.told.saturating_add(self.own(ctx));
        Progress { samples, over: self.done == self.block && self.next_block == 0 }
    }

    fn finish(&mut self, ctx: &mut WorkerContext) -> Result<(), StepError> {
        if let Some(exchanges) = &self.exchanges {
            exchanges.close();
        }
        self.servers.leave(ctx, Visit { number: self.visit + 1, done: self.done })
    }
}

impl<M: Motion> Worker<M> {
    /// A step with an exchange: steps (1) to (3).
    fn exchange(&mut self, ctx: &mut WorkerContext) -> Result<Loss, StepError> {
        if self.visit == 0 {
            self.next_block = self.elastic.first_block(&ctx.info().plan);
        }
        self.visit += 1;
        let started = self.send(ctx)?;
        self.block = self.next_block;
        self.done = 0;
        let (loss, g) = self.motion.gradient(ctx)?;
        let grants = self.receive(ctx, started)?;
        if let Some((first, _)) = grants.first() {
            self.told = first.samples;
            self.next_block = first.steps;
            ctx.set_consumed(first.samples);
        }
        let d = self.motion.compute_update(ctx, g);
        for (grant, span) in grants {
            let a = self.elastic.at(&ctx.info().plan, grant.samples);
            let c = &self.centre[span.clone()];
            let d = &d[span.clone()];
            ctx.change_weights(span, |x| pulled(x, d, c, a)); // Equation 1
        }
        ctx.recycle(d);
        Ok(loss)
    }

    /// Step (1), the worker's half.
    fn send(&self, ctx: &mut WorkerContext) -> Result<Started, StepError> {
        let visit = Visit { number: self.visit, done: self.done };
        match &self.exchanges {
            Some(exchanges) => Ok(Started::Beside(self.servers.start_exchange(ctx, exchanges, visit))),
            None => self.servers.visit(ctx, visit).map(|()| Started::Here),
        }
    }

    /// The centre, part by part, each with its grant and its span.
    fn receive(
        &mut self,
        ctx: &mut WorkerContext,
        started: Started,
    ) -> Result<Vec<(Grant, Range<usize>)>, StepError> {
        let Self { servers, exchanges, centre, visit, .. } = self;
        let (Started::Beside(pending), Some(exchanges)) = (started, exchanges) else {
            return (0..servers.servers())
                .map(|server| servers.receive_centre(ctx, server, *visit, centre))
                .collect();
        };
        let replies = exchanges.receive(pending, ctx.lane())?.into_iter().enumerate();
        replies
            .map(|(server, CentrePart { grant, weights })| {
                let span = servers.span(server);
                ctx.wire().weights().decode(&weights, &mut centre[span.clone()])?;
                Ok((grant, span))
            })
            .collect()
    }

    /// A step without an exchange: only the worker's own gradient moves its weights.
    fn local_step(&mut self, ctx: &mut WorkerContext) -> Result<Loss, StepError> {
        ctx.set_consumed(self.told.saturating_add(self.own(ctx)));
        let (loss, g) = self.motion.gradient(ctx)?;
        let d = self.motion.compute_update(ctx, g);
        ctx.change_weights(0..d.len(), |x| crate::vector::add(x, &d));
        ctx.recycle(d);
        Ok(loss)
    }

    /// The worker's samples since the last visit.
    fn own(&self, ctx: &WorkerContext) -> u64 {
        self.done.saturating_mul(ctx.batch().examples.len() as u64)
    }
}

/// A centre that one lane at a time may change.
pub struct Locked {
    centre: Vector,
}

impl Locked {
    /// A centre of `parameter_count` zeros, until weights are loaded.
    pub fn new(parameter_count: usize) -> Self {
        Self { centre: Vector::zeros(parameter_count) }
    }
}

impl Centre for Locked {
    fn load(&mut self, weights: &[f32]) {
        self.centre.copy_from_slice(weights);
    }

    fn copy(&self, into: &mut [f32]) {
        into.copy_from_slice(&self.centre);
    }
}

/// The master's lane for one worker.
pub struct Master {
    state: ServerState<Locked>,
    client: ElasticClient,
    elastic: Elastic,
    x: Vector,
}

impl Master {
    /// The lane for `client` of a master with `parameter_count` weights.
    pub fn new(
        state: ServerState<Locked>,
        client: ElasticClient,
        elastic: Elastic,
        parameter_count: usize,
    ) -> Self {
        Self { state, client, elastic, x: Vector::zeros(parameter_count) }
    }

    fn serve(&mut self, ctx: &mut ServiceContext) -> Result<ServiceStep, StepError> {
        let Self { state, client, elastic, x } = self;
        let i = client.worker();
        let done = match client.receive(ctx, state, x)? {
            Arrival::Weights { done } => done,
            Arrival::Left { done } => {
                state.write(|clocks| clocks.count(i, done));
                return Ok(ServiceStep::Finished);
            }
        };
        let mut master = state.take(ctx, i)?;
        let (applied, steps) =
            state.write(|clocks| (clocks.apply_block(i, done), clocks.grant(i, elastic.period)));
        client.record(ctx, applied);
        let sent = client.encode(ctx, &master.centre);
        let a = elastic.at(&ctx.info.plan, applied.samples);
        ctx.lane.clock.timed(Phase::Update, Work::Update(x.len()), || {
            for (c, x) in master.centre.iter_mut().zip(x.iter()) {
                *c = pulled_centre(*c, *x, a); // Equation 2, of one worker
            }
        });
        state.put_back(master);
        client.answer(ctx, state, Grant { samples: applied.samples, steps }, sent)?;
        Ok(ServiceStep::Served(applied.samples))
    }
}

impl Service for Master {
    fn lane(&self) -> LaneId {
        LaneId::Client(self.client.worker() as u16)
    }

    fn step(&mut self, ctx: &mut ServiceContext) -> Result<ServiceStep, StepError> {
        let step = self.serve(ctx);
        self.client.client().settle(step, ctx, &self.state)
    }
}
