//! Gives the space of removed rows back to the file system.

use crate::StoreError;
use crate::database::connect::options;
use crate::database::lock;
use crate::layout::DATABASE;
use sqlx::{ConnectOptions, Connection};
use std::path::Path;

/// Writes the database anew without its unused pages; needs as much free space as that takes, for as long.
///
/// # Errors
/// [`StoreError::Busy`] while another process has it open: its unused pages are then used by the next runs.
pub async fn compact(folder: &Path) -> Result<(), StoreError> {
    let _alone = lock::alone_soon(folder).await?;
    let file = folder.join(DATABASE);
    let mut connection = options(&file).connect().await?;
    sqlx::query("VACUUM").execute(&mut connection).await?;
    sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)").execute(&mut connection).await?;
    Ok(connection.close().await?)
}
