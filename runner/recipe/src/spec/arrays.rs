//! A user's own arrays, as far as a recipe's check knows them.

use crate::Shape;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Properties of a user's arrays that are known before their features are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct ArrayProfile {
    /// Number of training samples.
    pub train: u32,
    /// Number of test samples.
    pub test: u32,
    /// Number of classes: one more than the largest label of both files.
    pub classes: u32,
    /// The shape of an example.
    pub shape: Shape,
    /// How the features are kept.
    pub values: ArrayValues,
}

/// How features are kept and scaled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ArrayValues {
    /// They are kept as bytes and normalised per channel, as pixels are.
    Bytes,
    /// They are kept with 32 bits, as they are.
    Floats,
}

impl ArrayProfile {
    /// In place of arrays that cannot be used: every model that has a name fits it. Real arrays have at least one sample.
    pub(crate) const UNKNOWN: Self =
        Self { train: 0, test: 0, classes: 10, shape: Shape::Image(3, 32, 32), values: ArrayValues::Bytes };
}
