//! Locks between the processes that share a store. The kernel releases them when the process ends, however it ends.

use crate::StoreError;
use crate::error::BUSY_SECONDS;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Held briefly by a process that migrates or replaces the database.
const MOMENT: &str = "bakeoff.lock";
/// Held shared by each process that has the database open, exclusively by one that replaces it.
const IN_USE: &str = "bakeoff.in-use";
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

/// Held by the only process that has the database open.
pub(crate) async fn alone(folder: &Path) -> Result<Lock, StoreError> {
    take(folder, IN_USE, File::try_lock).await
}

async fn take(
    folder: &Path,
    name: &str,
    lock: impl Fn(&File) -> Result<(), TryLockError>,
) -> Result<Lock, StoreError> {
    let path = folder.join(name);
    let fault = |source: io::Error| StoreError::Folder { path: path.clone(), source };
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path).map_err(fault)?;
    let deadline = Instant::now() + Duration::from_secs(BUSY_SECONDS);
    loop {
        match lock(&file) {
            Ok(()) => return Ok(Lock { _file: Arc::new(file) }),
            Err(TryLockError::Error(error)) => return Err(fault(error)),
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => tokio::time::sleep(RETRY).await,
            Err(TryLockError::WouldBlock) => return Err(StoreError::Busy { path, seconds: BUSY_SECONDS }),
        }
    }
}
