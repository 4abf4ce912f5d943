//! How training pictures are changed each time they are met, so that a model does not learn them by heart.

use crate::spec::family::family;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

family! {
    /// A random change of a training picture.
    pub enum AugmentKind {
        Crop = "crop": "Another part of the picture: of `image-folder` a square at a random place of the scaled picture, in place of \
            the middle one; of other images, which are as large as what the model sees, the image is padded by four pixels of \
            the mean colour on each side and cut back at a random place (He et al. 2016, section 4.2).",
        Flip = "flip": "Left and right are exchanged with probability 1/2.",
    }
}

/// What may change in a training picture. Draws are keyed by the run's seed, the pass and the sample, so that a sample
/// changes in a pass as it would on any other worker; evaluations see each picture as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Augmentation {
    /// See [`AugmentKind::Crop`].
    pub crop: bool,
    /// See [`AugmentKind::Flip`].
    pub flip: bool,
}

impl Augmentation {
    /// Nothing changes.
    pub const NONE: Self = Self { crop: false, flip: false };

    /// These changes, in whatever order they are named.
    pub fn of(kinds: impl IntoIterator<Item = AugmentKind>) -> Self {
        let mut all = Self::NONE;
        for kind in kinds {
            match kind {
                AugmentKind::Crop => all.crop = true,
                AugmentKind::Flip => all.flip = true,
            }
        }
        all
    }
}
