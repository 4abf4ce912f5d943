//! The only window to the disk: the rim hands one in, tests hand in texts.

use std::path::{Path, PathBuf};

/// What a recipe may ask of the file system.
pub trait Files {
    /// The text of a file.
    ///
    /// # Errors
    /// Where it is missing, unreadable, or not UTF-8.
    fn read(&self, path: &Path) -> Result<String, FileProblem>;

    /// Whether there is anything at this path.
    fn exists(&self, path: &Path) -> bool;

    /// The folder that relative paths are relative to; absolute.
    fn current_directory(&self) -> PathBuf;

    /// The folder whose subfolders are the data sets that recipes do not place themselves; absolute.
    fn data_folder(&self) -> PathBuf {
        self.current_directory().join("data")
    }
}

/// Why a file could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct FileProblem {
    /// A fragment of a sentence: `no such file`, `not UTF-8`.
    pub reason: String,
}

impl FileProblem {
    /// A problem with this reason.
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into() }
    }
}

/// The machine that a plan is made on, as far as plans depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Cores that may be used: the slots of `local` where the recipe gives no number.
    pub cores: u32,
}

/// Removes `.` and `..` by name only; nothing is looked up.
pub(crate) fn tidy(path: &Path) -> PathBuf {
    use std::path::Component;
    let mut tidied = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir if tidied.file_name().is_some() => {
                tidied.pop();
            }
            other => tidied.push(other),
        }
    }
    tidied
}
