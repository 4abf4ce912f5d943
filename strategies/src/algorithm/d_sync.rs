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
//! Sent per step: one all-reduce of the gradient; with a schedule of layers one of each bucket, during the backward pass.
//!
//! Schedules by layers are those of Shi, Chu and Li, "MG-WFBP: Efficient data communication for distributed synchronous SGD
//! algorithms", 2019: `per-layer` is its WFBP (section 3), `merged` its Algorithms 1 and 2. In rank order they change no bit of exact gradients.
//!
//! Departures: the paper sums gradients; here they are averaged over samples, and the rate is meant for the
//! mean.

use crate::{Loss, StepError, Trainer, WorkerContext};
/// A worker, which averages its gradient with all others in each step.
#[derive(Clone, Copy, Debug)]
pub struct DSync;

impl Trainer for DSync {
    fn step(&mut self, ctx: &mut WorkerContext) -> Result<Loss, StepError> {
        let loss = ctx.forward()?;
        let travelling = ctx.backward_sending()?;
        let g = ctx.arrived(travelling)?;
        ctx.apply_parts(g);
        Ok(loss)
    }
}
