//! Original EASGD: elastic averaging, round robin.
//!
//! Source: You, Buluc and Demmel, "Scaling Deep Learning on GPU and Knights Landing Clusters", SC 2017, Algorithm 1,
//! after Zhang, Choromanska and `LeCun`, NIPS 2015.
//!
//! | paper | here |
//! |---|---|
//! | W^j | `ctx.weights()` |
//! | the center weight on the CPU | `Master::centre`; `Worker::centre` as it was sent |
//! | j = t mod G | `RoundRobin::pass_on`, from worker 0 on |
//! | dW^j | `g` |
//! | eta | `ctx.rate()`, after the samples of all turns before |
//! | eta rho | `moving_rate`: a |
//!
//! Sent per step: the weights up and the centre down, and two notes: that the turn begins, and that it ends.
//!
//! Departures: a turn is a step of one worker with its share of the batch. With `overlap`, lines 10 and 12 (both send
//! weights of before the step) run beside line 11, as the paper's Original EASGD does; without, one after the other: its
//! EASGD*. The weights are the same. Where they are coded, each end moves towards the decoded other. A worker that is
//! gone is left out of the round, and its unfinished turn counts for nothing.

use crate::server::{RoundRobin, Shards, pulled, pulled_centre};
use crate::{
    GroupRank, Kind, Loss, Progress, Service, ServiceContext, ServiceStep, StepError, Tag, Trainer, Vector,
    WorkerContext,
};
use recipe::MovingRate;
use record::{LaneId, Phase, Work};
use std::borrow::Cow;

/// A worker, which computes and exchanges with the master in its turns only.
pub struct Worker {
    servers: Shards,
    moving_rate: MovingRate,
    overlap: bool,
    centre: Vector,
    progress: Progress,
}

impl Worker {
    /// A worker of one master.
    pub fn new(servers: Shards, moving_rate: MovingRate, overlap: bool) -> Self {
        let centre = Vector::zeros(servers.parameter_count());
        Self { servers, moving_rate, overlap, centre, progress: Progress { samples: 0, over: false } }
    }

    /// Waits for turn number `turn` of this worker.
    fn wait_for(&mut self, ctx: &mut WorkerContext, turn: u64) -> Result<(), StepError> {
        self.progress = self.servers.wait_for_turn(ctx, turn)?;
        Ok(())
    }

    fn send(&self, ctx: &mut WorkerContext, tag: Tag) -> Result<(), StepError> {
        ctx.send_weights_of(self.servers.place(0), tag, self.servers.span(0))
    }

    fn receive(&mut self, ctx: &mut WorkerContext, tag: Tag) -> Result<(), StepError> {
        ctx.wire().weights().recv_into(self.servers.place(0), tag, &mut self.centre)
    }
}

impl Trainer for Worker {
    fn step(&mut self, ctx: &mut WorkerContext) -> Result<Loss, StepError> {
        let t = ctx.t();
        let up = Tag::new(Kind::Push, t);
        let down = Tag::new(Kind::Pull, t).part(1);
        if t == 1 {
            self.wait_for(ctx, t)?;
        }
        ctx.set_consumed(self.progress.samples);
        let (loss, g) = if self.overlap {
            self.send(ctx, up)?;
            let computed = ctx.gradient()?;
            self.receive(ctx, down)?;
            computed
        } else {
            self.receive(ctx, down)?; // line 10
            let computed = ctx.gradient()?; // line 11
            self.send(ctx, up)?; // line 12
            computed
        };
        let d = ctx.compute_update(g);
        let a = self.moving_rate.at(ctx.rate(), ctx.trainers().size());
        ctx.change_weights(0..d.len(), |x| pulled(x, &d, &self.centre, a)); // line 13
        ctx.recycle(d);
        self.servers.end_turn(ctx, t)?;
        // Whether another turn comes is known when it comes.
        self.wait_for(ctx, t + 1)?;
        Ok(loss)
    }

    fn progress(&self, _: &WorkerContext) -> Progress {
        self.progress
    }
}

/// The rank that holds the centre.
pub struct Master {
    shards: Shards,
    moving_rate: MovingRate,
    centre: Vector,
    x: Vector,
    turns: RoundRobin,
    finished: bool,
}

impl Master {
    /// The master of these workers.
    pub fn new(shards: Shards, moving_rate: MovingRate) -> Self {
        let centre = Vector::zeros(shards.parameter_count());
        Self { shards, moving_rate, x: centre.clone(), centre, turns: RoundRobin::default(), finished: false }
    }

    /// One turn of worker `j`; returns the samples after it.
    fn serve(&mut self, ctx: &mut ServiceContext, j: usize) -> Result<u64, StepError> {
        let worker = GroupRank(j);
        let consumed = self.turns.samples();
        let t = self.turns.begin(j);
        let up = Tag::new(Kind::Push, t);
        let down = Tag::new(Kind::Pull, t);
        self.turns.call(ctx, j)?;
        let mut wire = ctx.wire().weights();
        wire.send(worker, down.part(1), 0, &self.centre)?;
        wire.recv_into(worker, up, &mut self.x)?;
        ctx.wire().recv_packet(worker, up.part(1))?;
        let a = self.moving_rate.at(ctx.info.plan.learning_rate.at(consumed), self.shards.workers());
        ctx.lane.clock.timed(Phase::Update, Work::Update(self.x.len()), || {
            for (c, x) in self.centre.iter_mut().zip(self.x.iter()) {
                *c = pulled_centre(*c, *x, a); // line 14
            }
        });
        let applied = self.turns.end(j, ctx.info.plan.sampler.own_samples(t, j) as u64);
        self.turns.record(ctx, j, applied);
        Ok(applied.samples)
    }

    fn over(&mut self, ctx: &mut ServiceContext) -> Result<ServiceStep, StepError> {
        for j in self.turns.here() {
            self.turns.begin(j);
            if let Err(error) = self.turns.send_home(ctx, j) {
                self.turns.lose(ctx, j, error)?;
            }
        }
        self.finished = true;
        Ok(ServiceStep::Finished)
    }
}

impl Service for Master {
    fn lane(&self) -> LaneId {
        LaneId::Clients
    }

    fn start(&mut self, ctx: &mut ServiceContext) -> Result<Option<Vector>, StepError> {
        ctx.recv_broadcast(GroupRank(0), &mut self.centre)?;
        self.turns = RoundRobin::of(ctx.info.plan.workers());
        Ok(Some(self.centre.clone()))
    }

    fn step(&mut self, ctx: &mut ServiceContext) -> Result<ServiceStep, StepError> {
        if self.finished {
            return Ok(ServiceStep::Finished);
        }
        // Each worker has one turn, however short the training: it comes with its weights to be called at all.
        while self.turns.samples() < ctx.info.plan.budget.samples() || self.turns.has_unserved_worker() {
            let j = self.turns.pass_on();
            match self.serve(ctx, j) {
                Ok(samples) => return Ok(ServiceStep::Served(samples)),
                Err(error) => self.turns.lose(ctx, j, error)?,
            }
        }
        self.over(ctx)
    }

    fn model(&self) -> Option<Cow<'_, Vector>> {
        Some(Cow::Borrowed(&self.centre))
    }
}
