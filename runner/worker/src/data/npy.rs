//! A user's own arrays as a data set.

use super::loaded::Loaded;
use super::{DataError, Samples};
use arrays::{ArrayError, LabelledArrays, LabelledFeatures};
use recipe::ArrayProfile;
use sha2::{Digest, Sha256};
use std::path::Path;

/// How the arrays of a folder are read.
type Load = fn(&Path, &mut dyn FnMut(&[u8])) -> Result<LabelledArrays, ArrayError>;

/// Reads the arrays of a folder, which must be those that the recipe was checked with.
pub(super) fn read(folder: &Path, expected: &ArrayProfile, load: Load) -> Result<Loaded, DataError> {
    let mut digest = Sha256::new();
    let found =
        load(folder, &mut |bytes| digest.update(bytes)).map_err(|error| DataError::Array { error })?;
    if found.profile != *expected {
        let expected = Box::new(*expected);
        let found = Box::new(found.profile);
        return Err(DataError::Changed { folder: folder.to_owned(), expected, found });
    }
    let shape = expected.shape;
    let samples = |LabelledFeatures { features, labels }: LabelledFeatures| Samples {
        shape,
        features: features.into(),
        labels,
    };
    Ok(Loaded {
        training: samples(found.train),
        test: samples(found.test),
        classes: expected.classes as usize,
        digest,
    })
}
