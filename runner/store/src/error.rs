//! Errors of the store, each with what the user can do about it.

use std::path::PathBuf;

/// A failure of the store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the message of each variant says what its fields are")]
pub enum StoreError {
    /// There is no database in the folder.
    #[error("no store in {}: run something first, or name another folder with --store", .folder.display())]
    NoStore {
        /// The folder that was searched.
        folder: PathBuf,
    },
    /// The folder, or a file in it, cannot be created or read.
    #[error("cannot use {}: {source}; check the folder's owner and free space, or name another with --store", .path.display())]
    Folder {
        /// The folder or file.
        path: PathBuf,
        source: std::io::Error,
    },
    /// The file was not created by this program.
    #[error("{} is not a bakeoff database; move it away, or name another folder with --store", .path.display())]
    Foreign { path: PathBuf },
    /// The file was written by a later version.
    #[error("{} has schema version {found}, this program knows up to {known}; use a bakeoff that knows version {found}, or name another folder with --store", .path.display())]
    Newer {
        path: PathBuf,
        /// The version in the file.
        found: i64,
        /// The highest version this program knows.
        known: i64,
    },
    /// The file was written by an earlier version, and this program cannot read it as it is.
    #[error("{} has schema version {found}, this program reads up to {known}; `bakeoff db migrate` brings it up to date and keeps a copy{}", .path.display(), wrote(.writer))]
    Older {
        path: PathBuf,
        /// The version in the file.
        found: i64,
        /// The version of this program.
        known: i64,
        /// Version of the program that wrote the newest sweep; empty if the file does not say.
        writer: String,
    },
    /// The file must be migrated, but another process has it open.
    #[error("{} has schema version {found} and must be brought to {known}, but another process has it open; `bakeoff status` shows what runs: let it finish, or end it with `bakeoff stop`", .path.display())]
    InUse {
        path: PathBuf,
        /// The version in the file; 0 before it has any.
        found: i64,
        /// The version of this program.
        known: i64,
    },
    /// The write-ahead log holds changes that cannot be read where nothing can be written.
    #[error("{} holds changes that SQLite can only read where it can write; copy the store to a folder of your own, or let its owner run `bakeoff db info` once", .path.display())]
    Unmerged {
        /// Path of the write-ahead log.
        path: PathBuf,
    },
    /// A sweep that a driver works on.
    #[error(
        "sweep {sweep} is under way; `bakeoff status` shows what runs: let it finish, or end it with `bakeoff stop`"
    )]
    UnderWay {
        /// ULID of the sweep.
        sweep: String,
    },
    /// A sweep with more tags than it may have.
    #[error(
        "sweep {sweep} would have more than {most} tags; take one from it first, with `bakeoff tag --remove`"
    )]
    Tags {
        /// ULID of the sweep.
        sweep: String,
        /// The most that a sweep may have.
        most: u32,
    },
    /// The file's content is broken.
    #[error("{} is damaged: {reason}; `bakeoff db rebuild` rebuilds it from the runs' own directories", .path.display())]
    Damaged {
        path: PathBuf,
        /// The message of SQLite.
        reason: String,
    },
    /// The schema cannot be migrated.
    #[error("cannot bring {} up to date: {source}; {}", .path.display(), kept(.backup.as_ref()))]
    Migration {
        path: PathBuf,
        /// The copy made before.
        backup: Option<PathBuf>,
        source: sqlx::migrate::MigrateError,
    },
    /// Another process keeps the database locked.
    #[error("another process kept {} locked for {seconds} s; `bakeoff status` shows what runs: let it finish, or end it with `bakeoff stop`", .path.display())]
    Busy {
        path: PathBuf,
        /// Seconds that this process waited.
        seconds: u64,
    },
    /// No run matches the selection.
    #[error("no run fits {selection:?}; `bakeoff list` shows what there is")]
    Empty {
        /// As the user wrote it.
        selection: String,
    },
    /// Part of an id that matches several runs.
    #[error("{part:?} fits several runs: {}; give more characters", .candidates.join(", "))]
    Ambiguous {
        /// As the user wrote it.
        part: String,
        /// The first five of them.
        candidates: Vec<String>,
    },
    /// An id that is not in the store.
    #[error("there is no {what} {id} in the store")]
    Unknown { what: &'static str, id: String },
    /// A stored document cannot be read by this version.
    #[error("the stored {what} cannot be read: {source}")]
    Document {
        /// Name of the document.
        what: &'static str,
        source: serde_json::Error,
    },
    /// A stored value is outside what its column may hold.
    #[error("the store holds {value:?} as {what}; `bakeoff db check` says more")]
    Value {
        /// Meaning of the column.
        what: &'static str,
        value: String,
    },
    /// An event file cannot be written or read.
    #[error("event log {}: {reason}", .path.display())]
    EventLog { path: PathBuf, reason: String },
    /// The journal of a sweep cannot be written or read.
    #[error("journal {}: {reason}; check the disk's free space and the file's owner", .path.display())]
    Journal { path: PathBuf, reason: String },
    /// No journal to rebuild the database from.
    #[error("{} holds no journal of a sweep, so that the database cannot be rebuilt; name another folder with --store", .path.display())]
    NothingWritten {
        /// The folder that was searched for journals.
        path: PathBuf,
    },
    /// The database has sweeps without a journal.
    #[error("{} holds {sweeps} without a journal: a new database would not have them; with `--force` they are kept in the backup only", .path.display())]
    Unwritten {
        path: PathBuf,
        /// Their number with the noun: `2 sweeps`.
        sweeps: String,
    },
    /// The disk is full.
    #[error("the disk that the store lies on is full; make room, then run the same command again")]
    Full,
    /// A statement failed for a reason that no other variant names.
    #[error("the database refused: {0}")]
    Database(sqlx::Error),
}

