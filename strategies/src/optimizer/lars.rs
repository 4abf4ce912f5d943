//! LARS: layer-wise adaptive rate scaling.
//!
//! You, Gitman & Ginsburg, "Large Batch Training of Convolutional Networks", 2017, Algorithm 1. The paper's layer is here each
//! matrix of weights, and its biases are apart: the norms of the two differ by orders of magnitude, and a common rate would be
//! that of the matrix. Biases take plain steps without decay, as other implementations do with tensors of one dimension (the
//! skip list of TensorFlow's and of MLPerf's `LARSOptimizer`). A matrix whose norm, or whose gradient's norm, is zero takes a
//! plain step too, as there: its rate would be zero for ever.

use super::{Stretch, memory_of};
use crate::matrices::Matrix;
use crate::schedule::Part;
use crate::vector::Vector;
use std::ops::Range;
use std::sync::Arc;

/// With the rate r = eta |w| / (|g| + beta |w|) of each matrix: v <- m v + rate r (g + beta w), then w <- w - v. As printed, the
/// rate is inside the velocity.
#[derive(Clone, Debug)]
pub(super) struct Lars {
    trust: f64,
    momentum: f32,
    weight_decay: f32,
    matrices: Arc<[Matrix]>,
    /// r of each matrix in this step.
    rates: Vec<f32>,
    pub(super) velocity: Vector,
}

impl Lars {
    pub(super) fn new(trust: f64, momentum: f32, weight_decay: f32, matrices: Arc<[Matrix]>) -> Self {
        let rates = vec![1.0; matrices.len()];
        Self { trust, momentum, weight_decay, matrices, rates, velocity: Vector::default() }
    }

    /// Decides the rates of all matrices that lie in these parts of a gradient, those at its end first. Squares are added in the
    /// order of the weights, in double precision, so that rates do not depend on how a gradient is divided.
    pub(super) fn measure(&mut self, weights: &[f32], parts: &[Part]) {
        for (matrix, rate) in self.matrices.iter().zip(&mut self.rates) {
            let span = matrix.span();
            let pieces = || parts.iter().rev().filter_map(|part| Some((part, both(&part.span(), &span)?)));
            if pieces().next().is_none() {
                continue;
            }
            let gradient = pieces().flat_map(|(part, piece)| {
                part.values[piece.start - part.at..piece.end - part.at].iter().copied()
            });
            let g = norm(gradient);
            let w = norm(pieces().flat_map(|(_, piece)| weights[piece].iter().copied()));
            let decay = f64::from(self.weight_decay);
            // Of a gradient that is as good as none, the rate would be beyond all numbers.
            let found = (self.trust * w / (g + decay * w)) as f32;
            *rate = if w == 0.0 || g == 0.0 || found.is_infinite() { 1.0 } else { found };
        }
    }

    /// Turns the gradient of a stretch into the update of its weights.
    pub(super) fn update(&mut self, weights: &[f32], gradient: &mut [f32], stretch: &Stretch) {
        let mut at = stretch.span.start;
        let matrices = Arc::clone(&self.matrices);
        for (number, matrix) in matrices.iter().enumerate() {
            let Some(piece) = both(&matrix.span(), &stretch.span) else { continue };
            let rate = stretch.rate * self.rates[number];
            let decay = self.weight_decay;
            let next = piece.end;
            for (span, rate, decay) in [(at..piece.start, stretch.rate, 0.0), (piece, rate, decay)] {
                self.update_run(weights, gradient, &Run { span, rate, decay, stretch });
            }
            at = next;
        }
        let rest = Run { span: at..stretch.span.end, rate: stretch.rate, decay: 0.0, stretch };
        self.update_run(weights, gradient, &rest);
    }

    fn update_run(&mut self, weights: &[f32], gradient: &mut [f32], run: &Run<'_>) {
        let Run { rate, decay, .. } = *run;
        let momentum = self.momentum;
        let inside = run.span.start - run.stretch.span.start..run.span.end - run.stretch.span.start;
        let values = gradient[inside.clone()].iter_mut().zip(&weights[inside]);
        if momentum == 0.0 {
            values.for_each(|(g, w)| *g = -(rate * (*g + decay * w)));
            return;
        }
        let velocity = memory_of(&mut self.velocity, &Stretch { span: run.span.clone(), ..*run.stretch });
        for ((g, w), v) in values.zip(velocity) {
            *v = momentum * *v + rate * (*g + decay * w);
            *g = -*v;
        }
    }
}

/// Neighbouring weights with one rate and one decay.
struct Run<'a> {
    /// Positions among all weights.
    span: Range<usize>,
    rate: f32,
    decay: f32,
    stretch: &'a Stretch,
}

/// Intersection of two spans; `None` if it is empty.
fn both(one: &Range<usize>, other: &Range<usize>) -> Option<Range<usize>> {
    let both = one.start.max(other.start)..one.end.min(other.end);
    (!both.is_empty()).then_some(both)
}

fn norm(values: impl Iterator<Item = f32>) -> f64 {
    values.map(|x| f64::from(x) * f64::from(x)).sum::<f64>().sqrt()
}
