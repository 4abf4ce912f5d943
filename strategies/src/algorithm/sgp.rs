//! SGP: stochastic gradient push, gossip over a directed graph that changes from step to step.
//!
//! Source: Assran et al., "Stochastic Gradient Push for Distributed Deep Learning", ICML 2019, Algorithm 1; the graph is
//! that of its appendix A, one peer per step, 1, 2, 4, ... ranks further.
//!
//! | paper | here |
//! |---|---|
//! | x_i, biased | `x` |
//! | w_i, push-sum weight | `w` |
//! | z_i = x_i / w_i, de-biased | `ctx.weights()` |
//! | p_ji = 1 / (1 + out-degree of i) | `share` |
//! | gamma | `ctx.rate()`, inside `ctx.compute_update` |
//!
//! Sent per step: the biased model and its weight to one peer.
//!
//! Departures: what comes in is added in rank order, the worker's own part at its place. Momentum or moments, where the
//! recipe asks for them, are local and never averaged; weight decay is that of z. On the paper's graph every rank has as many
//! senders as receivers, so that every w stays 1; it is carried all the same, and any other graph may be given. The weights
//! w travel after the models were received.

use crate::gossip::{Rounds, begin_mix, mix};
use crate::{
    Fields, GroupRank, Kind, Loss, Message, StateVisitor, StepError, Tag, Trainer, Vector, WorkerContext,
};
use record::{Phase, Work};

/// A worker, with its biased model and push-sum weight.
#[derive(Debug)]
pub struct Sgp {
    rounds: Rounds,
    x: Vector,
    w: f32,
    other: Vector,
}

impl Sgp {
    /// A worker that pushes along these edges.
    pub fn new(rounds: Rounds) -> Self {
        Self { rounds, x: Vector::default(), w: 1.0, other: Vector::default() }
    }

    /// The model before its bias is taken away, and its push-sum weight.
    pub fn biased(&self) -> (&Vector, f32) {
        (&self.x, self.w)
    }
}

impl Trainer for Sgp {
    fn step(&mut self, ctx: &mut WorkerContext) -> Result<Loss, StepError> {
        if ctx.t() == 1 {
            ctx.read_weights(|z| self.x = z.to_vec().into());
            self.other = Vector::zeros(self.x.len());
        }
        let (loss, g) = ctx.gradient()?; // at z, lines 2 and 3
        let update = ctx.compute_update(g);
        let clock = &mut ctx.lane().clock;
        clock.timed(Phase::Update, Work::Update(0), || self.x.add(&update)); // line 4
        ctx.recycle(update);
        self.push(ctx)?; // line 5
        self.pull(ctx)?; // line 6
        self.exchange_weight(ctx)?; // line 7
        self.unbias(ctx); // line 8
        Ok(loss)
    }

    fn state(&mut self, ctx: &mut WorkerContext, state: &mut StateVisitor<'_>) -> Result<(), StepError> {
        state.vector_if_any("x", &mut self.x, ctx.weights().len())?;
        self.other = Vector::zeros(self.x.len());
        Ok(state.float("w", &mut self.w)?)
    }
}

impl Sgp {
    /// Divides x and w among the worker and its receivers, and sends each its part.
    fn push(&mut self, ctx: &mut WorkerContext) -> Result<(), StepError> {
        let me = ctx.rank().index();
        let tag = Tag::new(Kind::Exchange, ctx.t());
        let receivers = self.rounds.receivers(ctx.t(), me);
        let share = 1.0 / (1 + receivers.len()) as f32;
        let clock = &mut ctx.lane().clock;
        clock.timed(Phase::Reduce, Work::Reduce(0), || self.x.scale(share));
        self.w *= share;
        for receiver in receivers {
            ctx.wire().weights().send(GroupRank(receiver), tag, 0, &self.x)?;
        }
        Ok(())
    }

    /// Sums the received models in rank order.
    fn pull(&mut self, ctx: &mut WorkerContext) -> Result<(), StepError> {
        let me = ctx.rank().index();
        let tag = Tag::new(Kind::Exchange, ctx.t());
        let mut sum = ctx.spare();
        for (number, sender) in self.rounds.senders(ctx.t(), me).into_iter().enumerate() {
            let part = if sender == me {
                &self.x
            } else {
                ctx.wire().weights().recv_into(GroupRank(sender), tag, &mut self.other)?;
                &self.other
            };
            let clock = &mut ctx.lane().clock;
            let term = if number == 0 { begin_mix } else { mix };
            clock.timed(Phase::Reduce, Work::Reduce(part.len()), || term(&mut sum, 1.0, part));
        }
        ctx.recycle(std::mem::replace(&mut self.x, sum));
        Ok(())
    }

    /// The same for the push-sum weights. They follow when the models were received: of two messages under way to one peer, a
    /// large one would wait for the room of the other forever.
    fn exchange_weight(&mut self, ctx: &mut WorkerContext) -> Result<(), StepError> {
        let me = ctx.rank().index();
        let tag = Tag::new(Kind::Exchange, ctx.t()).part(1);
        for receiver in self.rounds.receivers(ctx.t(), me) {
            ctx.service().send_message(GroupRank(receiver), tag, &PushSumWeight(self.w))?;
        }
        let mut sum = 0.0;
        for sender in self.rounds.senders(ctx.t(), me) {
            sum += if sender == me {
                self.w
            } else {
                ctx.service().recv_message::<PushSumWeight>(GroupRank(sender), tag)?.0
            };
        }
        self.w = sum;
        Ok(())
    }

    /// z <- x / w.
    fn unbias(&self, ctx: &mut WorkerContext) {
        let (service, z) = ctx.split();
        service.lane.clock.timed(Phase::Update, Work::Update(0), || {
            z.iter_mut().zip(self.x.iter()).for_each(|(z, x)| *z = x / self.w);
        });
    }
}

/// Sent after a model: 4 bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
struct PushSumWeight(f32);

impl Message for PushSumWeight {
    const NAME: &'static str = "a push-sum weight";

    fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.0.to_le_bytes());
    }

    fn read(fields: &mut Fields<'_>) -> Option<Self> {
        fields.f32().map(Self)
    }
}
