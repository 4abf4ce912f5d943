//! AdamW: Adam with decoupled weight decay.
//!
//! Loshchilov & Hutter, "Decoupled Weight Decay Regularization", ICLR 2019, Algorithm 2, in the form of PyTorch: decay is
//! multiplied by the rate, as the step is, and epsilon is added outside of the root. The `t` of the bias correction counts the
//! updates of each weight: where a gradient arrives in parts, each part has a count of its own.

use super::update_counts::{Counted, UpdateCounts};
use super::{Stretch, memory_of};
use crate::vector::Vector;
use crate::{StateError, StateVisitor};

/// m <- m + (1 - beta1) (g - m) and v <- beta2 v + (1 - beta2) g^2, then
/// w <- w - rate (lambda w + (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon)).
#[derive(Clone, Debug)]
pub(super) struct AdamW {
    betas: [f64; 2],
    epsilon: f32,
    weight_decay: f32,
    first: Vector,
    second: Vector,
    counts: UpdateCounts,
}

impl AdamW {
    /// Elements of both moments.
    pub(super) fn remembered(&self) -> usize {
        self.first.len() + self.second.len()
    }

    pub(super) fn new(betas: [f64; 2], epsilon: f64, weight_decay: f32) -> Self {
        let (first, second, counts) = Default::default();
        Self { betas, epsilon: epsilon as f32, weight_decay, first, second, counts }
    }

    /// Turns the gradient of a stretch into the update of its weights.
    pub(super) fn update(&mut self, weights: &[f32], gradient: &mut [f32], stretch: &Stretch) {
        let start = stretch.span.start;
        for Counted { span, updates } in self.counts.count(stretch.span.clone(), stretch.all) {
            let inside = span.start - start..span.end - start;
            let run = Stretch { span, ..*stretch };
            self.update_run(&weights[inside.clone()], &mut gradient[inside], &run, updates);
        }
    }

    /// The same for weights whose last update is number `t`.
    fn update_run(&mut self, weights: &[f32], gradient: &mut [f32], run: &Stretch, t: u64) {
        let t = t.min(i32::MAX as u64) as i32;
        // In double precision, as 1 - beta2 has three digits less than beta2.
        let [fresh1, fresh2] = self.betas.map(|beta| (1.0 - beta) as f32);
        let [correction1, correction2] = self.betas.map(|beta| 1.0 - beta.powi(t));
        let step = (f64::from(run.rate) / correction1) as f32;
        let root = correction2.sqrt() as f32;
        let beta2 = self.betas[1] as f32;
        let epsilon = self.epsilon;
        let decay = run.rate * self.weight_decay;
        let moments = memory_of(&mut self.first, run).iter_mut().zip(memory_of(&mut self.second, run));
        for ((g, w), (m, v)) in gradient.iter_mut().zip(weights).zip(moments) {
            *m += fresh1 * (*g - *m);
            *v = beta2 * *v + fresh2 * *g * *g;
            *g = -(decay * w + step * *m / (v.sqrt() / root + epsilon));
        }
    }

    /// The moments and the counts.
    pub(super) fn state(&mut self, weights: usize, state: &mut StateVisitor<'_>) -> Result<(), StateError> {
        state.vector_if_any("first-moment", &mut self.first, weights)?;
        state.vector_if_any("second-moment", &mut self.second, weights)?;
        state.within("counts", |state| self.counts.state(weights, state))
    }
}
