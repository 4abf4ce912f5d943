//! The matrices among the weights of a model, which some rules treat one by one: a learning rate of its own, factors of a low rank.

use recipe::{MatrixShape, Model};
use std::ops::Range;
use std::sync::Arc;

/// Where a matrix of weights lies in the flat vector, row after row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Matrix {
    /// Position of its first element.
    pub at: usize,
    /// Outputs of the layer.
    pub rows: usize,
    /// Inputs of an output.
    pub columns: usize,
}

impl Matrix {
    pub(crate) fn span(self) -> Range<usize> {
        self.at..self.at + self.rows * self.columns
    }
}

/// The matrices among a model's weights, in their order.
pub fn matrices(model: &Model) -> Arc<[Matrix]> {
    let mut at = 0;
    let mut matrices = Vec::new();
    for parameter in model.tensors() {
        if let Some(MatrixShape { rows, columns }) = parameter.matrix() {
            matrices.push(Matrix { at, rows, columns });
        }
        at += parameter.size();
    }
    matrices.into()
}
