//! Locks between the processes that share a store. The kernel releases them when the process ends, however it ends.

use crate::StoreError;
use crate::error::BUSY_SECONDS;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Held briefly by a process that migrates or replaces the database.
const MOMENT: &str = "bakeoff.lock";
/// Held shared by each process that has the database open, exclusively by one that replaces it.
const IN_USE: &str = "bakeoff.in-use";
/// Held by a process that imports a bundle.
const IMPORTING: &str = "bakeoff.importing";
/// How long a migration waits for the end of those who only read.
const READER_SECONDS: u64 = 2;
/// Between two tries to lock.
const RETRY: Duration = Duration::from_millis(20);

/// A lock that is released when its last clone is dropped.
#[derive(Clone, Debug)]
pub(crate) struct Lock {
    _file: Arc<File>,
}

/// Two drivers that begin in the same folder at once must not both create the tables.
pub(crate) async fn moment(folder: &Path) -> Result<Lock, StoreError> {
    take(folder, MOMENT, File::try_lock).await
}

/// Held by each process that has the database open.
pub(crate) async fn in_use(folder: &Path) -> Result<Lock, StoreError> {
    take(folder, IN_USE, File::try_lock_shared).await
}

/// Two imports must not unpack into the same folder.
pub(crate) async fn importing(folder: &Path) -> Result<Lock, StoreError> {
    take(folder, IMPORTING, File::try_lock).await
}

/// As [`alone`], for a migration, which only a reader is worth waiting for: a driver holds the lock for hours.
pub(crate) async fn alone_soon(folder: &Path) -> Result<Lock, StoreError> {
    let path = folder.join(IN_USE);
    match open(&path) {
        Err(source) => Err(StoreError::Folder { path, source }),
        Ok(file) => hold(Wanted { file, path, seconds: READER_SECONDS }, File::try_lock).await,
    }
}

/// Held by the only process that has the database open, which may migrate or replace it.
pub(crate) async fn alone(folder: &Path) -> Result<Lock, StoreError> {
    take(folder, IN_USE, File::try_lock).await
}

/// Lock and access of a process that only reads.
pub(crate) struct Looking {
    /// `None` in a folder that cannot be written and in which no driver ever was.
    pub(crate) lock: Option<Lock>,
    /// Whether the folder's files can be written.
    pub(crate) writable: bool,
}

/// Like [`in_use`], also in a folder that cannot be written.
pub(crate) async fn looking(folder: &Path) -> Result<Looking, StoreError> {
    let path = folder.join(IN_USE);
    match open(&path) {
        Err(error) if matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem) => {
            let lock = match File::open(&path) {
                Err(_) => None,
                Ok(file) => Some(shared(file, path).await?),
            };
            Ok(Looking { lock, writable: false })
        }
        Err(source) => Err(StoreError::Folder { path, source }),
        Ok(file) => Ok(Looking { lock: Some(shared(file, path).await?), writable: true }),
    }
}

async fn shared(file: File, path: PathBuf) -> Result<Lock, StoreError> {
    hold(Wanted { file, path, seconds: BUSY_SECONDS }, File::try_lock_shared).await
}

async fn take(
    folder: &Path,
    name: &str,
    lock: impl Fn(&File) -> Result<(), TryLockError>,
) -> Result<Lock, StoreError> {
    let path = folder.join(name);
    match open(&path) {
        Err(source) => Err(StoreError::Folder { path, source }),
        Ok(file) => hold(Wanted { file, path, seconds: BUSY_SECONDS }, lock).await,
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).truncate(false).write(true).open(path)
}

/// A lock file, and how long its lock is waited for.
struct Wanted {
    file: File,
    path: PathBuf,
    seconds: u64,
}

async fn hold(
    Wanted { file, path, seconds }: Wanted,
    lock: impl Fn(&File) -> Result<(), TryLockError>,
) -> Result<Lock, StoreError> {
    let deadline = Instant::now() + Duration::from_secs(seconds);
    loop {
        match lock(&file) {
            Ok(()) => return Ok(Lock { _file: Arc::new(file) }),
            Err(TryLockError::Error(source)) => return Err(StoreError::Folder { path, source }),
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => tokio::time::sleep(RETRY).await,
            Err(TryLockError::WouldBlock) => return Err(StoreError::Busy { path, seconds }),
        }
    }
}
