//! The way of a gradient down through a layer.

use super::flat::{Gradient, Weights};
use super::tied::Tied;
use tch::Tensor;

/// Inputs of a layer's backward pass, and where its results go.
pub(super) struct Down<'a> {
    /// The gradient of the loss with respect to the layer's result.
    pub(super) gy: &'a Tensor,
    /// The layer's weights, in the order of its parameters.
    pub(super) weights: Weights<'a>,
    /// Where the gradient with respect to these weights is written.
    pub(super) gradient: Gradient<'a>,
    /// Whether the gradient with respect to the layer's input is needed below.
    pub(super) wants_input: bool,
    /// The embedding whose matrix a tied head shares.
    pub(super) tied: Option<Tied<'a>>,
    /// The gradient of the shared matrix by the head, from its backward pass to that of the embedding.
    pub(super) of_head: &'a mut Option<Tensor>,
}
