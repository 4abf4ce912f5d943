//! The smallest recipe that does something, for tests that are about something else.

use std::fmt;

/// A recipe of two workers and one run on drawn images. What a test is about, it changes; `..Sketch::default()` is
/// ten steps of a linear model.
#[derive(Clone, Copy, Debug)]
pub struct Sketch<'a> {
    /// Name of the sweep.
    pub name: &'a str,
    /// Kind of the model.
    pub model: &'a str,
    /// Kind of the strategy.
    pub strategy: &'a str,
    /// Number of training images.
    pub samples: u32,
    /// Samples per step of both workers.
    pub batch: u32,
    /// How long it trains.
    pub steps: u32,
    /// Learning rate, as it is written.
    pub rate: &'a str,
    /// Steps between two evaluations.
    pub evaluate: u32,
}

impl Default for Sketch<'_> {
    fn default() -> Self {
        Self {
            name: "small",
            model: "softmax",
            strategy: "d-sync",
            samples: 200,
            batch: 20,
            steps: 10,
            rate: "0.05",
            evaluate: 10,
        }
    }
}

impl Sketch<'_> {
    /// Small steps of a model of the usual size; no evaluation but at both ends.
    pub fn perceptron(name: &'static str, strategy: &'static str, steps: u32) -> Self {
        let samples = 500;
        let batch = 50;
        let rate = "0.01";
        Sketch { name, model: "mnist-mlp", strategy, samples, batch, steps, rate, evaluate: steps }
    }
}

impl fmt::Display for Sketch<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, model, strategy, samples, batch, steps, rate, evaluate } = self;
        write!(
            out,
            r#"schema = 1
name = "{name}"
[model]
kind = "{model}"
[dataset]
kind = "synthetic"
train = {samples}
test = 100
[train]
global-batch = {batch}
steps = {steps}
optimizer = {{ kind = "sgd", lr = {rate} }}
evaluate = "{evaluate} steps"
[nodes]
use = ["local*2"]
[strategy]
kind = "{strategy}"
[repeats]
count = 1
"#
        )
    }
}
