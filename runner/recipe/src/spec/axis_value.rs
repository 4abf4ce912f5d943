//! Values of axes, by which the cells of a grid differ.

use serde::{Deserialize, Serialize};

/// The value of one axis in one cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AxisValue {
    /// `train.optimizer.lr`.
    pub path: String,
    /// The value as the recipe writes it.
    pub text: String,
    /// The value where it is a number (a quantity with a unit in its base unit).
    pub number: Option<f64>,
}

impl AxisValue {
    /// The last part of its path, as labels have it: `lr`.
    pub fn short(&self) -> &str {
        short_name(&self.path)
    }
}

/// The last part of a key's path; of a `kind`, the name of what has it.
pub(crate) fn short_name(path: &str) -> &str {
    let named = path.strip_suffix(".kind").unwrap_or(path);
    named.rsplit_once('.').map_or(named, |(_, last)| last)
}
