//! How the computing of a step is divided among its passes and its layers: as it was measured, as the recipe states it, or by arithmetic.

use recipe::{ComputeSplit, RunSpec, WeightedLayer};
use std::borrow::Cow;

/// Computing of a worker in a step, in seconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Computing {
    /// Forward pass, backward pass and update together.
    pub step: f64,
    /// How it is divided, if that was measured; else as the recipe gives it.
    pub passes: Option<Passes>,
}

/// How the computing of a step is divided, in any unit.
#[derive(Clone, Debug, PartialEq)]
pub struct Passes {
    /// Part of the forward pass; not negative.
    pub forward: f64,
    /// Part of the backward pass through all layers together; not negative.
    pub backward: f64,
    /// Part of the update of the weights; not negative.
    pub update: f64,
    /// How the backward pass is divided among the layers with weights, from the input on, in any unit. If empty, layers take time in
    /// the proportion of their arithmetic.
    pub layers: Vec<f64>,
}

/// The computing of a step as MG-WFBP's time line has it, in seconds.
pub(super) struct LayerTimes {
    pub(super) forward: f64,
    /// Of each layer with weights, from the input on.
    pub(super) backward: Vec<f64>,
    pub(super) update: f64,
}

/// The phases of a worker's computing in a step, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PassTimes {
    /// Forward pass of the whole batch, as the other times.
    pub forward: f64,
    /// Backward pass through all layers.
    pub backward: f64,
    /// Update of the weights; zero where servers make it.
    pub update: f64,
}

impl PassTimes {
    /// Time of all passes together.
    pub fn sum(self) -> f64 {
        self.forward + self.backward + self.update
    }
}

impl Computing {
    /// Computing of which only its length is known.
    pub fn of_step(seconds: f64) -> Self {
        Self { step: seconds, passes: None }
    }

    /// Times of the passes, in the proportions that were measured, else in those of the recipe.
    pub(super) fn pass_times(&self, spec: &RunSpec) -> PassTimes {
        let passes = self.divided(spec, &spec.model.weighted_layers());
        let second = self.step / passes.whole();
        PassTimes {
            forward: passes.forward * second,
            backward: passes.backward * second,
            update: passes.update * second,
        }
    }

    /// As it was measured, else as the recipe gives it.
    fn divided(&self, spec: &RunSpec, weighted: &[WeightedLayer<'_>]) -> Cow<'_, Passes> {
        match &self.passes {
            Some(passes) if passes.whole() > 0.0 => Cow::Borrowed(passes),
            Some(_) | None => Cow::Owned(Passes::stated(spec, weighted)),
        }
    }

    pub(super) fn layers(&self, spec: &RunSpec, weighted: &[WeightedLayer<'_>]) -> LayerTimes {
        let passes = self.divided(spec, weighted);
        let second = self.step / passes.whole();
        let arithmetic = || weighted.iter().map(|layer| layer.backward_flops as f64).collect();
        // Where operations are not known, each layer has as many as any other.
        let equal = || vec![1.0; weighted.len()];
        let measured = Some(&passes.layers).filter(|layers| layers.len() == weighted.len()).cloned();
        let parts = measured.unwrap_or_else(arithmetic);
        let parts = if parts.iter().sum::<f64>() > 0.0 { parts } else { equal() };
        let whole: f64 = parts.iter().sum();
        // Of several pieces of a batch, only the last one's backward pass has messages beside it.
        let pieces = f64::from(spec.train.accumulate.max(1));
        let backward = passes.backward * second / pieces;
        LayerTimes {
            forward: passes.forward * second + backward * (pieces - 1.0),
            backward: parts.iter().map(|part| backward * part / whole).collect(),
            update: passes.update * second,
        }
    }
}

impl Passes {
    /// As the recipe gives them. Where it gives none, the backward pass takes twice the forward pass, less where layers are frozen.
    fn stated(spec: &RunSpec, weighted: &[WeightedLayer<'_>]) -> Self {
        let (forward, backward, update) = match spec.emulation.compute.map(|compute| compute.split) {
            Some(ComputeSplit::Given { forward, backward, update }) => (forward, backward, update),
            Some(ComputeSplit::Measured) | None => {
                let [forward, backward] = shares_of_passes(weighted);
                (forward, backward, 0.0)
            }
        };
        Self { forward, backward, update, layers: Vec::new() }
    }

    fn whole(&self) -> f64 {
        self.forward + self.backward + self.update
    }
}

/// The parts of a step's operations that the forward and the backward pass have: a third and two thirds unless layers are frozen.
fn shares_of_passes(layers: &[WeightedLayer<'_>]) -> [f64; 2] {
    let sum = |of: fn(&WeightedLayer<'_>) -> u64| layers.iter().map(of).sum::<u64>() as f64;
    let forward = sum(|layer| layer.flops);
    let backward = sum(|layer| layer.backward_flops);
    let all = forward + backward;
    if all > 0.0 { [forward / all, backward / all] } else { [1.0 / 3.0, 2.0 / 3.0] }
}
