//! The values of a recipe's keys, as a plan records them: each once for the cells that share it.

use serde::{Deserialize, Serialize};

/// The value of a key in some cells of a plan. Where a key has several in one cell, that of the fewest cells is meant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KeyValue {
    /// `train.optimizer.lr`; a table with a `kind` is called by its own path: `communication.collective`.
    pub path: String,
    /// The value as the recipe writes it.
    pub text: String,
    /// The value where it is a number (a quantity with a unit in its base unit).
    pub number: Option<f64>,
    /// The cells that have it.
    pub of: SharedBy,
}

/// The cells that have a [`KeyValue`] in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SharedBy {
    /// All of the plan.
    Plan,
    /// All of an arm, by its index into [`Plan::arms`](crate::Plan::arms).
    Arm(usize),
    /// One, by its index into [`Plan::cells`](crate::Plan::cells).
    Cell(usize),
}
