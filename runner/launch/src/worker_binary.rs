//! The worker binary: where it is, and whether it fits this driver.

use crate::LaunchError;
use std::path::{Path, PathBuf};

/// A worker binary that fits this driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerBinary {
    /// Where it is.
    pub path: PathBuf,
    /// Its version.
    pub version: String,
    /// SHA-256 of its bytes, in hexadecimal.
    pub sha256: String,
}

/// Finds the worker binary: `$BAKEOFF_WORKER`, else `bakeoff-worker` beside this program.
pub fn find_worker() -> Result<PathBuf, LaunchError> {
    Err(LaunchError::Unrecorded)
}

/// Starts the binary to ask for its version and protocol, and digests it.
pub fn examine(path: &Path) -> Result<WorkerBinary, LaunchError> {
    let _ = path;
    Err(LaunchError::Unrecorded)
}
