//! How far a rebuild has come, and its outcome.

use std::path::PathBuf;

/// How far a rebuild has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rebuilding {
    /// Number of sweeps read, and of all sweeps.
    pub sweeps: (usize, usize),
    /// Bytes of event logs read, and of all event logs.
    pub bytes: (u64, u64),
}

/// The outcome of a rebuild.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rebuilt {
    /// Number of sweeps in the new database.
    pub sweeps: usize,
    /// Number of attempts in the new database.
    pub attempts: usize,
    /// Number of events read.
    pub events: u64,
    /// The file that the old database was moved to, if there was one.
    pub backup: Option<PathBuf>,
    /// Files that could not be read, or not completely.
    pub unread: Vec<Unread>,
}

/// A file that could not be read, or not completely.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unread {
    /// The file or directory.
    pub path: PathBuf,
    /// The reason, and its consequence.
    pub reason: String,
}