fn kept(backup: Option<&PathBuf>) -> String {
    match backup {
        Some(path) => format!("the file as it was is kept as {}", path.display()),
        None => "nothing was changed".to_owned(),
    }
}

fn wrote(version: &str) -> String {
    if version.is_empty() {
        String::new()
    } else {
        format!("; bakeoff {version} wrote it and reads it as it is")
    }
}

/// Placeholder until the file is known.
const DATABASE_WORDS: &str = "the database";

/// How long a statement waits for another process's lock.
pub(crate) const BUSY_SECONDS: u64 = 10;

/// SQLite's primary result code, where the error has one.
pub(crate) fn result_code(error: &sqlx::Error) -> Option<i64> {
    let code: i64 = error.as_database_error()?.code()?.parse().ok()?;
    Some(code & 0xff)
}

const SQLITE_BUSY: i64 = 5;
const SQLITE_LOCKED: i64 = 6;
pub(crate) const SQLITE_READONLY: i64 = 8;
const SQLITE_CORRUPT: i64 = 11;
const SQLITE_FULL: i64 = 13;
pub(crate) const SQLITE_CANTOPEN: i64 = 14;
const SQLITE_NOTADB: i64 = 26;

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        match result_code(&error) {
            Some(SQLITE_BUSY | SQLITE_LOCKED) => {
                Self::Busy { path: PathBuf::from(DATABASE_WORDS), seconds: BUSY_SECONDS }
            }
            Some(SQLITE_CORRUPT | SQLITE_NOTADB) => {
                Self::Damaged { path: PathBuf::from(DATABASE_WORDS), reason: error.to_string() }
            }
            Some(SQLITE_FULL) => Self::Full,
            _ => Self::Database(error),
        }
    }
}

impl StoreError {
    /// Names the file where only "the database" is known.
    pub(crate) fn of_file(self, file: &std::path::Path) -> Self {
        match self {
            Self::Damaged { reason, .. } => Self::Damaged { path: file.to_owned(), reason },
            Self::Busy { seconds, .. } => Self::Busy { path: file.to_owned(), seconds },
            other => other,
        }
    }
}
