//! The optimizer of the recipe, on host vectors: a worker and a server round alike, so that a parameter server can equal
//! an all-reduce bit for bit. Rules that belong to a method are in its file.

mod adamw;
mod lars;
mod sgd;
#[cfg(test)]
mod tests;
mod update_counts;

use crate::matrices::Matrix;
use crate::schedule::{GradientParts, Part};
use crate::vector::Vector;
use crate::{StateError, StateVisitor};
use adamw::AdamW;
use lars::Lars;
use recipe::{OptimizerSettings, UpdateRule};
use sgd::{Sgd, StepAlong};
use std::ops::Range;
use std::sync::Arc;

/// The optimizer with its memory.
///
/// With clipping, a gradient whose Euclidean norm is above the bound is first scaled down to it (Pascanu,
/// Mikolov & Bengio, "On the difficulty of training recurrent neural networks", ICML 2013, Algorithm 1). The
/// gradient is the one that arrives here: of all workers where they are averaged first, of one worker where
/// each is applied by itself.
#[derive(Clone, Debug)]
pub struct Optimizer {
    clip: Option<f32>,
    rule: Rule,
}

#[derive(Clone, Debug)]
enum Rule {
    Sgd(Sgd),
    Adamw(AdamW),
    Lars(Lars),
}

/// Where a gradient lies among the weights, and the rate of its step.
struct Stretch {
    span: Range<usize>,
    /// Number of all weights.
    all: usize,
    rate: f32,
}

impl Optimizer {
    /// An optimizer at rest of a model with these matrices among its weights. Only LARS needs to know them.
    pub fn new(settings: OptimizerSettings, matrices: Arc<[Matrix]>) -> Self {
        let OptimizerSettings { lr: _, momentum, weight_decay, clip, rule } = settings;
        let sgd = |step| Rule::Sgd(Sgd { momentum, weight_decay, step, velocity: Vector::default() });
        let rule = match rule {
            UpdateRule::Sgd => sgd(StepAlong::Velocity),
            UpdateRule::Nesterov => sgd(StepAlong::NextVelocity),
            UpdateRule::Adamw { beta1, beta2, epsilon } => {
                Rule::Adamw(AdamW::new([beta1, beta2], epsilon, weight_decay))
            }
            UpdateRule::Lars { trust } => Rule::Lars(Lars::new(trust, momentum, weight_decay, matrices)),
        };
        Self { clip, rule }
    }

    /// The same for gradients that were clipped elsewhere.
    #[must_use]
    pub fn without_clipping(self) -> Self {
        Self { clip: None, ..self }
    }

    /// Number of elements that it remembers.
    pub fn remembered(&self) -> usize {
        match &self.rule {
            Rule::Sgd(sgd) => sgd.velocity.len(),
            Rule::Adamw(adamw) => adamw.remembered(),
            Rule::Lars(lars) => lars.velocity.len(),
        }
    }

    /// Saves or loads its velocities or moments of `weights` weights.
    ///
    /// # Errors
    /// The loaded state does not fit.
    pub fn state(&mut self, weights: usize, state: &mut StateVisitor<'_>) -> Result<(), StateError> {
        match &mut self.rule {
            Rule::Sgd(sgd) => state.vector_if_any("velocity", &mut sgd.velocity, weights),
            Rule::Adamw(adamw) => adamw.state(weights, state),
            Rule::Lars(lars) => state.vector_if_any("velocity", &mut lars.velocity, weights),
        }
    }

    /// Computes the update of the weights for a gradient, without applying it: gossip and elastic
    /// methods put it elsewhere.
    pub fn compute_update(&mut self, weights: &[f32], gradient: &mut Vector, rate: f32) {
        if let Some(longest) = self.clip {
            shorten(gradient, longest);
        }
        let mut whole = Part { at: 0, values: std::mem::take(gradient) };
        self.begin(weights, std::slice::from_ref(&whole));
        self.update(weights, &mut whole, rate);
        *gradient = whole.values;
    }

