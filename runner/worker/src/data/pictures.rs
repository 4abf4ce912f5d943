//! A user's own pictures as a data set.

use super::loaded::Loaded;
use super::picture_files::{Half, PictureFiles};
use super::{DataError, Normal, SampleStore, Samples};
use pictures::PictureFolder;
use recipe::{PictureProfile, Shape};
use sha2::{Digest, Sha256};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// Mean and deviation of each channel, 0 to 1: those of ImageNet, with which nearly all published results on photographs were
/// made. They are no function of the folder, so that nothing has to be decoded before the first batch, and a model sees the same
/// numbers whatever else lies there.
pub(super) const NORMAL: [Normal; 3] = [
    Normal { mean: 0.485, deviation: 0.229 },
    Normal { mean: 0.456, deviation: 0.224 },
    Normal { mean: 0.406, deviation: 0.225 },
];

/// Lists a folder of pictures, which must have as many as when the recipe was checked.
///
/// The digest is over names alone: every rank would have to read all pictures for more. The driver digests contents, before the
/// first run and after each.
pub(super) fn read(path: &Path, expected: &PictureProfile) -> Result<Loaded, DataError> {
    let folder = PictureFolder::list(path).map_err(|problems| DataError::Pictures { problems })?;
    let found = folder.counts();
    if found != expected.counts() {
        let folder = path.to_owned();
        return Err(DataError::OtherPictures { folder, expected: expected.counts(), found });
    }
    let crop = expected.crop as usize;
    let digest = digest(&folder);
    let folder = Arc::new(folder);
    let half = |half| {
        let files = PictureFiles::new(folder.clone(), half, expected);
        let labels = files.split().labels().to_vec();
        Samples { shape: Shape::Image(3, crop, crop), features: SampleStore::Pictures(files), labels }
    };
    let training = half(Half::Train);
    let test = half(Half::Test);
    Ok(Loaded { training, test, classes: found.classes as usize, digest })
}

/// Of each half the name of each picture, preceded by its length and its class.
fn digest(folder: &PictureFolder) -> Sha256 {
    let mut digest = Sha256::new();
    for split in [folder.train(), folder.test()] {
        digest.update((split.len() as u64).to_le_bytes());
        for (position, class) in split.labels().iter().enumerate() {
            let name = split.name_of(position).unwrap_or_default().as_bytes();
            digest.update(class.to_le_bytes());
            digest.update((name.len() as u64).to_le_bytes());
            digest.update(name);
        }
    }
    digest
}
