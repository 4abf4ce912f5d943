//! D-PSGD: decentralized parallel SGD, in which every worker averages with its neighbours in every step.
//!
//! Source: Lian et al., "Can Decentralized Algorithms Outperform Centralized Algorithms? A Case Study for Decentralized
//! Parallel Stochastic Gradient Descent", NIPS 2017, Algorithm 1, as Lian et al., "Asynchronous Decentralized Parallel
//! Stochastic Gradient Descent", ICML 2018, section 2, describe it.
//!
//! | paper | here |
//! |---|---|
//! | x_k,i | `ctx.weights()` |
//! | W_ij | `weights`: Metropolis weights, own weight included |
//! | gamma | `ctx.rate()`, inside `ctx.compute_update` |
//! | x_k+1/2,i | the average that the mixer returns |
//!
//! Sent per step: the model to each neighbour, from a second lane while the gradient is computed.
//!
//! Departures: with the order `step-then-mix`, x <- W (x - gamma g(x)), nothing overlaps. The terms of a row are added
//! in rank order, the worker's own model at its place. Momentum or moments, where the recipe asks for them, are local and
//! never averaged; weight decay is that of the old x. Where weights are coded, a worker's own model is not, so that the
//! mean of all models moves by the coding error.

use crate::gossip::{begin_mix, mix};
use crate::{
    GroupRank, Handoff, Kind, Loss, Pending, Request, Service, ServiceContext, ServiceStep, StepError, Tag,
    Trainer, Vector, WorkerContext,
};
use recipe::MixOrder;
use record::{LaneId, Phase, Work};

/// Models between the lanes of a worker: its own, and the average with its neighbours'.
pub type Models = Handoff<OwnModel, Vector>;

/// A model that is to be averaged.
pub struct OwnModel {
    /// The step of the worker.
    step: u64,
    x: Vector,
}

/// The compute lane of every worker.
pub struct Worker {
    order: MixOrder,
    models: Models,
}

impl Worker {
    /// A worker whose mixer serves `models`.
    pub fn new(order: MixOrder, models: Models) -> Self {
        Self { order, models }
    }

    /// Sends a copy of the model to the mixer.
    fn give(&self, ctx: &mut WorkerContext) -> Pending {
        let step = ctx.t();
        let mut x = ctx.spare();
        ctx.read_weights(|weights| x.copy_from_slice(weights));
        self.models.send(OwnModel { step, x })
    }

    /// Waits for the average, which replaces the model.
    fn take(&self, ctx: &mut WorkerContext, pending: Pending) -> Result<(), StepError> {
        let mixed = self.models.receive(pending, ctx.lane())?;
        let old = std::mem::replace(ctx.weights_mut(), mixed);
        ctx.recycle(old);
        Ok(())
    }
}

impl Trainer for Worker {
    fn step(&mut self, ctx: &mut WorkerContext) -> Result<Loss, StepError> {
        match self.order {
            MixOrder::MixThenStep => {
                let pending = self.give(ctx);
                let (loss, g) = ctx.gradient()?;
                let update = ctx.compute_update(g);
                self.take(ctx, pending)?;
                ctx.apply_update(update);
                Ok(loss)
            }
            MixOrder::StepThenMix => {
                let (loss, g) = ctx.gradient()?;
                ctx.apply_gradient(g);
                let pending = self.give(ctx);
                self.take(ctx, pending)?;
                Ok(loss)
            }
        }
    }

    fn finish(&mut self, _: &mut WorkerContext) -> Result<(), StepError> {
        self.models.close();
        Ok(())
    }
}

/// The communication lane of every worker.
pub struct Mixer {
    weights: Vec<(GroupRank, f32)>,
    models: Models,
    other: Vector,
    /// Kept from the last step: memory for the next sum.
    sum: Vector,
}

impl Mixer {
    /// The mixer of a worker whose row of the mixing matrix is `weights`, in rank order.
    pub fn new(weights: Vec<(GroupRank, f32)>, models: Models) -> Self {
        Self { weights, models, other: Vector::default(), sum: Vector::default() }
    }
}

impl Service for Mixer {
    fn lane(&self) -> LaneId {
        LaneId::Communication
    }

    fn step(&mut self, ctx: &mut ServiceContext) -> Result<ServiceStep, StepError> {
        let Some(Request { ticket, work: OwnModel { step, x } }) = self.models.next(&mut ctx.lane)? else {
            return Ok(ServiceStep::Finished);
        };
        let tag = Tag::new(Kind::Overlap, step);
        self.send(ctx, tag, &x)?;
        let mixed = self.mixed(ctx, tag, x)?;
        self.models.reply(ticket, mixed);
        Ok(ServiceStep::Served(ctx.info.plan.budget.samples_after(step)))
    }
}

impl Mixer {
    fn send(&self, ctx: &mut ServiceContext, tag: Tag, x: &Vector) -> Result<(), StepError> {
        let own = ctx.info.everyone.me();
        let mut wire = ctx.wire().weights();
        // Codecs of weights give the same packet for all neighbours.
        let packet = wire.encode(wire.slot(own, tag, 0), x);
        for (place, _) in self.weights.iter().filter(|(place, _)| *place != own) {
            wire.send_packet(*place, tag, packet.clone())?;
        }
        Ok(())
    }

    /// The sum of w_ij x_j in rank order.
    fn mixed(&mut self, ctx: &mut ServiceContext, tag: Tag, x: Vector) -> Result<Vector, StepError> {
        let own = ctx.info.everyone.me();
        if self.other.len() != x.len() {
            self.other = Vector::zeros(x.len());
            self.sum = Vector::zeros(x.len());
        }
        let mut sum = std::mem::take(&mut self.sum);
        for (number, (place, weight)) in self.weights.iter().enumerate() {
            let model = if *place == own {
                &x
            } else {
                ctx.wire().weights().recv_into(*place, tag, &mut self.other)?;
                &self.other
            };
            let clock = &mut ctx.lane.clock;
            let term = if number == 0 { begin_mix } else { mix };
            clock.timed(Phase::Reduce, Work::Reduce(x.len()), || term(&mut sum, *weight, model));
        }
        self.sum = x;
        Ok(sum)
    }
}
