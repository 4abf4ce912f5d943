//! A user's own labelled texts as a data set: the first tokens of each text, and its class.

use super::loaded::Loaded;
use super::{DataError, Samples};
use arrays::{Features, LabelledTokens};
use recipe::{LabelledTextProfile, Shape};
use sha2::{Digest, Sha256};
use std::path::Path;

/// Reads the texts of a folder, which must be as many as those that the recipe was checked with.
pub(super) fn read(folder: &Path, expected: &LabelledTextProfile) -> Result<Loaded, DataError> {
    let LabelledTextProfile { form, context, size } = *expected;
    let mut digest = Sha256::new();
    let found = arrays::load_labelled_texts(folder, form, context, &mut |bytes| digest.update(bytes))
        .map_err(|error| DataError::LabelledText { error })?;
    if found.size != size {
        let expected = size;
        let found = found.size;
        return Err(DataError::OtherLabelledTexts { folder: folder.to_owned(), expected, found });
    }
    let shape = Shape::Tokens(context as usize, size.vocabulary as usize);
    let samples = |LabelledTokens { tokens, labels }: LabelledTokens| Samples {
        shape,
        features: Features::Floats(tokens).into(),
        labels,
    };
    Ok(Loaded {
        training: samples(found.train),
        test: samples(found.test),
        classes: size.classes as usize,
        digest,
    })
}
