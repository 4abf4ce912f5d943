//! Locks between the processes that share a store. The kernel lets go of them with the process, however it ends.

use crate::StoreError;
use crate::error::BUSY_SECONDS;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Held for moments: by who brings the database up to date, or replaces it.
const MOMENT: &str = "bakeoff.lock";
/// Held by everybody who has the database open, shared; alone by who replaces it.
const IN_USE: &str = "bakeoff.in-use";
/// Between two tries.
const GLANCE: Duration = Duration::from_millis(20);

/// A lock that is let go when its last clone is dropped.
#[derive(Clone, Debug)]
pub(crate) struct Lock {
    _file: Arc<File>,
}

/// Two drivers that begin in the same folder at once must not both create the tables.
pub(crate) async fn moment(folder: &Path) -> Result<Lock, StoreError> {
    take(folder, MOMENT, File::try_lock).await
}

/// Says that this process has the database open.
pub(crate) async fn in_use(folder: &Path) -> Result<Lock, StoreError> {
    take(folder, IN_USE, File::try_lock_shared).await
}

/// Says that nobody else has the database open.
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
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => tokio::time::sleep(GLANCE).await,
            Err(TryLockError::WouldBlock) => return Err(StoreError::Busy { path, seconds: BUSY_SECONDS }),
        }
    }
}
