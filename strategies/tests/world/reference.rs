//! Plain re-implementations that the tests compare with: nothing of the crate but learners, batches and rates.

use crate::scene::Scene;
use strategies::{Batch, Learner, TrainingPlan, Vector};

/// The mean gradient of a batch at `w`.
pub(crate) fn gradient(learner: &mut dyn Learner, w: &Vector, batch: &Batch) -> Vec<f32> {
    learner.load(batch).unwrap();
    let layers = learner.layout().layers().len();
    (0..layers).for_each(|layer| learner.forward(w, layer).unwrap());
    learner.loss(batch).unwrap();
    let mut g = vec![0.0; w.len()];
    for layer in (0..layers).rev() {
        let span = learner.layout().layers()[layer].span.clone();
        learner.backward(w, layer, &mut g[span]).unwrap();
    }
    g
}

/// The mean gradient over the samples of all workers in step `t`, each with its own weights: from zero, worker 0
/// first.
pub(crate) fn mean_gradient(learner: &mut dyn Learner, plan: &TrainingPlan, w: &Vector, t: u64) -> Vec<f32> {
    let p = plan.workers();
    let mut sum = vec![0.0_f32; w.len()];
    for k in 0..p {
        let weight = plan.sampler.weight(t, k);
        for (sum, g) in sum.iter_mut().zip(gradient(learner, w, &plan.sampler.batch(t, k))) {
            *sum += g * weight;
        }
    }
    sum.iter().map(|sum| sum * (1.0 / p as f32)).collect()
}

/// Momentum with the rate outside, and weight decay.
pub(crate) struct Sgd {
    pub(crate) momentum: f32,
    pub(crate) decay: f32,
    pub(crate) v: Vec<f32>,
}

impl Sgd {
    pub(crate) fn new(scene: &Scene, n: usize) -> Self {
        let recipe::OptimizerSettings { momentum, weight_decay, .. } = scene.spec.train.optimizer;
        Self { momentum, decay: weight_decay, v: vec![0.0; n] }
    }

    pub(crate) fn step(&mut self, w: &mut Vector, g: &[f32], rate: f32) {
        for i in 0..w.len() {
            self.v[i] = self.momentum * self.v[i] + (g[i] + self.decay * w[i]);
            w[i] += -rate * self.v[i];
        }
    }
}