    /// Applies a gradient in parts to the weights: the same bits as [`Optimizer::apply_gradient`] of the whole. The gradient's
    /// memory is left with arbitrary content.
    pub fn apply_parts(&mut self, weights: &mut [f32], gradient: &mut GradientParts, rate: f32) {
        if let Some(longest) = self.clip
            && let Some(factor) = shortening(gradient.elements(), longest)
        {
            gradient.parts_mut().iter_mut().for_each(|part| part.values.scale(factor));
        }
        self.begin(weights, gradient.parts());
        for part in gradient.parts_mut() {
            self.apply_clipped(weights, part, rate);
        }
    }

    /// Applies a part of a gradient to its weights among `weights`. Only a gradient in one part is clipped: the norm of a part is
    /// not that of the whole. For LARS, each matrix lies in one part.
    pub(crate) fn apply_part(&mut self, weights: &mut [f32], part: &mut Part, rate: f32) {
        if let Some(longest) = self.clip.filter(|_| part.values.len() == weights.len()) {
            shorten(&mut part.values, longest);
        }
        self.begin(weights, std::slice::from_ref(part));
        self.apply_clipped(weights, part, rate);
    }

    /// Applies a gradient to the weights; the same bits as [`Optimizer::compute_update`] and an addition. The gradient's
    /// memory is left with arbitrary content.
    pub fn apply_gradient(&mut self, weights: &mut [f32], gradient: &mut Vector, rate: f32) {
        let mut whole = Part { at: 0, values: std::mem::take(gradient) };
        self.apply_part(weights, &mut whole, rate);
        *gradient = whole.values;
    }

    /// Reads what a step needs to know of all parts of a gradient before the weights of the first one change.
    fn begin(&mut self, weights: &[f32], parts: &[Part]) {
        match &mut self.rule {
            Rule::Sgd(_) | Rule::Adamw(_) => {}
            Rule::Lars(lars) => lars.measure(weights, parts),
        }
    }

    fn apply_clipped(&mut self, weights: &mut [f32], part: &mut Part, rate: f32) {
        let plain = matches!(&self.rule, Rule::Sgd(sgd) if sgd.is_plain());
        if plain {
            descend(&mut weights[part.span()], &part.values, rate);
            return;
        }
        self.update(weights, part, rate);
        crate::vector::add(&mut weights[part.span()], &part.values);
    }

    /// Turns a part of a gradient into an update of its weights.
    fn update(&mut self, weights: &[f32], part: &mut Part, rate: f32) {
        let stretch = Stretch { span: part.span(), all: weights.len(), rate };
        let own = &weights[part.span()];
        match &mut self.rule {
            Rule::Sgd(sgd) => sgd.update(own, &mut part.values, &stretch),
            Rule::Adamw(adamw) => adamw.update(own, &mut part.values, &stretch),
            Rule::Lars(lars) => lars.update(own, &mut part.values, &stretch),
        }
    }
}

/// The memory of a stretch in a vector of all weights, which is zero before the first step.
fn memory_of<'a>(whole: &'a mut Vector, stretch: &Stretch) -> &'a mut [f32] {
    if whole.len() != stretch.all {
        *whole = Vector::zeros(stretch.all);
    }
    &mut whole[stretch.span.clone()]
}

fn descend(weights: &mut [f32], gradient: &[f32], rate: f32) {
    for (w, g) in weights.iter_mut().zip(gradient) {
        *w += *g * -rate;
    }
}

/// Scales a vector down to a Euclidean norm, if it is longer.
pub(crate) fn shorten(vector: &mut Vector, longest: f32) {
    if let Some(factor) = shortening(vector.iter().copied(), longest) {
        vector.scale(factor);
    }
}

/// Factor that scales a vector down to the Euclidean norm `longest`; `None` if it is not longer. The squares are added
/// in order, in double precision. A vector whose norm is no number stays as it is: a diverged run must show it.
fn shortening(vector: impl Iterator<Item = f32>, longest: f32) -> Option<f32> {
    let norm = vector.map(|x| f64::from(x) * f64::from(x)).sum::<f64>().sqrt();
    (norm.is_finite() && norm > f64::from(longest)).then(|| (f64::from(longest) / norm) as f32)
}
