//! D-Sync: decentralised synchronous SGD.
//!
//! Source: Li et al., "Pipe-SGD: A Decentralized Pipelined SGD Framework for Distributed Deep Net Training",
//! NeurIPS 2018, section 2, "Decentralized synchronous SGD".
//!
//! | paper | here |
//! |---|---|
//! | w | `ctx.weights()` |
//! | gradient of one worker | `g` |
//! | gamma | `ctx.rate()`, inside `ctx.apply_gradient` |
//!
//! Sent per step: one all-reduce of the gradient.
//!
//! Departures: the paper sums gradients; here they are averaged over samples, and the rate is meant for the
//! mean.

use crate::{Loss, StepError, Trainer, WorkerContext};
/// Every worker.
#[derive(Clone, Copy, Debug)]
pub struct DSync;

impl Trainer for DSync {
    fn step(&mut self, ctx: &mut WorkerContext) -> Result<Loss, StepError> {
        let (loss, g) = ctx.gradient()?;
        let g = ctx.all_reduce_mean(g)?;
        ctx.apply_gradient(g);
        Ok(loss)
    }
}
