//! Where the files of a store lie in its folder.
//!
//! ```text
//! bakeoff.db                    the database
//! runs/sweep-<id>.jsonl         the journal of a sweep
//! runs/pages.jsonl              the journal of the pages that were made
//! runs/<run>/<number>/          the directory of an attempt: events, logs, snapshots
//! rebuild/, import/             what a rebuild and an import work on; the next one clears it
//! ```

use crate::StoreError;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The database's name in the store's folder.
pub const DATABASE: &str = "bakeoff.db";

/// The folder of the journals and of the attempts' directories.
pub(crate) const RUNS: &str = "runs";

/// In the directory of an attempt: from where its run can go on.
pub(crate) const CHECKPOINTS: &str = "checkpoints";

pub(crate) fn run_directory(folder: &Path, run: &str) -> PathBuf {
    folder.join(RUNS).join(run)
}

pub(crate) fn attempt_directory(folder: &Path, run: &str, number: u32) -> PathBuf {
    run_directory(folder, run).join(number.to_string())
}

pub(crate) fn sweep_journal(folder: &Path, sweep: &str) -> PathBuf {
    folder.join(RUNS).join(format!("sweep-{sweep}.jsonl"))
}

pub(crate) fn page_journal(folder: &Path) -> PathBuf {
    folder.join(RUNS).join("pages.jsonl")
}

/// The journals of all sweeps, oldest first: their ids sort by time.
pub(crate) fn sweep_journals(folder: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let runs = folder.join(RUNS);
    let list = || -> io::Result<Vec<PathBuf>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(&runs)? {
            let path = entry?.path();
            if is_sweep_journal(&path) {
                found.push(path);
            }
        }
        found.sort();
        Ok(found)
    };
    match list() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        list => list.map_err(|source| StoreError::Folder { path: runs.clone(), source }),
    }
}

fn is_sweep_journal(path: &Path) -> bool {
    let stem = path.file_stem().and_then(OsStr::to_str).unwrap_or_default();
    let extension = path.extension().and_then(OsStr::to_str).unwrap_or_default();
    stem.starts_with("sweep-") && extension == "jsonl"
}

/// The directories of all attempts, in order. A folder that cannot be read has none.
pub(crate) fn attempt_directories(folder: &Path) -> Vec<PathBuf> {
    let runs = folders_in(&folder.join(RUNS));
    runs.iter().flat_map(|run| folders_in(run)).collect()
}

fn folders_in(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    paths.sort();
    paths
}
