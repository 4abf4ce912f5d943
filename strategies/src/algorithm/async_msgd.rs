//! Async MSGD: asynchronous SGD with a parameter server that has momentum.
//!
//! Source: You, Buluc and Demmel, "Scaling Deep Learning on GPU and Knights Landing Clusters", SC 2017, section 5.1,
//! Equations 3 and 4; workers and master are those of Async SGD.
//!
//! | paper | here |
//! |---|---|
//! | V | `velocity`, one on each master |
//! | W on the master | `weights` |
//! | dW_t | `delta`, plus the weight decay |
//! | mu | `momentum` |
//! | eta | `rate` |
//!
//! Sent per step: one gradient up and one model down per worker, and the words of Async SGD, whose `serve` it shares: by
//! default the master serves one worker at a time.
//!
//! Departures: those of Async SGD. As printed, and unlike the optimizer's, the rate is inside the velocity: a change
//! of the rate acts on new gradients only. The momentum is the method's own, the paper's rule of thumb of 0.9 unless the
//! optimizer has one, so that one recipe can compare it with Async SGD, which has none.

use crate::Vector;
use crate::algorithm::async_sgd::Rule;
/// Update rule of the master: a velocity that holds the rate (Equations 3 and 4).
#[derive(Debug)]
pub struct Msgd {
    momentum: f32,
    weight_decay: f32,
    velocity: Vector,
}

impl Msgd {
    /// A velocity at rest for `parameter_count` weights.
    pub fn new(parameter_count: usize, momentum: f32, weight_decay: f32) -> Self {
        Self { momentum, weight_decay, velocity: Vector::zeros(parameter_count) }
    }
}

impl Rule for Msgd {
    fn update(&mut self, weights: &mut Vector, delta: &mut Vector, rate: f32) {
        for ((w, v), g) in weights.iter_mut().zip(self.velocity.iter_mut()).zip(delta.iter()) {
            let g = g + self.weight_decay * *w;
            *v = self.momentum * *v - rate * g; // Equation 3
            *w += *v; // Equation 4
        }
    }
}
