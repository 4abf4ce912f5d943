//! Async MEASGD: elastic averaging with momentum, first come, first served.
//!
//! Source: You, Buluc and Demmel, "Scaling Deep Learning on GPU and Knights Landing Clusters", SC 2017, section 5.1,
//! "Async MEASGD", Equations 5 and 6; master and exchanges are those of Async EASGD.
//!
//! | paper | here |
//! |---|---|
//! | V^i | `v`, one on each worker |
//! | W^i | `ctx.weights()` |
//! | dW^i | `g`, plus the weight decay |
//! | mu | `momentum` |
//! | eta | `ctx.rate()` |
//!
//! Sent per step: every `period` steps, the weights up and the centre down, before and while the worker computes, with
//! notes of how far each is. The master serves one worker at a time, as that of Async EASGD does.
//!
//! Departures: those of Async EASGD. The velocity collects gradients only: the pull to the centre is outside. As
//! printed, and unlike the optimizer's, the rate is inside the velocity.

use crate::algorithm::easgd_async::Motion;
use crate::{Vector, WorkerContext};
/// A velocity of gradients.
#[derive(Clone, Debug)]
pub struct Velocity {
    momentum: f32,
    weight_decay: f32,
    v: Vector,
}

impl Velocity {
    /// A velocity at rest for `parameter_count` weights.
    pub fn new(parameter_count: usize, momentum: f32, weight_decay: f32) -> Self {
        Self { momentum, weight_decay, v: Vector::zeros(parameter_count) }
    }

    /// Moves a point to where momentum alone would take it: x + mu v.
    pub fn ahead(&self, x: &mut [f32]) {
        for (x, v) in x.iter_mut().zip(self.v.iter()) {
            *x += self.momentum * v;
        }
    }

    /// V <- mu V - eta dW, which it leaves in place of the gradient.
    fn collect(&mut self, x: &[f32], g: &mut [f32], rate: f32) {
        for ((v, g), x) in self.v.iter_mut().zip(g).zip(x) {
            *v = self.momentum * *v - rate * (*g + self.weight_decay * x); // Equation 5
            *g = *v; // of Equation 6
        }
    }
}

impl Motion for Velocity {
    fn compute_update(&mut self, ctx: &mut WorkerContext, g: Vector) -> Vector {
        let mut g = ctx.clipped(g);
        let rate = ctx.rate();
        ctx.compute_own_update(|x| self.collect(x, &mut g, rate));
        g
    }
}
