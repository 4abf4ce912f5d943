//! Pipe-SGD: decentralised pipelined SGD, whose communication overlaps the next iterations.
//!
//! Source: Li et al., "Pipe-SGD: A Decentralized Pipelined SGD Framework for Distributed Deep Net Training",
//! NeurIPS 2018, Algorithm 1; its communication thread is the communication lane.
//!
//! | paper | here |
//! |---|---|
//! | `w[t]` | `ctx.weights()` |
//! | gamma | `ctx.rate()`, inside `ctx.apply_gradient` |
//! | K | `depth` |
//! | `g_local[t]` | `g_local` |
//! | `g_sum[t - K]` | the oldest of `travelling` |
//! | L (Eq. 6) | parts of a gradient; one is the sequential communication of Eq. 5 |
//!
//! Sent per step: one all-reduce of the gradient, in `gradient-segments` equal parts or in buckets of layers.
//!
//! Departures: the paper sums gradients; here they are averaged over samples, and the rate is meant for the
//! mean. While the pipe fills, nothing is applied: no decay, no momentum. After T iterations the gradients that
//! still travel are drained and applied. The warm-up, as in section 4, is D-Sync to its last gradient; then the
//! pipe starts empty. Its gradients take the way of those that follow: what a codec remembers of the last one goes
//! into the first that is piped. The 8-bit quantization of section 3.2 has the range of "a gradient vector"; `quantize8`
//! takes that of each chunk on each hop, unless the recipe says `compression.range = "gradient"`: then one more number
//! is all-reduced before each gradient, which travels whole.

use crate::schedule::GradientParts;
use crate::{Loss, StateVisitor, StepError, Trainer, Travelling, Vector, WorkerContext};
use std::collections::VecDeque;

/// A gradient that was not applied yet.
#[derive(Debug)]
enum Unapplied {
    /// It was sent, and its arrival was not waited for yet.
    UnderWay(Travelling),
    /// It has arrived before a checkpoint.
    Arrived(GradientParts),
}

/// The computation thread of every worker.
#[derive(Debug)]
pub struct PipeSgd {
    depth: usize,
    warmup: u64,
    travelling: VecDeque<Unapplied>,
}

impl PipeSgd {
    /// A pipe of `depth` gradients after a warm-up of `warmup` samples.
    pub fn new(depth: usize, warmup: u64) -> Self {
        Self { depth: depth.max(1), warmup, travelling: VecDeque::new() }
    }
}

impl Trainer for PipeSgd {
    fn step(&mut self, ctx: &mut WorkerContext) -> Result<Loss, StepError> {
        if self.travelling.len() == self.depth {
            self.update(ctx)?; // lines 3 to 5
        }
        let loss = ctx.forward()?; // lines 6 and 7
        let g_sum = ctx.backward_sending()?; // lines 8 to 10
        self.travelling.push_back(Unapplied::UnderWay(g_sum));
        if ctx.consumed() < self.warmup {
            self.update(ctx)?;
        }
        Ok(loss)
    }

    /// The gradients under way arrive earlier than they are applied, which changes no bit: nothing was added to the pipe since.
    fn state(&mut self, ctx: &mut WorkerContext, state: &mut StateVisitor<'_>) -> Result<(), StepError> {
        let count = state.count("travelling", self.travelling.len(), self.depth)?;
        let mut saved = std::mem::take(&mut self.travelling).into_iter();
        for number in 0..count {
            let mut g = Vector::zeros(ctx.weights().len());
            if let Some(travelling) = saved.next() {
                let parts = arrived(travelling, ctx)?;
                parts.copy_into(&mut g);
                ctx.recycle_parts(parts);
            }
            state.vector(&format!("g{number}"), &mut g)?;
            self.travelling.push_back(Unapplied::Arrived(GradientParts::whole(g)));
        }
        Ok(())
    }

    fn finish(&mut self, ctx: &mut WorkerContext) -> Result<(), StepError> {
        while !self.travelling.is_empty() {
            self.update(ctx)?;
        }
        Ok(())
    }
}

impl PipeSgd {
    /// Applies the oldest gradient under way.
    fn update(&mut self, ctx: &mut WorkerContext) -> Result<(), StepError> {
        let Some(travelling) = self.travelling.pop_front() else { return Ok(()) };
        let g_sum = arrived(travelling, ctx)?;
        ctx.apply_parts(g_sum);
        Ok(())
    }
}

/// A gradient when all of it has arrived.
fn arrived(travelling: Unapplied, ctx: &mut WorkerContext) -> Result<GradientParts, StepError> {
    match travelling {
        Unapplied::UnderWay(travelling) => ctx.arrived(travelling),
        Unapplied::Arrived(g) => Ok(g),
    }
}
