//! How long a step of training takes in one process with one thread of computation, or what it trains.
//!
//! `step RECIPE STEPS [KEY=VALUE...]` takes the model, the data set and a worker's share of the batch from a recipe, with these
//! settings replaced, and prints a line:
//!
//! ```text
//! step bakeoff us=1520.0 forward=410.2 backward=980.3 update=96.1
//! ```
//!
//! Times are medians over the steps, in microseconds. The batch is loaded before the time begins; the gradient of the loss with
//! respect to the scores counts as forward pass. In place of a number of steps,
//! `describe` prints the model as JSON for a program of others that is to train the same.

#![expect(clippy::print_stdout, reason = "this program's answer")]

mod described;

use anyhow::{Result, bail};
use described::{median, microseconds};
use std::sync::Arc;
use std::time::Instant;
use strategies::{Batch, Optimizer, Vector};
use worker::model::TrainedModel;

/// Steps that are not counted.
const WARM_UP: usize = 2;

fn main() -> Result<()> {
    // As a worker does.
    mesh::keep_freed_memory();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [recipe, steps, overrides @ ..] = arguments.as_slice() else {
        bail!("step RECIPE STEPS|describe [KEY=VALUE...]");
    };
    let spec = described::spec(recipe, overrides)?;
    let (mut learner, batch) = described::learner(&spec, None)?;
    if steps == "describe" {
        let described = serde_json::json!({ "model": spec.model, "samples": batch.examples.len() });
        println!("{described}");
        return Ok(());
    }
    let mut optimizer = Optimizer::new(spec.train.optimizer, Arc::new([]));
    let mut times = Times::default();
    let mut weights = learner.initial();
    let mut gradient = Vector::zeros(weights.len());
    for step in 0..WARM_UP + steps.parse::<usize>()? {
        let passed = pass(
            learner.as_mut(),
            &batch,
            [&mut weights, &mut gradient],
            &mut optimizer,
            spec.train.optimizer.lr,
        )?;
        if step >= WARM_UP {
            times.push(passed);
        }
    }
    let [all, forward, backward, update] = times.0.map(|mut values| median(&mut values));
    println!("step bakeoff us={all:.1} forward={forward:.1} backward={backward:.1} update={update:.1}");
    Ok(())
}

/// Of the whole step, the forward pass with its loss, the backward pass and the update.
#[derive(Default)]
struct Times([Vec<f64>; 4]);

impl Times {
    fn push(&mut self, step: [f64; 4]) {
        self.0.iter_mut().zip(step).for_each(|(times, time)| times.push(time));
    }
}

fn pass(
    learner: &mut dyn TrainedModel,
    batch: &Batch,
    [weights, gradient]: [&mut Vector; 2],
    optimizer: &mut Optimizer,
    rate: f32,
) -> Result<[f64; 4]> {
    let spans: Vec<_> = learner.layout().layers().iter().map(|layer| layer.span.clone()).collect();
    learner.load(batch)?;
    let begin = Instant::now();
    for layer in 0..spans.len() {
        learner.forward(weights, layer)?;
    }
    learner.loss(batch)?;
    let forward = microseconds(begin.elapsed());
    for (layer, span) in spans.iter().enumerate().rev() {
        learner.backward(weights, layer, &mut gradient[span.clone()])?;
    }
    let backward = microseconds(begin.elapsed()) - forward;
    optimizer.apply_gradient(weights, gradient, rate);
    let all = microseconds(begin.elapsed());
    Ok([all, forward, backward, all - forward - backward])
}
