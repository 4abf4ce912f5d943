//! SlowMo: local SGD whose averages are steps of an outer optimizer with a slow momentum.
//!
//! Source: Wang, Tantia, Ballas and Rabbat, "SlowMo: Improving Communication-Efficient Distributed SGD with Slow Momentum",
//! ICLR 2020, Algorithm 1, with Local SGD as its base and an exact average (line 6).
//!
//! | paper | here |
//! |---|---|
//! | x_t,k^(i) | `ctx.weights()` between two averages |
//! | x_t,0 | `anchor`, the same on every worker |
//! | x_t,tau | `ctx.weights()` after `ctx.average_weights` |
//! | u_t | `u`, the same on every worker; u_0 = 0 |
//! | tau | `period` |
//! | beta | `beta`, the recipe's `slow-momentum` |
//! | alpha | `alpha`, the recipe's `slow-lr` |
//! | gamma_t | `gamma`, that of the last local step |
//! | m | `ctx.trainers().size()` |
//!
//! Sent per step: nothing; every `period` steps, and after the last one, one all-reduce of the weights. Neither u nor x_t,0
//! travels: all workers compute them from the same bits.
//!
//! Defaults of the recipe: beta = 0.5 and alpha = 1 are those of `SlowMomentumOptimizer` in PyTorch's torchdistx; the paper
//! tunes beta for each task.
//!
//! Departures: line 8 is written as x_t,tau - ((alpha - 1) (x_t,0 - x_t,tau) + alpha beta gamma_t u_t), which is line 7 put
//! into it, so that beta = 0 and alpha = 1 are Local SGD bit for bit, but for the sign of a zero. Where a schedule changes
//! the rate within a round, gamma_t is the rate of the round's last step; a round whose last rate is zero ends with the
//! average, because line 7 would divide by it. A training that ends within a round ends with lines 6 to 8 for the steps
//! that there were. Of the paper's choices for the buffers of the base optimizer (line 2) this is the one that maintains
//! them: momentum or moments, where the recipe asks for them, are local, never averaged and never reset. The model that is evaluated is
//! that of Local SGD: rank 0's own.

use crate::{GroupRank, Loss, StateVisitor, StepError, Trainer, Vector, WorkerContext};
use record::{Phase, Work};

/// A worker, which takes a step of the outer optimizer every `period` local steps.
#[derive(Debug)]
pub struct SlowMo {
    period: u64,
    beta: f32,
    alpha: f32,
    gamma: f32,
    anchor: Vector,
    u: Vector,
}

impl SlowMo {
    /// A worker that averages every `period` steps, with the slow momentum `beta` and the slow rate `alpha`.
    pub fn new(period: u64, beta: f32, alpha: f32) -> Self {
        Self { period, beta, alpha, gamma: 0.0, anchor: Vector::default(), u: Vector::default() }
    }

    /// Lines 6 to 8.
    fn outer_step(&mut self, ctx: &mut WorkerContext) -> Result<(), StepError> {
        ctx.average_weights()?; // line 6
        let Self { beta, alpha, gamma, anchor, u, .. } = self;
        let alpha = *alpha;
        let beta = *beta;
        let gamma = *gamma;
        let (service, x) = ctx.split();
        service.lane.clock.timed(Phase::Update, Work::Update(x.len()), || {
            for ((x, x0), u) in x.iter_mut().zip(anchor.iter_mut()).zip(u.iter_mut()) {
                let way = *x0 - *x;
                if gamma > 0.0 {
                    *x -= (alpha - 1.0) * way + alpha * beta * gamma * *u; // line 8
                    *u = beta * *u + way / gamma; // line 7
                }
                *x0 = *x;
            }
        });
        Ok(())
    }
}

impl Trainer for SlowMo {
    fn start(&mut self, ctx: &mut WorkerContext) -> Result<(), StepError> {
        ctx.broadcast_weights_from(GroupRank(0))?;
        self.anchor = ctx.weights().clone();
        self.u = Vector::zeros(self.anchor.len());
        Ok(())
    }

    fn step(&mut self, ctx: &mut WorkerContext) -> Result<Loss, StepError> {
        let (loss, g) = ctx.gradient()?;
        ctx.apply_gradient(g);
        self.gamma = ctx.rate();
        if ctx.t().is_multiple_of(self.period) {
            self.outer_step(ctx)?;
        }
        Ok(loss)
    }

    fn state(&mut self, _: &mut WorkerContext, state: &mut StateVisitor<'_>) -> Result<(), StepError> {
        state.vector("anchor", &mut self.anchor)?;
        Ok(state.vector("u", &mut self.u)?)
    }

    fn finish(&mut self, ctx: &mut WorkerContext) -> Result<(), StepError> {
        // `ctx.rate()` is by now the rate of a step that does not follow: `gamma` is still the last one's.
        if ctx.t().is_multiple_of(self.period) { Ok(()) } else { self.outer_step(ctx) }
    }
}
