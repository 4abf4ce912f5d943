//! How good a model is on samples it was not trained on.

use super::kernel::{self, dimensions};
use super::learner::failed;
use super::{TorchLearner, loss};
use crate::data::Split;
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

impl TorchLearner {
    /// Evaluates `weights` on all samples of a split, without dropout: means over samples, summed in 64 bits,
    /// whatever the size of the last batch. Answers nothing where the split has no samples.
    pub fn evaluate(&self, weights: &Vector, split: Split) -> Result<Option<Evaluation>, StepError> {
        self.evaluate_by(weights, split, AT_ONCE)
    }

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
        let positions = self.data.positions(split);
        let mut loss = 0.0;
        let mut right = 0;
        for some in positions.chunks(at_once) {
            let (some_loss, some_right) = tch::no_grad(|| self.tally(weights, split, some))?;
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

    fn tally(&self, weights: &Vector, split: Split, positions: &[u32]) -> Result<(f64, i64), StepError> {
        let wrong = |error: crate::data::DataError| StepError::Learner(error.to_string());
        let mut x = self.data.inputs(split, positions).map_err(wrong)?;
        let labels = self.data.labels_at(split, positions).map_err(wrong)?;
        for (section, described) in self.sections.iter().zip(self.layout.layers()) {
            for placed in &self.model.layers[section.placed.clone()] {
                let input = x.f_reshape(dimensions(positions.len() as i64, placed.input));
                x = input
                    .and_then(|x| kernel::forward(placed, &weights[described.span.clone()], x, None))
                    .map_err(|error| failed(&placed.name, "evaluation", error))?
                    .0;
            }
        }
        let labels = Tensor::f_from_slice(&labels);
        labels
            .and_then(|labels| loss::tally(&x, &labels))
            .map_err(|error| failed("the scores", "evaluation", error))
    }
}
