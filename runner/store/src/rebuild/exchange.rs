//! Replaces the old database with the new one in one step.

use crate::StoreError;
use crate::database::connect::options;
use crate::database::open::log_of;
use crate::layout::DATABASE;
use sqlx::{ConnectOptions, Connection};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Removes a folder if it exists.
pub(crate) fn clear(folder: &Path) -> Result<(), StoreError> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(StoreError::Folder { path: folder.to_owned(), source: error })
        }
        _ => Ok(()),
    }
}

/// Moves the new database to the place of the old one; returns where the old one is now. At each moment there is a
/// database, and never one beside the write-ahead log of another.
pub(crate) async fn exchange(folder: &Path, workshop: &Path) -> Result<Option<PathBuf>, StoreError> {
    let file = folder.join(DATABASE);
    let new = workshop.join(DATABASE);
    let mut backup = None;
    if fs::symlink_metadata(&file).is_ok() {
        merge_log(&file).await;
        let aside = free_name(folder);
        let moved = |source| StoreError::Folder { path: aside.clone(), source };
        if fs::hard_link(&file, &aside).is_err() {
            // A folder, or a file system without links.
            fs::rename(&file, &aside).map_err(moved)?;
        }
        if log_of(&file).exists() {
            fs::rename(log_of(&file), log_of(&aside)).map_err(moved)?;
        }
        backup = Some(aside);
    }
    let _ = fs::remove_file(folder.join(format!("{DATABASE}-shm")));
    fs::rename(&new, &file).map_err(|source| StoreError::Folder { path: file, source })?;
    Ok(backup)
}

/// Merges the write-ahead log of the new database into it. Closing it does so too, but hides that the disk is full.
pub(crate) async fn complete(file: &Path) -> Result<(), StoreError> {
    let mut new = options(file).connect().await?;
    let (busy, ..): (i64, i64, i64) =
        sqlx::query_as("PRAGMA wal_checkpoint(TRUNCATE)").fetch_one(&mut new).await?;
    new.close().await?;
    let log = fs::metadata(log_of(file)).map_or(0, |log| log.len());
    if busy == 0 && log == 0 {
        return Ok(());
    }
    let source = io::Error::other("its write-ahead log could not be merged into it");
    Err(StoreError::Folder { path: file.to_owned(), source })
}

/// Merges the write-ahead log of the old database into it, if both can be read.
async fn merge_log(file: &Path) {
    if let Ok(mut old) = options(file).connect().await {
        // A damaged one is kept as it is.
        let _ = sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)").execute(&mut old).await;
        let _ = old.close().await;
    }
}

fn free_name(folder: &Path) -> PathBuf {
    let named = |number: u32| folder.join(format!("bakeoff-before-rebuild-{number}.db"));
    (1..100_000).map(named).find(|path| fs::symlink_metadata(path).is_err()).unwrap_or_else(|| named(0))
}
