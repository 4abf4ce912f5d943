//! How good a model is on samples it was not trained on.

use super::kernel::{self, dimensions};
use super::learner::failed;
use super::{TorchLearner, TrainedModel, loss};
use crate::data::{DataSet, Split};
use std::sync::Arc;
use strategies::{StepError, Vector};
use tch::Tensor;

/// Samples that are evaluated at once; the result does not depend on it beyond the last bits.
const AT_ONCE: usize = 1000;

/// How good a model is on some samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Evaluation {
    /// Share of the samples whose highest score is that of their class, 0 to 1.
    pub accuracy: f64,
    /// Mean cross-entropy in nats per sample.
    pub loss: f64,
    /// Samples that were scored.
    pub samples: usize,
}

/// Evaluates a function from inputs to class scores on all samples of a split.
pub(super) fn over(
    data: &DataSet,
    split: Split,
    scores: impl FnMut(Tensor) -> Result<Tensor, StepError>,
) -> Result<Option<Evaluation>, StepError> {
    over_chunks(data, split, AT_ONCE, scores)
}

fn over_chunks(
    data: &DataSet,
    split: Split,
    at_once: usize,
    mut scores: impl FnMut(Tensor) -> Result<Tensor, StepError>,
) -> Result<Option<Evaluation>, StepError> {
    let wrong = |error: crate::data::DataError| StepError::Learner(error.to_string());
    let positions = data.positions(split);
    let (mut loss, mut right) = (0.0, 0);
    for some in positions.chunks(at_once) {
        let x = data.inputs(split, some).map_err(wrong)?;
        let labels = data.labels_at(split, some).map_err(wrong)?;
        let (some_loss, some_right) = tch::no_grad(|| {
            let y = scores(x)?;
            loss::check(&y, labels.len(), data.classes())?;
            let labels = Tensor::f_from_slice(&labels);
            let tally = labels.and_then(|labels| loss::tally(&y, &labels));
            tally.map_err(|error| failed("the scores", "evaluation", error))
        })?;
        loss += some_loss;
        right += some_right;
    }
    let samples = positions.len();
    Ok((samples > 0).then(|| Evaluation {
        accuracy: right as f64 / samples as f64,
        loss: loss / samples as f64,
        samples,
    }))
}

impl TrainedModel for TorchLearner {
    fn data(&self) -> &Arc<DataSet> {
        &self.data
    }

    fn evaluate(&mut self, weights: &Vector, split: Split) -> Result<Option<Evaluation>, StepError> {
        self.evaluate_by(weights, split, AT_ONCE)
    }
}

impl TorchLearner {
    fn evaluate_by(
        &self,
        weights: &Vector,
        split: Split,
        at_once: usize,
    ) -> Result<Option<Evaluation>, StepError> {
        if weights.len() != self.layout.size() {
            let got = weights.len();
            let expected = self.layout.size();
            return Err(StepError::Learner(format!("{got} weights were given, the model has {expected}")));
        }
        over_chunks(&self.data, split, at_once, |x| self.scores(weights, x))
    }

    fn scores(&self, weights: &Vector, mut x: Tensor) -> Result<Tensor, StepError> {
        let rows = x.size().first().copied().unwrap_or(0);
        for (section, described) in self.sections.iter().zip(self.layout.layers()) {
            for placed in &self.model.layers[section.placed.clone()] {
                let input = x.f_reshape(dimensions(rows, placed.input));
                x = input
                    .and_then(|x| kernel::forward(placed, &weights[described.span.clone()], x, None))
                    .map_err(|error| failed(&placed.name, "evaluation", error))?
                    .0;
            }
        }
        Ok(x)
    }
}
