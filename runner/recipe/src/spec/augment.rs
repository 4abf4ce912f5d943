//! How training pictures are changed each time they are met, so that a model does not learn them by heart.

use crate::spec::family::family;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

family! {
    /// A random change of a training picture.
    pub enum AugmentKind {
        Crop = "crop": "Another part of the picture: of `image-folder` a square at a random place of the scaled picture, in place of \
            the middle one; of other images, which are as large as what the model sees, the image is padded by four pixels on \
            each side, of the mean colour (zeros where values are floats), and cut back at a random place (He et al. 2016, section 4.2).",
        Flip = "flip": "Left and right are exchanged with probability 1/2.",
    }
}

/// Changes that may be made to a training picture. Draws are keyed by the run's seed, the epoch of the batch and the
/// sample, so that a sample changes in an epoch as it would on any other worker; evaluations see each picture as it is.
/// A worker that meets a sample again within an epoch, because its own part is small or it draws with replacement, sees
/// it changed in the same way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Augmentation {
    /// Whether pictures are changed as [`AugmentKind::Crop`] says.
    pub crop: bool,
    /// Whether pictures are changed as [`AugmentKind::Flip`] says.
    pub flip: bool,
}

impl Augmentation {
    /// Pictures are used as they are.
    pub const NONE: Self = Self { crop: false, flip: false };

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    pub(crate) fn is_none(&self) -> bool {
        *self == Self::NONE
    }

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
