//! A user's own text as a data set: windows of tokens, each with the token behind it as its target.

use super::loaded::Loaded;
use super::{DataError, Samples};
use arrays::{Features, Text};
use recipe::{Shape, TextProfile, TextSize};
use sha2::{Digest, Sha256};
use std::path::Path;

/// Reads a text, which must be as long as the one that the recipe was checked with.
pub(super) fn read(path: &Path, expected: &TextProfile) -> Result<Loaded, DataError> {
    let mut digest = Sha256::new();
    let text = Text::read(path, expected.unit, &mut |bytes| digest.update(bytes))
        .map_err(|error| DataError::Text { error })?;
    let TextProfile { context, tokens, vocabulary, train, test, .. } = *expected;
    let size = TextSize { tokens, vocabulary };
    if text.size() != size {
        let expected = size;
        let found = text.size();
        return Err(DataError::OtherText { file: path.to_owned(), expected, found });
    }
    let shape = Shape::Tokens(context as usize, vocabulary as usize);
    let windows = |begin: u32, count: u32| {
        let begin = begin as usize * context as usize;
        let values = count as usize * context as usize;
        Samples {
            shape,
            // Numbers below 2^16 are exact.
            features: Features::Floats(
                text.tokens[begin..][..values].iter().map(|token| f32::from(*token)).collect(),
            )
            .into(),
            labels: text.tokens[begin + 1..][..values].iter().map(|token| u32::from(*token)).collect(),
        }
    };
    Ok(Loaded {
        training: windows(0, train),
        test: windows(train, test),
        classes: vocabulary as usize,
        digest,
    })
}
