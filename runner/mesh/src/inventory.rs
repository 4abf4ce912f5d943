//! Strategies and codecs that a `bakeoff-worker` has beyond those of this repository. It lists them when it is asked
//! for its protocol, so that a recipe which needs more is refused before anything starts.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The custom strategies and codecs of a worker binary.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Inventory {
    /// By name, the number of vectors as long as the weights that a worker of the strategy holds beside those of every rank.
    pub strategies: BTreeMap<String, u64>,
    /// Names of the codecs.
    pub codecs: BTreeSet<String>,
}

impl Inventory {
    /// It as one line of JSON.
    ///
    /// # Errors
    /// Never with these types; the signature is that of `serde_json`.
    pub fn to_line(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(self)
    }

    /// Reads what [`Inventory::to_line`] wrote.
    ///
    /// # Errors
    /// The line is something else.
    pub fn from_line(line: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(line)
    }
}
