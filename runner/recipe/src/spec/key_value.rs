//! The values of a recipe's keys, as a plan records them: each once for the cells that share it.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

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

impl KeyValue {
    /// Whether both are one value, however they are written: `1Gbit/s` and `1000Mbit/s`.
    pub fn is_same(&self, other: &Self) -> bool {
        // Two epochs are not two steps.
        let counts_epochs = |value: &Self| value.text.contains("epoch");
        let is_same_number = self.number.is_some() && self.number == other.number;
        self.text == other.text || is_same_number && counts_epochs(self) == counts_epochs(other)
    }
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

/// The values of a plan, by the cells that share them.
#[derive(Debug)]
pub struct SharedValues<'a>(BTreeMap<SharedBy, Vec<&'a KeyValue>>);

impl<'a> SharedValues<'a> {
    /// Those of a plan's list.
    pub fn of(values: &'a [KeyValue]) -> Self {
        let mut shared: BTreeMap<SharedBy, Vec<&KeyValue>> = BTreeMap::new();
        for value in values {
            shared.entry(value.of).or_default().push(value);
        }
        Self(shared)
    }

    /// The values that a cell of this arm has, by the indices of both: of each key the value that the fewest cells share.
    pub fn of_cell(&self, arm: usize, cell: usize) -> Vec<KeyValue> {
        let mut narrowest: Vec<KeyValue> = Vec::new();
        for of in [SharedBy::Plan, SharedBy::Arm(arm), SharedBy::Cell(cell)] {
            for value in self.0.get(&of).into_iter().flatten() {
                match narrowest.iter_mut().find(|other| other.path == value.path) {
                    Some(other) => other.clone_from(value),
                    None => narrowest.push((*value).clone()),
                }
            }
        }
        narrowest
    }
}
