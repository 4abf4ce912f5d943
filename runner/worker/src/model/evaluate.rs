//! How good a model is on samples it was not trained on.

use super::batch_norm::{Moments, Normaliser, Statistics};
use super::dropout::Masks;
use super::flat::Weights;
use super::frozen;
use super::gpu::Gpu;
use super::kernel::{self, Pass};
use super::learner::failed;
use super::tensors::dimensions;
use super::{Evaluation, TorchLearner, TrainedModel, loss};
use crate::data::{DataError, DataSet, Split};
use crate::stream;
use recipe::{Metric, PlacedLayer};
use std::sync::Arc;
use strategies::{StepError, Vector};
use tch::{TchError, Tensor};

/// Training samples of which batch norm takes mean and variance for an evaluation: enough to know a mean to a
/// fortieth of the deviation, and a fifth of the work on a test set of 10,000.
const CALIBRATION: usize = 2048;

/// Samples that are normalised together there, as in a batch of training; fewer of large images.
pub(super) const CALIBRATION_BATCH: usize = 256;

/// Evaluates a function from inputs to class scores on all samples of a split, `at_once` of them at a time; the result does not
/// depend on that beyond the last bits.
pub(super) fn over(
    data: &DataSet,
    split: Split,
    at_once: usize,
    mut scores: impl FnMut(Tensor) -> Result<Tensor, StepError>,
) -> Result<Option<Evaluation>, StepError> {
    let positions = data.positions(split);
    let targets = data.targets();
    let many = data.classes() > Metric::FEW_CLASSES && targets == 1;
    let mut loss = 0.0;
    let mut right = 0;
    let mut among_five = 0;
    for some in positions.chunks(at_once.max(1)) {
        let x = data.inputs(split, some).map_err(wrong)?;
        let labels = data.labels_at(split, some).map_err(wrong)?;
        let (some_loss, some_right, some_among) = tch::no_grad(|| {
            let y = loss::rows(&scores(x)?).map_err(|error| failed("the scores", "evaluation", error))?;
            loss::check(&y, labels.len(), data.classes())?;
            let labels = Tensor::f_from_slice(&labels).and_then(|labels| labels.f_to(y.device()));
            let tally = labels.and_then(|labels| {
                let (loss, right) = loss::tally(&y, &labels)?;
                Ok((loss, right, if many { loss::among_five(&y, &labels)? } else { 0 }))
            });
            tally.map_err(|error| failed("the scores", "evaluation", error))
        })?;
        loss += some_loss;
        right += some_right;
        among_five += some_among;
    }
    let samples = positions.len();
    Ok((samples > 0).then(|| Evaluation {
        accuracy: right as f64 / (samples * targets) as f64,
        top_5: many.then(|| among_five as f64 / samples as f64),
        loss: loss / (samples * targets) as f64,
        samples,
    }))
}

impl TrainedModel for TorchLearner {
    fn data(&self) -> &Arc<DataSet> {
        &self.data
    }

    /// Where the model has batch norm, 2,048 training samples (all, if there are fewer) pass through it first, 256 at a time (fewer of large images) and
    /// each time normalised by themselves; the means over the samples of their means and population variances are what batch
    /// norm uses then. Which samples these are depends on the data set alone.
    fn evaluate(&mut self, weights: &Vector, split: Split) -> Result<Option<Evaluation>, StepError> {
        if weights.len() != self.layout.size() {
            let got = weights.len();
            let expected = self.layout.size();
            return Err(StepError::Learner(format!("{got} weights were given, the model has {expected}")));
        }
        if self.data.positions(split).is_empty() {
            return Ok(None);
        }
        if let Some(gpu) = &mut self.gpu {
            let whole = 0..weights.len();
            let copied = gpu.hold(weights.len()).and_then(|()| gpu.upload(weights, whole));
            copied.map_err(|error| failed("the weights", "copy", error))?;
        }
        let copy = self.gpu.as_ref().map(Gpu::weights);
        let weights = Weights::of(copy.as_ref(), weights);
        let statistics = tch::no_grad(|| self.statistics(weights))?;
        over(&self.data, split, self.model.evaluated_at_once(), |x| {
            self.scores(weights, x, &mut Normaliser::Fixed(&statistics))
        })
    }

    fn frozen_weights(&self) -> Vector {
        frozen::values(&self.model, self.seed)
    }
}

impl TorchLearner {
    /// The mean and variance that each batch norm uses for these weights.
    fn statistics(&self, weights: Weights<'_>) -> Result<Statistics, StepError> {
        let mut moments = Moments::default();
        if self.model.layers.iter().any(PlacedLayer::looks_across_batch) {
            let at_once = CALIBRATION_BATCH.min(self.model.evaluated_at_once());
            for some in calibration_samples(&self.data).chunks(at_once) {
                let x = self.data.inputs(Split::Training, some).map_err(wrong)?;
                let _ = self.scores(weights, x, &mut Normaliser::Gathered(&mut moments))?;
            }
        }
        moments.mean(self.device()).map_err(|error| failed("batch norm", "evaluation", error))
    }

    /// The class scores of examples, without dropout.
    fn scores(
        &self,
        weights: Weights<'_>,
        x: Tensor,
        normaliser: &mut Normaliser<'_>,
    ) -> Result<Tensor, StepError> {
        let rows = x.size().first().copied().unwrap_or(0);
        let mut x = x.f_to(self.device()).map_err(|error| failed("the samples", "copy", error))?;
        for (section, described) in self.sections.iter().zip(self.layout.layers()) {
            for place in section.placed.clone() {
                let placed = &self.model.layers[place];
                let mut through = |x: Tensor| -> Result<Tensor, TchError> {
                    let x = self.format.give(x.f_reshape(dimensions(rows, placed.input))?)?;
                    let tied = self.tied(weights);
                    let span = &described.span;
                    let own = weights.part(span.clone()).ok_or_else(|| {
                        TchError::Shape(format!("{span:?} is not within {} weights", weights.len()))
                    })?;
                    let pass = Pass {
                        factor: None,
                        masks: Masks::Off,
                        normaliser: &mut *normaliser,
                        tied,
                        frozen: self.frozen.at(place),
                        passes_gradient: false,
                        labels: None,
                    };
                    Ok(kernel::forward(placed, own, x, pass)?.0)
                };
                x = through(x).map_err(|error| failed(&placed.name, "evaluation", error))?;
            }
        }
        Ok(x)
    }
}

/// A drawn part of the training samples, in the order of the draw; held-out samples are not among them.
pub(super) fn calibration_samples(data: &DataSet) -> Vec<u32> {
    let mut ids = data.training_ids().to_vec();
    let mut draws = stream::keyed(0, "batch norm of evaluations", &[]);
    let wanted = ids.len().min(CALIBRATION);
    // The first steps of a Fisher-Yates shuffle choose a uniform subset.
    for place in 0..wanted {
        let other = place + stream::below(&mut draws, (ids.len() - place) as u32) as usize;
        ids.swap(place, other);
    }
    ids.truncate(wanted);
    ids
}

/// Samples in batches of `at_once`, without a last one of a single sample, which has no variance, unless it is the only one.
pub(super) fn calibration_batches(samples: &[u32], at_once: usize) -> impl Iterator<Item = &[u32]> {
    let only = samples.len() == 1;
    samples.chunks(at_once).filter(move |batch| batch.len() > 1 || only)
}

fn wrong(error: DataError) -> StepError {
    StepError::Learner(error.to_string())
}
