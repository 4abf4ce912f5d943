//! The database made again, from the journals of the sweeps and the event logs of their attempts.
//!
//! A new database is filled in a folder of its own, by the very statements that filled the old one, and takes its place in one
//! step when it is complete; the old one stays beside it. What cannot be read is told by its path, and a run whose numbers
//! are not complete any more reads as failed: it must not be taken for a result.

use crate::exchange::{clear, complete, exchange};
use crate::journal::{self, RUNS};
use crate::open::{DATABASE, MIGRATIONS, Store, options};
use crate::replay::Replay;
use crate::{StoreError, lock};
use sqlx::{ConnectOptions, Connection};
use std::fs;
use std::path::{Path, PathBuf};

/// The folder in which the new database is made.
const WORKSHOP: &str = "rebuild";

/// How far it has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rebuilding {
    /// Sweeps that were read, and all of them.
    pub sweeps: (usize, usize),
    /// Bytes of event logs that were read, and all of them.
    pub bytes: (u64, u64),
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rebuilt {
    /// Sweeps in the new database.
    pub sweeps: usize,
    /// Attempts in it.
    pub attempts: usize,
    /// Events that were read.
    pub events: u64,
    /// Where the old database is now, if there was one.
    pub backup: Option<PathBuf>,
    /// What could not be read.
    pub unread: Vec<Unread>,
}

/// Something that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unread {
    /// Where.
    pub path: PathBuf,
    /// Why, and what that means.
    pub reason: String,
}

/// Makes the database in `folder` again. `force` also where the old database tells of sweeps that no journal has.
///
/// # Errors
/// [`StoreError::Busy`] while another process has the database open, [`StoreError::NothingWritten`],
/// [`StoreError::Unwritten`]; the old database is then as it was.
pub async fn rebuild(
    folder: &Path,
    force: bool,
    mut progress: impl FnMut(Rebuilding),
) -> Result<Rebuilt, StoreError> {
    if journal::all(folder)?.is_empty() {
        return Err(StoreError::NothingWritten { path: folder.join(RUNS) });
    }
    let _alone = lock::alone(folder).await?;
    let _moment = lock::moment(folder).await?;
    // Whoever had the store until now may have begun one more.
    let journals = journal::all(folder)?;
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

/// Sweeps that only the old database knows must not get lost on the way.
async fn refuse_loss(folder: &Path, journals: &[PathBuf]) -> Result<(), StoreError> {
    let file = folder.join(DATABASE);
    if !file.is_file() {
        return Ok(());
    }
    let Ok(mut old) = options(&file).read_only(true).connect().await else { return Ok(()) };
    let known = sqlx::query_scalar("SELECT ulid FROM sweep").fetch_all(&mut old).await;
    let _ = old.close().await;
    // A database that cannot be read has nothing to lose.
    let known: Vec<String> = known.unwrap_or_default();
    let lost = known.iter().filter(|sweep| !journals.contains(&journal::of_sweep(folder, sweep))).count();
    let noun = if lost == 1 { "sweep" } else { "sweeps" };
    match lost {
        0 => Ok(()),
        _ => Err(StoreError::Unwritten { path: file, sweeps: format!("{lost} {noun}") }),
    }
}
