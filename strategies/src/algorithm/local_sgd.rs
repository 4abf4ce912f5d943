//! Local SGD: local steps, and an average of all models now and then.
//!
//! Source: Stich, "Local SGD Converges Fast and Communicates Little", ICLR 2019, Algorithm 1.
//!
//! | paper | here |
//! |---|---|
//! | x_t^k | `ctx.weights()` |
//! | eta_t | `ctx.rate()`, inside `ctx.apply_gradient` |
//! | H, the gap between two t in I_T | `period` |
//! | K | `ctx.trainers().size()` |
//!
//! Sent per step: nothing; every `period` steps, and after the last one, one all-reduce of the weights.
//!
//! Departures: momentum, weight decay and the moments of AdamW, where the recipe asks for them, are local and never averaged.
//! The model that is evaluated is rank 0's own, which between two averages is not the mean; how far all models are from
//! their mean is measured beside it.

use crate::{Loss, StepError, Trainer, WorkerContext};
/// A worker, which averages its weights with all others every `period` steps.
#[derive(Clone, Copy, Debug)]
pub struct LocalSgd {
    /// Local steps from one average to the next.
    pub period: u64,
}

impl Trainer for LocalSgd {
    fn step(&mut self, ctx: &mut WorkerContext) -> Result<Loss, StepError> {
        let (loss, g) = ctx.gradient()?;
        ctx.apply_gradient(g);
        if ctx.t().is_multiple_of(self.period) {
            ctx.average_weights()?;
        }
        Ok(loss)
    }

    fn finish(&mut self, ctx: &mut WorkerContext) -> Result<(), StepError> {
        // After a step that ended with an average, all models are the mean already.
        if ctx.t().is_multiple_of(self.period) { Ok(()) } else { ctx.average_weights() }
    }
}
