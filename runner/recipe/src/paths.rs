//! Paths by their names alone.

use std::path::{Component, Path, PathBuf};

/// Removes `.` and `..` by name only; nothing is looked up.
pub(crate) fn tidy(path: &Path) -> PathBuf {
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
