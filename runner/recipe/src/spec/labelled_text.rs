//! Texts with a label: how they are cut into tokens, and what was found in their files.

use crate::spec::dataset_profile::{DatasetProfile, ShapedBy, Targets};
use crate::spec::layer::Shape;
use crate::spec::text::TextTokens;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Tokens that stand for no word of a text: [`PADDING`] and [`UNKNOWN_TOKEN`].
pub const SPECIAL_TOKENS: u32 = 2;
/// The token behind the end of a text that is shorter than the context.
pub const PADDING: u32 = 0;
/// The token of whatever is not in the vocabulary.
pub const UNKNOWN_TOKEN: u32 = 1;

/// Settings of a recipe for reading the files of labelled texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct LabelledTextForm {
    /// Whether the first record of each file names its columns.
    pub header: bool,
    /// Unit that counts as one token: a byte, a character or a word.
    pub unit: TextTokens,
    /// How many of the most frequent tokens of the training file have a number of their own, at most.
    pub most: u32,
}

/// Counts found in the files of labelled texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct LabelledTextSize {
    /// Records of the training file.
    pub train: u32,
    /// Records of the test file.
    pub test: u32,
    /// Different labels of the training file.
    pub classes: u32,
    /// Size of the vocabulary: tokens with a number of their own, and [`SPECIAL_TOKENS`]; tokens are below it.
    pub vocabulary: u32,
}

/// Labelled texts as samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct LabelledTextProfile {
    /// How the files are read.
    pub form: LabelledTextForm,
    /// Tokens of a sample: longer texts are cut behind them, shorter ones padded.
    pub context: u32,
    /// Counts found in the files.
    pub size: LabelledTextSize,
}

impl LabelledTextSize {
    /// In place of texts that cannot be used; real ones have samples.
    pub(crate) const UNKNOWN: Self = Self { train: 0, test: 0, classes: 10, vocabulary: 1000 };
}

impl LabelledTextProfile {
    /// Shape of a sample, number of classes and kind of target, as a model needs them.
    pub(crate) fn of_samples(&self) -> DatasetProfile {
        DatasetProfile {
            input: Shape::Tokens(self.context as usize, self.size.vocabulary as usize),
            classes: self.size.classes as usize,
            targets: Targets::Class,
            shaped_by: ShapedBy::Context,
        }
    }
}
