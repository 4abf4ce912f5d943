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
//! | L (Eq. 6) | `segments`; 1 is the sequential communication of Eq. 5 |
//!
//! Sent per step: one all-reduce of the gradient, in `segments` parts.
//!
//! Departures: the paper sums gradients; here they are averaged over samples, and the rate is meant for the
//! mean. While the pipe fills, nothing is applied: no decay, no momentum. After T iterations the gradients that
//! still travel are drained and applied. The warm-up, as in section 4, is D-Sync to its last gradient; then the
//! pipe starts empty. Its gradients take the way of those that follow: what a codec remembers of the last one goes
//! into the first that is piped. The 8-bit quantization of section 3.2 has the range of "a gradient vector"; `quantize8`
//! takes that of each chunk on each hop, unless the recipe says `compression.range = "gradient"`: then one more number
//! is all-reduced before each gradient, which travels whole (`segments` is 1).

use crate::vector::piece;
use crate::{Loss, Pending, StateVisitor, StepError, Trainer, Vector, WorkerContext};
use std::collections::VecDeque;
use std::ops::Range;

/// A gradient that was not applied yet.
#[derive(Debug)]
enum Travelling {
    /// On its way: its parts, each with its span in the whole.
    UnderWay(Vec<(Range<usize>, Pending)>),
    /// It has arrived before a checkpoint.
    Arrived(Vector),
}

/// The computation thread of every worker.
#[derive(Debug)]
pub struct PipeSgd {
    depth: usize,
    warmup: u64,
    segments: usize,
    travelling: VecDeque<Travelling>,
}

impl PipeSgd {
    /// A pipe of `depth` gradients after a warm-up of `warmup` samples; gradients travel in `segments` parts.
    pub fn new(depth: usize, warmup: u64, segments: usize) -> Self {
        Self { depth: depth.max(1), warmup, segments: segments.max(1), travelling: VecDeque::new() }
    }
}

impl Trainer for PipeSgd {
    fn step(&mut self, ctx: &mut WorkerContext) -> Result<Loss, StepError> {
        if self.travelling.len() == self.depth {
            self.update(ctx)?; // lines 3 to 5
        }
        let loss = ctx.forward()?; // lines 6 and 7
        let g_sum = self.backward(ctx)?; // lines 8 to 10
        self.travelling.push_back(g_sum);
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
            let mut g = match saved.next() {
                Some(travelling) => arrived(travelling, ctx)?,
                None => Vector::zeros(ctx.weights().len()),
            };
            state.vector(&format!("g{number}"), &mut g)?;
            self.travelling.push_back(Travelling::Arrived(g));
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
        ctx.apply_gradient(g_sum);
        Ok(())
    }

    /// The backward pass. Each part of the gradient leaves as soon as it is ready, the last one first.
    fn backward(&self, ctx: &mut WorkerContext) -> Result<Travelling, StepError> {
        let mut g_local = ctx.spare();
        if self.segments == 1 {
            while ctx.backward_into(&mut g_local)?.is_some() {}
            let whole = 0..g_local.len();
            return Ok(Travelling::UnderWay(vec![(whole, ctx.start_all_reduce_mean(g_local)?)]));
        }
        let parts = (0..self.segments).map(|l| piece(g_local.len(), self.segments, l));
        let mut waiting: Vec<Range<usize>> = parts.filter(|part| !part.is_empty()).collect();
        let mut travelling = Vec::with_capacity(waiting.len());
        while let Some(layer) = ctx.backward_into(&mut g_local)? {
            while let Some(part) = waiting.pop_if(|part| part.start >= layer.start) {
                let g = Vector::from(g_local[part.clone()].to_vec());
                travelling.push((part.clone(), ctx.start_all_reduce_mean_of_part(part.start, g)?));
            }
        }
        ctx.recycle(g_local);
        Ok(Travelling::UnderWay(travelling))
    }
}

/// Waits for all parts of a gradient and joins them.
fn arrived(travelling: Travelling, ctx: &mut WorkerContext) -> Result<Vector, StepError> {
    let parts = match travelling {
        Travelling::UnderWay(parts) => parts,
        Travelling::Arrived(g) => return Ok(g),
    };
    let mut whole = None;
    for (part, pending) in parts {
        let g = ctx.wait(pending)?;
        if g.len() == ctx.weights().len() {
            return Ok(g);
        }
        whole.get_or_insert_with(|| ctx.spare())[part].copy_from_slice(&g);
    }
    Ok(whole.unwrap_or_else(|| ctx.spare()))
}
