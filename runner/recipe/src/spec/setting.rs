//! The values of a recipe's keys, as a plan records them: each once for all cells that share it.

use serde::{Deserialize, Serialize};

/// A key's value in some cells of a plan. The values of axes are not among them: each cell has its own
/// ([`Cell::axes`](crate::Cell::axes)).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Setting {
    /// `train.optimizer.lr`; a table with a `kind` is called by its own path: `communication.collective`.
    pub path: String,
    /// The value as the recipe writes it.
    pub text: String,
    /// The value where it is a number (a quantity with a unit in its base unit).
    pub number: Option<f64>,
    /// The cells that have it.
    pub of: SettingScope,
}

/// The cells that have a [`Setting`] in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SettingScope {
    /// All of the plan.
    Plan,
    /// All of an arm, by its index into [`Plan::arms`](crate::Plan::arms).
    Arm(usize),
    /// One, by its index into [`Plan::cells`](crate::Plan::cells).
    Cell(usize),
}
