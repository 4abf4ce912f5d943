//! The optimizer of the recipe, on host vectors: a worker and a server round alike, so that a parameter server can equal
//! an all-reduce bit for bit. Rules that belong to a method are in its file.

use crate::schedule::{GradientParts, Part};
use crate::vector::Vector;
use crate::{StateError, StateVisitor};
use recipe::Sgd;
use std::ops::Range;

/// Stochastic gradient descent with momentum mu and weight decay lambda:
/// v <- mu v + (g + lambda w), then w <- w - rate v. The rate stays outside the velocity, so that a change of
/// rate acts at once.
///
/// With clipping, a gradient whose Euclidean norm is above the bound is first scaled down to it (Pascanu,
/// Mikolov & Bengio, "On the difficulty of training recurrent neural networks", ICML 2013, Algorithm 1). The
/// gradient is the one that arrives here: of all workers where they are averaged first, of one worker where
/// each is applied by itself.
#[derive(Clone, Debug)]
pub struct Optimizer {
    sgd: Sgd,
    velocity: Vector,
}

impl Optimizer {
    /// An optimizer at rest.
    pub fn new(sgd: Sgd) -> Self {
        Self { sgd, velocity: Vector::default() }
    }

    /// Its velocity, of weights of this number.
    ///
    /// # Errors
    /// What is loaded does not fit.
    pub fn state(&mut self, weights: usize, state: &mut StateVisitor<'_>) -> Result<(), StateError> {
        state.vector_if_any("velocity", &mut self.velocity, weights)
    }

    /// Computes the update of the weights for a gradient, without applying it: gossip and elastic
    /// methods put it elsewhere.
    pub fn compute_update(&mut self, weights: &[f32], gradient: &mut Vector, rate: f32) {
        if let Some(longest) = self.sgd.clip {
            shorten(gradient, longest);
        }
        decay(gradient, weights, self.sgd.weight_decay);
        let all = gradient.len();
        self.direction(gradient, 0..all, all, rate);
    }

    /// Applies a gradient in parts to the weights: the same bits as [`Optimizer::apply_gradient`] of the whole. The gradient's
    /// memory is left with arbitrary content.
    pub fn apply_parts(&mut self, weights: &mut [f32], gradient: &mut GradientParts, rate: f32) {
        if let Some(longest) = self.sgd.clip
            && let Some(factor) = shortening(gradient.elements(), longest)
        {
            gradient.parts_mut().iter_mut().for_each(|part| part.values.scale(factor));
        }
        for part in gradient.parts_mut() {
            self.apply_clipped(weights, part, rate);
        }
    }

    /// Applies a part of a gradient to its weights among `weights`. Only a gradient in one part is clipped: the norm of a part is
    /// not that of the whole.
    pub(crate) fn apply_part(&mut self, weights: &mut [f32], part: &mut Part, rate: f32) {
        if let Some(longest) = self.sgd.clip.filter(|_| part.values.len() == weights.len()) {
            shorten(&mut part.values, longest);
        }
        self.apply_clipped(weights, part, rate);
    }

    fn apply_clipped(&mut self, weights: &mut [f32], part: &mut Part, rate: f32) {
        let Sgd { momentum, weight_decay, .. } = self.sgd;
        let span = part.span();
        let all = weights.len();
        let own = &mut weights[span.clone()];
        if momentum == 0.0 && weight_decay == 0.0 {
            descend(own, &part.values, rate);
            return;
        }
        decay(&mut part.values, own, weight_decay);
        self.direction(&mut part.values, span, all, rate);
        crate::vector::add(own, &part.values);
    }

    /// Turns a gradient with its decay into an update; `span` is its place among `all` weights.
    fn direction(&mut self, gradient: &mut [f32], span: Range<usize>, all: usize, rate: f32) {
        let momentum = self.sgd.momentum;
        if momentum == 0.0 {
            for g in gradient.iter_mut() {
                *g *= -rate;
            }
            return;
        }
        if self.velocity.len() != all {
            self.velocity = Vector::zeros(all);
        }
        for (g, v) in gradient.iter_mut().zip(self.velocity[span].iter_mut()) {
            *v = momentum * *v + *g;
            *g = -rate * *v;
        }
    }

    /// Applies a gradient to the weights; the same bits as [`Optimizer::compute_update`] and an addition. The gradient's
    /// memory is left with arbitrary content.
    pub fn apply_gradient(&mut self, weights: &mut [f32], gradient: &mut Vector, rate: f32) {
        if self.sgd.momentum == 0.0 && self.sgd.weight_decay == 0.0 && self.sgd.clip.is_none() {
            descend(weights, gradient, rate);
            return;
        }
        self.compute_update(weights, gradient, rate);
        crate::vector::add(weights, gradient);
    }
}

fn descend(weights: &mut [f32], gradient: &[f32], rate: f32) {
    for (w, g) in weights.iter_mut().zip(gradient) {
        *w += *g * -rate;
    }
}

fn decay(gradient: &mut [f32], weights: &[f32], weight_decay: f32) {
    if weight_decay != 0.0 {
        for (g, w) in gradient.iter_mut().zip(weights) {
            *g += weight_decay * w;
        }
    }
}

/// Scales a vector down to a Euclidean norm, if it is longer.
pub(crate) fn shorten(vector: &mut Vector, longest: f32) {
    if let Some(factor) = shortening(vector.iter().copied(), longest) {
        vector.scale(factor);
    }
}

