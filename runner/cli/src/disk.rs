//! The disk, as recipes see it.

use recipe::{FileProblem, Files};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// The files of this machine.
pub(crate) struct DiskFiles;

impl Files for DiskFiles {
    fn read(&self, path: &Path) -> Result<String, FileProblem> {
        fs::read_to_string(path).map_err(|error| match error.kind() {
            ErrorKind::NotFound => FileProblem::new("no such file"),
            ErrorKind::InvalidData => FileProblem::new("it is not UTF-8 text"),
            ErrorKind::IsADirectory => FileProblem::new("it is a folder"),
            ErrorKind::PermissionDenied => FileProblem::new("permission denied"),
            _ => FileProblem::new(error.to_string()),
        })
    }

    fn exists(&self, path: &Path) -> bool {
        path.exists()
    }

    fn current_directory(&self) -> PathBuf {
        env::current_dir().unwrap_or_else(|_| PathBuf::from("/"))
    }

    fn data_folder(&self) -> PathBuf {
        self.current_directory().join(data_folder())
    }
}

/// Where data sets lie unless a recipe says otherwise: `BAKEOFF_DATA`, else `data` in the current folder.
pub(crate) fn data_folder() -> PathBuf {
    let named = env::var_os("BAKEOFF_DATA").filter(|folder| !folder.is_empty());
    named.map_or_else(|| PathBuf::from("data"), PathBuf::from)
}
