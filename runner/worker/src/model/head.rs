//! Auxiliary heads: classifiers in the middle of a model, whose losses add to that of the model.
//!
//! Source: Szegedy et al., "Going Deeper with Convolutions", 2015 (arXiv 1409.4842), section 5.

use super::down::Down;
use super::loss;
use super::recording::Recording;
use recipe::PlacedLayer;
use tch::{TchError, Tensor};

/// Loss and gradient of a head's scores in a forward pass.
pub(super) struct Head {
    recording: Recording,
    /// Its part of the loss.
    loss: f32,
    /// The gradient of that with respect to its scores.
    gradient: Tensor,
}

impl Head {
    /// `weight` times the mean cross-entropy of the scores that were recorded.
    pub(super) fn of(
        recording: Recording,
        scores: &Tensor,
        labels: &Tensor,
        weight: f32,
    ) -> Result<Self, TchError> {
        let (mean, gradient) = loss::cross_entropy(&loss::rows(scores)?, labels)?;
        let gradient = gradient.f_mul_scalar(f64::from(weight))?.f_reshape(scores.size())?;
        Ok(Self { recording, loss: weight * mean, gradient })
    }

    /// Its part of the loss, which is added to the model's.
    pub(super) fn loss(&self) -> f32 {
        self.loss
    }

    /// The head's input, and its scores.
    pub(super) fn ends(&self) -> [&Tensor; 2] {
        self.recording.ends()
    }

    /// Its own gradient, and with respect to what it passed on the sum of its own and the one from above.
    pub(super) fn backward(&self, layer: &PlacedLayer, down: Down<'_>) -> Result<Option<Tensor>, TchError> {
        let above = down.gy;
        let own = self.recording.backward(layer, Down { gy: &self.gradient, ..down })?;
        own.map(|own| own.f_add(above)).transpose()
    }
}