/// What scales a vector down to a Euclidean norm; `None` if it is not longer. The squares are added in order, in double
/// precision. A vector whose norm is no number stays as it is: a diverged run must show it.
fn shortening(vector: impl Iterator<Item = f32>, longest: f32) -> Option<f32> {
    let norm = vector.map(|x| f64::from(x) * f64::from(x)).sum::<f64>().sqrt();
    (norm.is_finite() && norm > f64::from(longest)).then(|| (f64::from(longest) / norm) as f32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng;

    fn optimizer(momentum: f32, weight_decay: f32) -> Optimizer {
        Optimizer::new(Sgd { lr: 0.25, momentum, weight_decay, clip: None })
    }

    /// Five steps by hand: momentum 1/2, rate 1/4, gradients 1, 0, 2, -1, 0.
    #[test]
    fn momentum_follows_the_scalar_table() {
        let mut optimizer = optimizer(0.5, 0.0);
        let mut w = [1.0_f32];
        let mut seen = Vec::new();
        for g in [1.0, 0.0, 2.0, -1.0, 0.0] {
            optimizer.apply_gradient(&mut w, &mut Vector::from(vec![g]), 0.25);
            seen.push(w[0]);
        }
        // v: 1, 1/2, 9/4, 1/8, 1/16
        assert_eq!(seen, [0.75, 0.625, 0.0625, 0.03125, 0.015_625]);
    }

    #[test]
    fn decay_is_of_the_weights_that_are_updated() {
        let mut optimizer = optimizer(0.0, 0.5);
        let mut w = [4.0_f32];
        optimizer.apply_gradient(&mut w, &mut Vector::from(vec![0.0]), 0.25);
        optimizer.apply_gradient(&mut w, &mut Vector::from(vec![0.0]), 0.25);
        assert_eq!(w[0].to_bits(), 3.0625_f32.to_bits());
    }

    #[test]
    fn a_changed_rate_acts_at_once() {
        let mut optimizer = optimizer(0.5, 0.0);
        let mut w = [0.0_f32];
        optimizer.apply_gradient(&mut w, &mut Vector::from(vec![1.0]), 0.25);
        optimizer.apply_gradient(&mut w, &mut Vector::from(vec![0.0]), 0.0);
        assert_eq!(w[0].to_bits(), (-0.25_f32).to_bits());
    }

    #[test]
    fn descending_is_the_direction_and_an_addition() {
        for (momentum, decay) in [(0.0, 0.0), (0.9, 0.0), (0.0, 0.01), (0.9, 0.01)] {
            let mut one = optimizer(momentum, decay);
            let mut two = optimizer(momentum, decay);
            let mut random = rng::keyed(1, "test", &[]);
            let mut draw =
                || Vector::from((0..33).map(|_| rng::unit(&mut random) as f32 - 0.5).collect::<Vec<_>>());
            let mut w = draw();
            let mut x = w.clone();
            for _ in 0..5 {
                let g = draw();
                one.apply_gradient(&mut w, &mut g.clone(), 0.1);
                let mut d = g;
                two.compute_update(&x, &mut d, 0.1);
                x.add(&d);
            }
            assert_eq!(w.sha256(), x.sha256());
        }
    }

    fn clipped(gradient: &[f32], longest: f32) -> Vec<f32> {
        let sgd = Sgd { lr: 1.0, momentum: 0.0, weight_decay: 0.0, clip: Some(longest) };
        let mut weights = vec![0.0; gradient.len()];
        Optimizer::new(sgd).apply_gradient(&mut weights, &mut Vector::from(gradient.to_vec()), -1.0);
        weights
    }

    #[test]
    fn a_long_gradient_keeps_its_direction() {
        assert_eq!(clipped(&[3.0, 4.0], 2.5), [1.5, 2.0]);
        assert_eq!(clipped(&[3.0, 4.0], 5.0), [3.0, 4.0]);
        assert_eq!(clipped(&[-1.0, 0.5], 8.0), [-1.0, 0.5]);
        // The squares would overflow in single precision.
        assert_eq!(clipped(&[3e30, 4e30], 5.0), [3.0, 4.0]);
    }

    #[test]
    fn a_diverged_gradient_is_not_hidden() {
        assert!(clipped(&[f32::INFINITY, 1.0], 1.0)[0].is_infinite());
        assert!(clipped(&[f32::NAN, 1.0], 1.0)[0].is_nan());
    }

    /// The bound is on the gradient, not on what decay adds to it, nor on the velocity.
    #[test]
    fn clipping_comes_first() {
        let sgd = Sgd { lr: 1.0, momentum: 0.5, weight_decay: 0.25, clip: Some(1.0) };
        let mut optimizer = Optimizer::new(sgd);
        let mut w = [4.0_f32];
        optimizer.apply_gradient(&mut w, &mut Vector::from(vec![8.0]), 1.0);
        assert_eq!(w[0].to_bits(), 2.0_f32.to_bits());
        // g = 1 + 2/4, v = 2/2 + 3/2
        optimizer.apply_gradient(&mut w, &mut Vector::from(vec![8.0]), 1.0);
        assert_eq!(w[0].to_bits(), (-0.5_f32).to_bits());
    }
}
