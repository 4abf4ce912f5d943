//! How long the layers of a model take in one process with one thread of computation: forward and backward pass of each.
//!
//! `layers RECIPE STEPS [KEY=VALUE...]` takes the model, the data set and a worker's share of the batch from a recipe, with these
//! settings replaced, and prints a line for each layer with weights, together with those up to the next one:
//!
//! ```text
//! layers bakeoff number=0 name=conv-1 forward=1520.0 backward=2210.4
//! ```
//!
//! Times are medians over the steps, in microseconds.

#![expect(clippy::print_stdout, reason = "this program's answer")]

mod described;

use anyhow::{Result, bail};
use described::{median, microseconds};
use std::time::Instant;
use strategies::Batch;
use worker::model::TrainedModel;

/// Steps that are not counted.
const WARM_UP: usize = 3;

/// The times of a layer in all steps, in microseconds.
#[derive(Clone, Default)]
struct Times {
    forward: Vec<f64>,
    backward: Vec<f64>,
}

fn main() -> Result<()> {
    // As a worker does.
    mesh::keep_freed_memory();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [recipe, steps, overrides @ ..] = arguments.as_slice() else {
        bail!("layers RECIPE STEPS [KEY=VALUE...]");
    };
    let (mut learner, batch) = described::learner(&described::spec(recipe, overrides)?, None)?;
    let times = measured(learner.as_mut(), &batch, steps.parse()?)?;
    for (number, (layer, of_layer)) in learner.layout().layers().iter().zip(times).enumerate() {
        let Times { mut forward, mut backward } = of_layer;
        let forward = median(&mut forward);
        let backward = median(&mut backward);
        println!(
            "layers bakeoff number={number} name={} forward={forward:.1} backward={backward:.1}",
            layer.name
        );
    }
    Ok(())
}

fn measured(learner: &mut dyn TrainedModel, batch: &Batch, steps: usize) -> Result<Vec<Times>> {
    let weights = learner.initial();
    let mut gradient = vec![0.0_f32; weights.len()];
    let spans: Vec<_> = learner.layout().layers().iter().map(|layer| layer.span.clone()).collect();
    let mut times = vec![Times::default(); spans.len()];
    for step in 0..WARM_UP + steps {
        let counts = step >= WARM_UP;
        learner.load(batch)?;
        for (layer, of_layer) in times.iter_mut().enumerate() {
            let begin = Instant::now();
            learner.forward(&weights, layer)?;
            of_layer.forward.extend(counts.then(|| microseconds(begin.elapsed())));
        }
        learner.loss(batch)?;
        for (layer, span) in spans.iter().enumerate().rev() {
            let begin = Instant::now();
            learner.backward(&weights, layer, &mut gradient[span.clone()])?;
            times[layer].backward.extend(counts.then(|| microseconds(begin.elapsed())));
        }
    }
    Ok(times)
}
