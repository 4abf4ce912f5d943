//! Whether a GPU computes what the processors compute, and whether it does so twice.
//!
//! `gpu RECIPE NUMBER [KEY=VALUE...]` takes the model, the data set and a worker's batch from a recipe, with these settings replaced,
//! and passes the batch through the model once on the processors and twice on the GPU `cuda:NUMBER`. It prints a line:
//!
//! ```text
//! gpu loss=2.3025851 away=1.1e-7 gradient=4.0e-6 again=equal us=812.5 copy=301.2
//! ```
//!
//! `away` is the distance of the losses and `gradient` that of the gradients, both relative to the processors'; `again` says whether the
//! second pass on the GPU had the same bits. Times are medians of a step on the GPU in microseconds; `copy` is that part which moves
//! weights, batch and gradient.

#![expect(clippy::print_stdout, reason = "this program's answer")]

mod described;

use anyhow::{Result, bail};
use described::{median, microseconds};
use std::time::{Duration, Instant};
use strategies::{Batch, Vector};
use worker::model::TrainedModel;

/// Passes on the GPU, the first of which is not counted.
const PASSES: usize = 21;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [recipe, number, overrides @ ..] = arguments.as_slice() else {
        bail!("gpu RECIPE NUMBER [KEY=VALUE...]");
    };
    // Before any model: libtorch decides once whether there are GPUs.
    torch_native::use_gpus()?;
    let spec = described::spec(recipe, overrides)?;
    let (mut gpu, batch) = described::learner(&spec, Some(number.parse()?))?;
    let (mut processors, _) = described::learner(&spec, None)?;
    let weights = processors.initial();
    let mut expected = Passed::of(&weights);
    pass(processors.as_mut(), &weights, &batch, &mut expected)?;
    let mut found = Passed::of(&weights);
    pass(gpu.as_mut(), &weights, &batch, &mut found)?;
    let mut all = Vec::new();
    let mut copies = Vec::new();
    let mut equal = true;
    // Its memory is there before the time begins, as a worker's is.
    let mut again = Passed::of(&weights);
    pass(gpu.as_mut(), &weights, &batch, &mut again)?;
    for _ in 1..PASSES {
        pass(gpu.as_mut(), &weights, &batch, &mut again)?;
        equal &= again.loss.to_bits() == found.loss.to_bits() && again.gradient[..] == found.gradient[..];
        all.push(microseconds(again.took));
        copies.push(microseconds(again.copied));
    }
    let away = f64::from((found.loss - expected.loss).abs() / expected.loss.abs());
    println!(
        "gpu loss={} away={away:.1e} gradient={:.1e} again={} us={:.1} copy={:.1}",
        found.loss,
        distance(&found.gradient, &expected.gradient),
        if equal { "equal" } else { "different" },
        median(&mut all),
        median(&mut copies)
    );
    Ok(())
}

/// Loss and gradient of a batch, and how long it took.
struct Passed {
    loss: f32,
    gradient: Vector,
    took: Duration,
    copied: Duration,
}

impl Passed {
    /// Room for the gradient of these weights.
    fn of(weights: &Vector) -> Self {
        let gradient = Vector::zeros(weights.len());
        Self { loss: 0.0, gradient, took: Duration::ZERO, copied: Duration::ZERO }
    }
}

fn pass(learner: &mut dyn TrainedModel, weights: &Vector, batch: &Batch, passed: &mut Passed) -> Result<()> {
    let spans: Vec<_> = learner.layout().layers().iter().map(|layer| layer.span.clone()).collect();
    let mut copied = Duration::ZERO;
    learner.load(batch)?;
    let begun = Instant::now();
    learner.upload_batch()?;
    copied += begun.elapsed();
    for layer in 0..spans.len() {
        let upload = Instant::now();
        learner.upload_layer(weights, layer)?;
        copied += upload.elapsed();
        learner.forward(weights, layer)?;
    }
    passed.loss = learner.loss(batch)?.0;
    for (layer, span) in spans.into_iter().enumerate().rev() {
        let own = &mut passed.gradient[span];
        learner.backward(weights, layer, own)?;
        let download = Instant::now();
        learner.download_gradient(layer, own)?;
        copied += download.elapsed();
    }
    passed.took = begun.elapsed();
    passed.copied = copied;
    Ok(())
}

/// |a - b| / |b|.
fn distance(a: &[f32], b: &[f32]) -> f64 {
    let apart: f64 = a.iter().zip(b).map(|(a, b)| f64::from(a - b).powi(2)).sum();
    let length: f64 = b.iter().map(|b| f64::from(*b).powi(2)).sum();
    (apart / length).sqrt()
}
