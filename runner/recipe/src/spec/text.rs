//! A text as samples: windows of tokens, one behind the other.
//!
//! Windows do not overlap, and do not begin at drawn offsets: so each sample is one place of the text with one number, a pass
//! meets each token as a target exactly once, and whatever is keyed by samples (orders, parts of workers, held-out samples,
//! masks) means the same for a text as for pictures. The last windows are the test set, so that nothing of them lies between
//! training samples.

use crate::spec::family::family;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

family! {
    /// Unit that counts as one token of a text.
    #[derive(PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum TextTokens {
        Bytes = "bytes": "The bytes of the file: a vocabulary of 256. Of `text`, those that are frequent in the training file.",
        Characters = "characters": "The characters of the file, which is UTF-8: the vocabulary is all that occur anywhere in it, in \
            the order of Unicode. Of `text`, those that are frequent in the training file.",
        Words = "words": "Runs of letters and digits, lower-cased, of `text` only: `text-lines` would lose what lies between them.",
    }
}

/// Size of a text before it is cut into samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextSize {
    /// Bytes or characters of the whole file.
    pub tokens: u64,
    /// Size of the vocabulary; tokens are numbers below it.
    pub vocabulary: u32,
}

/// A text and how it is cut into samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct TextProfile {
    /// Unit that counts as one token: a byte or a character.
    pub unit: TextTokens,
    /// Tokens of a sample, each of which has the next one as its target.
    pub context: u32,
    /// Tokens of the file.
    pub tokens: u64,
    /// Size of the vocabulary; tokens are numbers below it.
    pub vocabulary: u32,
    /// Training samples, held-out ones included: the first windows of the text.
    pub train: u32,
    /// Test samples: the windows behind those.
    pub test: u32,
}

impl TextProfile {
    /// In place of a text that cannot be used; a real one has at least a sample of each kind.
    pub(crate) const UNKNOWN: Self =
        Self { unit: TextTokens::Bytes, context: 64, tokens: 0, vocabulary: 256, train: 0, test: 0 };

    /// A text in windows of `context` tokens, of which the last `share` are the test set, at least one and not all; `None` where it
    /// is too short for two windows and the token behind them, or has 2^32 windows or more.
    pub fn cut(size: TextSize, unit: TextTokens, context: u32, share: f64) -> Option<Self> {
        let TextSize { tokens, vocabulary } = size;
        let windows = u32::try_from(tokens.checked_sub(1)? / u64::from(context.max(1))).ok()?;
        let most = windows.checked_sub(1).filter(|most| *most > 0)?;
        let test = ((f64::from(windows) * share).round() as u32).clamp(1, most);
        Some(Self { unit, context, tokens, vocabulary, train: windows - test, test })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_counted_by_the_targets_that_the_text_has() {
        let cut = |tokens, context, share| {
            let size = TextSize { tokens, vocabulary: 256 };
            let profile = TextProfile::cut(size, TextTokens::Bytes, context, share)?;
            Some((profile.train, profile.test))
        };
        // The last target of a window is the token behind it.
        assert_eq!(cut(1001, 10, 0.1), Some((90, 10)));
        assert_eq!(cut(1000, 10, 0.1), Some((89, 10)));
        assert_eq!(cut(21, 10, 0.01), Some((1, 1)));
        assert_eq!(cut(21, 10, 1.0), Some((1, 1)));
        assert_eq!((cut(20, 10, 0.1), cut(0, 10, 0.1)), (None, None));
        assert_eq!(cut(1 << 40, 2, 0.1), None);
    }
}
