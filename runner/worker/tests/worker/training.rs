//! Plain gradient descent on the drawn data: the linear model stays clearly below the network.

use crate::support::{drawn, mnist_mlp, softmax};
use recipe::LayeredModel;
use std::sync::Arc;
use std::time::Instant;
use strategies::{Batch, Learner, Vector};
use worker::data::{DataSet, Split};
use worker::model::{Evaluation, TorchLearner, TrainedModel};

/// Trains with batches of 100 in an order that changes each epoch; returns the evaluation after each epoch.
pub(crate) fn train(model: LayeredModel, data: &Arc<DataSet>, epochs: u64, rate: f32) -> Vec<Evaluation> {
    worker::threads::compute_with(1);
    let mut learner = TorchLearner::new(model, data.clone(), 1).unwrap();
    let mut weights = learner.initial();
    let layout = learner.layout().clone();
    let mut gradient = Vector::zeros(weights.len());
    let mut found = Vec::new();
    for epoch in 0..epochs {
        let mut order = data.training_ids().to_vec();
        let mut state = epoch + 1;
        for place in (1..order.len()).rev() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            order.swap(place, (state >> 33) as usize % (place + 1));
        }
        let start = Instant::now();
        for examples in order.chunks(100) {
            let batch = Batch { epoch, examples: examples.to_vec() };
            learner.load(&batch).unwrap();
            for layer in 0..layout.layers().len() {
                learner.forward(&weights, layer).unwrap();
            }
            learner.loss(&batch).unwrap();
            for (layer, described) in layout.layers().iter().enumerate().rev() {
                learner.backward(&weights, layer, &mut gradient[described.span.clone()]).unwrap();
            }
            for (weight, slope) in weights.iter_mut().zip(gradient.iter()) {
                *weight -= rate * slope;
            }
        }
        let steps = order.len().div_ceil(100);
        let time = start.elapsed().as_secs_f64() * 1e3 / steps as f64;
        let evaluation = learner.evaluate(&weights, Split::Test).unwrap().unwrap();
        println!(
            "epoch {}: accuracy {:.4}, loss {:.4}, {time:.2} ms per step",
            epoch + 1,
            evaluation.accuracy,
            evaluation.loss
        );
        found.push(evaluation);
    }
    found
}

#[test]
fn a_network_learns_what_a_linear_model_cannot() {
    let start = Instant::now();
    let data = drawn(6000, 1000, 0.0);
    println!("7000 samples drawn in {:.0} ms", start.elapsed().as_secs_f64() * 1e3);
    let best = |found: Vec<Evaluation>| found.iter().map(|one| one.accuracy).fold(0.0, f64::max);
    let linear = best(train(softmax(), &data, 8, 0.1));
    let network = best(train(mnist_mlp(), &data, 8, 0.1));
    assert!((0.70..0.90).contains(&linear), "the linear model: {linear}");
    assert!(network > 0.94, "the network: {network}");
}
