//! Stochastic gradient descent with momentum and weight decay.

use super::{Stretch, memory_of};
use crate::vector::Vector;

/// v <- mu v + (g + lambda w), then w <- w - rate v. The rate stays outside the velocity, so that a change of rate acts at once.
///
/// With Nesterov's momentum, w <- w - rate ((g + lambda w) + mu v) with the new v: the form of Sutskever et al., "On the
/// importance of initialization and momentum in deep learning", ICML 2013, in the variables of PyTorch's `SGD`, whose weights
/// are those after the look ahead.
#[derive(Clone, Debug)]
pub(super) struct Sgd {
    pub(super) momentum: f32,
    pub(super) weight_decay: f32,
    pub(super) step: StepAlong,
    pub(super) velocity: Vector,
}

/// Direction of a step of SGD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StepAlong {
    /// v, with the gradients up to this one.
    Velocity,
    /// g + mu v, which is the v of the next step without its gradient.
    NextVelocity,
}

impl Sgd {
    /// Whether an update is the gradient times the rate.
    pub(super) fn is_plain(&self) -> bool {
        self.momentum == 0.0 && self.weight_decay == 0.0
    }

    /// Turns the gradient of a stretch into the update of its weights.
    pub(super) fn update(&mut self, weights: &[f32], gradient: &mut [f32], stretch: &Stretch) {
        if self.weight_decay != 0.0 {
            for (g, w) in gradient.iter_mut().zip(weights) {
                *g += self.weight_decay * w;
            }
        }
        let momentum = self.momentum;
        let rate = stretch.rate;
        if momentum == 0.0 {
            for g in gradient.iter_mut() {
                *g *= -rate;
            }
            return;
        }
        let velocity = memory_of(&mut self.velocity, stretch);
        match self.step {
            StepAlong::Velocity => {
                for (g, v) in gradient.iter_mut().zip(velocity) {
                    *v = momentum * *v + *g;
                    *g = -rate * *v;
                }
            }
            StepAlong::NextVelocity => {
                for (g, v) in gradient.iter_mut().zip(velocity) {
                    *v = momentum * *v + *g;
                    *g = -rate * (*g + momentum * *v);
                }
            }
        }
    }
}
