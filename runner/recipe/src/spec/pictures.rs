//! A user's own pictures, as far as a recipe needs to know them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Counts of a folder of pictures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PictureCounts {
    /// Pictures to train on.
    pub train: u32,
    /// Pictures to test with.
    pub test: u32,
    /// Folders of the training pictures.
    pub classes: u32,
}

/// A folder of pictures, and what a model sees of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct PictureProfile {
    /// Training samples, held-out ones included.
    pub train: u32,
    /// Number of test samples.
    pub test: u32,
    /// Number of classes; labels are below it.
    pub classes: u32,
    /// Pixels of the shorter side, to which each picture is scaled.
    pub resize: u32,
    /// Pixels of each side of the square that is cut out of it; at most `resize`.
    pub crop: u32,
}

impl PictureProfile {
    /// The pictures of a folder, scaled and cut.
    pub const fn of(counts: PictureCounts, resize: u32, crop: u32) -> Self {
        let PictureCounts { train, test, classes } = counts;
        Self { train, test, classes, resize, crop }
    }

    /// Counts of the folder, without scaling and cutting.
    pub const fn counts(self) -> PictureCounts {
        PictureCounts { train: self.train, test: self.test, classes: self.classes }
    }
}

impl PictureCounts {
    /// In place of a folder that cannot be used; a real one has at least a sample of each kind.
    pub(crate) const UNKNOWN: Self = Self { train: 0, test: 0, classes: 10 };
}
