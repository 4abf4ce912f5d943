//! Rebuilds the database from the journals of the sweeps and the event logs of their attempts.
//!
//! A new database is filled in a folder of its own, with the statements that filled the old one, and replaces the old one
//! in one step when it is complete; the old one is kept beside it. What cannot be read is reported by its path. A run whose
//! events are incomplete reads as failed, so that it is not taken for a result.

pub(crate) mod exchange;
pub(crate) mod progress;
pub(crate) mod replay;
pub(crate) mod valid;

use crate::StoreError;
use crate::database::connect::options;
use crate::database::lock;
use crate::database::migrations::MIGRATIONS;
use crate::database::open::Store;
use crate::layout::{self, DATABASE, RUNS};
use exchange::{clear, complete, exchange};
use progress::{Rebuilding, Rebuilt};
use replay::Replay;
use sqlx::{ConnectOptions, Connection};
use std::fs;
use std::path::{Path, PathBuf};

/// The folder in which the new database is made.
const WORKSHOP: &str = "rebuild";

/// Rebuilds the database in `folder`. With `force` also if the old database has sweeps without a journal, which are then
/// only in the backup.
///
/// # Errors
/// [`StoreError::Busy`] while another process has the database open, [`StoreError::NothingWritten`],
/// [`StoreError::Unwritten`]; the old database is then unchanged.
pub async fn rebuild(
    folder: &Path,
    force: bool,
    mut progress: impl FnMut(Rebuilding),
) -> Result<Rebuilt, StoreError> {
    if layout::sweep_journals(folder)?.is_empty() {
        return Err(StoreError::NothingWritten { path: folder.join(RUNS) });
    }
    let _alone = lock::alone(folder).await?;
    let _moment = lock::moment(folder).await?;
    // Another process may have begun one more sweep before the lock was taken.
    let journals = layout::sweep_journals(folder)?;
    if !force {
        refuse_loss(folder, &journals).await?;
    }
    let workshop = folder.join(WORKSHOP);
    clear(&workshop)?;
    fs::create_dir_all(&workshop).map_err(|source| StoreError::Folder { path: workshop.clone(), source })?;
    let store = Store::at(&workshop, &MIGRATIONS).await?;
    let mut replay = Replay::new(folder, &journals);
    replay.all(&store, &journals, &mut progress).await?;
    store.close().await;
    complete(&workshop.join(DATABASE)).await?;
    let mut rebuilt = replay.rebuilt;
    rebuilt.backup = exchange(folder, &workshop).await?;
    clear(&workshop)?;
    Ok(rebuilt)
}

/// Sweeps that only the old database has must not be lost.
async fn refuse_loss(folder: &Path, journals: &[PathBuf]) -> Result<(), StoreError> {
    let file = folder.join(DATABASE);
    if !file.is_file() {
        return Ok(());
    }
    let Ok(mut old) = options(&file).read_only(true).connect().await else { return Ok(()) };
    let known = sqlx::query_scalar("SELECT ulid FROM sweep").fetch_all(&mut old).await;
    let _ = old.close().await;
    // An unreadable database has nothing to lose.
    let known: Vec<String> = known.unwrap_or_default();
    let lost = known.iter().filter(|sweep| !journals.contains(&layout::sweep_journal(folder, sweep))).count();
    let noun = if lost == 1 { "sweep" } else { "sweeps" };
    match lost {
        0 => Ok(()),
        _ => Err(StoreError::Unwritten { path: file, sweeps: format!("{lost} {noun}") }),
    }
}
