//! A data set as its reader returns it.

use super::Samples;
use sha2::Sha256;

/// The samples of a data set: nothing is held out yet, and nothing is normalised.
pub(super) struct Loaded {
    pub(super) training: Samples,
    pub(super) test: Samples,
    pub(super) classes: usize,
    /// SHA-256 over what was read.
    pub(super) digest: Sha256,
}
