//! An embedding, with vectors for positions or without, and a head that scores tokens by the embedding's own matrix.
//!
//! The matrix lies once in the flat vector, in the span of the embedding, which is the first layer. It has two uses: its gradient
//! is the sum of what the head's backward pass computes, which comes first, and of what the embedding's does, which comes last.
//! So the head's part is kept here until then, and the gradient is complete when the first layer's backward pass is done: with
//! every schedule of exchanges it travels with the first layer. A sum of two numbers has the same bits in both orders, so that
//! this is also what a derivative of the whole graph gives.

use super::flat::{Gradient, View, Weights};
use super::tensors::{split, split_mut};
use recipe::{Parameter, PlacedLayer};
use tch::{Kind, TchError, Tensor};

/// The matrix of an embedding that a head shares, and what the head has added to its gradient.
pub(super) struct Tied<'a> {
    /// The model's first layer.
    pub(super) embedding: &'a PlacedLayer,
    /// Its weights: the matrix, then the positions.
    pub(super) weights: Weights<'a>,
}

impl<'a> Tied<'a> {
    /// The embedding's matrix, `[vocabulary, width]`: a row for each token.
    fn matrix(&self) -> Result<View<'a>, TchError> {
        let missing = || TchError::Shape(format!("{} has no vectors for a head", self.embedding.name));
        let parameter = self.embedding.parameters.first().ok_or_else(missing)?;
        let (values, _) = self.weights.split_at_checked(Parameter::size(parameter)).ok_or_else(missing)?;
        let sides: Vec<i64> = parameter.shape.iter().map(|side| *side as i64).collect();
        values.view(&sides)
    }

    /// Scores `[rows, positions, vocabulary]` of `[rows, positions, width]`.
    pub(super) fn scores(&self, x: &Tensor) -> Result<Tensor, TchError> {
        let matrix = self.matrix()?;
        let mut sizes = x.size();
        let scores = positions(x)?.f_mm(&matrix.f_transpose(0, 1)?)?;
        if let Some(last) = sizes.last_mut() {
            *last = matrix.size()[0];
        }
        scores.f_reshape(&sizes)
    }

    /// The gradients with respect to the head's input `x`, and to the matrix.
    pub(super) fn backward(&self, x: &Tensor, gy: &Tensor) -> Result<TiedGradients, TchError> {
        let gy = positions(gy)?;
        let of_matrix = gy.f_transpose(0, 1)?.f_mm(&positions(x)?)?;
        let of_input = gy.f_mm(&*self.matrix()?)?.f_reshape(x.size())?;
        Ok(TiedGradients { of_input, of_matrix })
    }
}

/// Gradients that the backward pass of a tied head computes.
pub(super) struct TiedGradients {
    /// With respect to its input, `[rows, positions, width]`.
    pub(super) of_input: Tensor,
    /// With respect to the shared matrix, `[vocabulary, width]`.
    pub(super) of_matrix: Tensor,
}

/// Each position as a row.
fn positions(x: &Tensor) -> Result<Tensor, TchError> {
    let width = x.size().last().copied().unwrap_or(0);
    x.f_reshape([-1, width])
}

/// The vectors `[rows, positions, width]` of tokens `[rows, positions]`, which are numbers, and the tokens as integers.
pub(super) fn embed(
    layer: &PlacedLayer,
    weights: Weights<'_>,
    tokens: &Tensor,
) -> Result<Embedded, TchError> {
    let views = split(layer, weights)?;
    let [matrix, position @ ..] = &views[..] else { return Err(no_matrix(layer)) };
    let tokens = tokens.f_to_kind(Kind::Int64)?;
    let of_tokens = Tensor::f_embedding(matrix, &tokens, NO_PADDING, UNSCALED, DENSE)?;
    let vectors = match position {
        [] => of_tokens,
        [position, ..] => of_tokens.f_add(position)?,
    };
    Ok(Embedded { vectors, tokens })
}

/// Result of an embedding's forward pass.
pub(super) struct Embedded {
    pub(super) vectors: Tensor,
    /// The tokens as integers.
    pub(super) tokens: Tensor,
}

fn no_matrix(layer: &PlacedLayer) -> TchError {
    TchError::Shape(format!("{} has no vectors", layer.name))
}

/// No token stands for nothing.
const NO_PADDING: i64 = -1;
/// Gradients are not divided by how often a token occurs.
const UNSCALED: bool = false;
/// Gradients have a row for every token.
const DENSE: bool = false;

/// Writes the gradient of an embedding, of whose result `gy` is the gradient, with that of a head that shares its matrix.
pub(super) fn embedding_gradient(
    layer: &PlacedLayer,
    tokens: &Tensor,
    gy: &Tensor,
    gradient: Gradient<'_>,
    of_head: Option<&Tensor>,
) -> Result<(), TchError> {
    let mut views = split_mut(layer, gradient)?;
    let [matrix, position @ ..] = &mut views[..] else { return Err(no_matrix(layer)) };
    for position in position {
        let _ = gy.f_sum_intlist_out(position, 0, false, Kind::Float)?;
    }
    let vocabulary = matrix.size()[0];
    let own = Tensor::f_embedding_dense_backward(gy, tokens, vocabulary, NO_PADDING, UNSCALED)?;
    match of_head {
        Some(of_head) => own.f_add_out(matrix, of_head).map(drop),
        None => matrix.fill_from(&own),
    }
}
