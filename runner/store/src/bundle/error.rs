//! Errors of bundles, each with what the user can do about it.

use crate::StoreError;
use std::io;
use std::path::PathBuf;

/// A bundle that cannot be made or imported. Nothing of it is in the store then.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the message of each variant says what its fields are")]
pub enum BundleError {
    /// The store itself cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The file cannot be read.
    #[error("{} cannot be read: {source}; check its name and its owner", .path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    /// The file cannot be written.
    #[error("{} cannot be written: {source}; free some space, or name another place with -o", .path.display())]
    Unwritable { path: PathBuf, source: io::Error },
    /// The file is something else.
    #[error("{} is no bundle: {reason}; `bakeoff export EXPR --format bundle -o FILE` makes one", .path.display())]
    Foreign { path: PathBuf, reason: String },
    /// The file was written by a later version.
    #[error(
        "{} has format {found}, and this program reads up to {known}: bakeoff {writer:?} wrote it; import it with that version or a later one",
        .path.display()
    )]
    Newer {
        path: PathBuf,
        found: u32,
        known: u32,
        /// The version of the program that wrote it.
        writer: String,
    },
    /// The file is not what its maker wrote, or its maker was no bakeoff.
    #[error("{} is damaged, or was tampered with: {reason}; nothing of it was imported: ask for it again, and compare its SHA-256", .path.display())]
    Damaged { path: PathBuf, reason: String },
    /// The file would not fit on the disk.
    #[error("{} unpacks to {bytes} bytes, and the store's disk has {free} free: its runs need about twice their size; make room, or name another store with --store", .path.display())]
    NoRoom { path: PathBuf, bytes: u64, free: u64 },
    /// The store has something else under the same name.
    #[error("sweep {sweep} of {} cannot be imported: {reason}", .path.display())]
    Conflict {
        path: PathBuf,
        sweep: String,
        /// The sweep or run that the store already has, and the cure.
        reason: String,
    },
    /// A sweep that was recorded before there were journals.
    #[error(
        "sweep {sweep} has no journal, because an early version recorded it: it cannot be in a bundle; leave it out of the selection, or run its recipe again"
    )]
    NoJournal { sweep: String },
    /// A file of the store that a bundle needs.
    #[error("{} cannot be bundled: {reason}", .path.display())]
    Unbundled {
        path: PathBuf,
        /// Its problem, and the cure.
        reason: String,
    },
}
