//! Opens the database: for a driver, which brings it up to date, or for reading, which changes nothing.

use crate::StoreError;
use crate::database::connect::{not_ours, options};
use crate::database::lock::{self, Lock};
use crate::database::migrate::{migrate, newest, version};
use crate::database::migrations::MIGRATIONS;
use crate::database::{filesystem, older, reserve};
use crate::error::{BUSY_SECONDS, SQLITE_CANTOPEN, SQLITE_READONLY, result_code};
use crate::layout::{self, DATABASE};
use sqlx::migrate::Migrator;
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteConnection, SqlitePool, SqlitePoolOptions, SqliteSynchronous,
};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection};
use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// How often a driver tries again where another process changed the database between two of its looks.
const TRIES: u32 = 3;

/// The results of all sweeps: one writer and a few readers on one SQLite file.
#[derive(Clone, Debug)]
pub struct Store {
    /// Prevents a rebuild from replacing the database while it is held. Nothing where no lock file can be made.
    _in_use: Option<Lock>,
    access: Access,
    pub(crate) folder: PathBuf,
    pub(crate) writer: SqlitePool,
    pub(crate) reader: SqlitePool,
}

/// Permission of this program on the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    /// Its version is that of the program, and its folder can be written.
    Writing,
    /// It is older, or its folder cannot be written.
    Reading,
}

impl Store {
    /// Opens the store in `folder` (`.bakeoff`) for a driver. Creates folder and database if missing, migrates an older
    /// database after copying it, and records what killed drivers left as interrupted.
    ///
    /// # Errors
    /// [`StoreError::Foreign`], [`StoreError::Newer`], [`StoreError::Damaged`], [`StoreError::Migration`],
    /// [`StoreError::Folder`]; [`StoreError::InUse`] if it is older and another process has it open.
    pub async fn open(folder: &Path) -> Result<Self, StoreError> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(|source| StoreError::Folder { path: folder.to_owned(), source })?;
        if let Some(kind) = filesystem::network_kind(folder) {
            tracing::warn!(
                folder = %folder.display(),
                "the store lies on a network file system ({kind}), where SQLite's locks cannot be trusted; name a local folder with --store"
            );
        }
        let store = Self::at(folder, &MIGRATIONS).await?;
        store.end_abandoned_sweeps().await?;
        reserve::keep(folder);
        Ok(store)
    }

    /// Opens the store in `folder` for reading, which changes no schema: another process may drive a sweep with an
    /// older program. Runs of killed drivers read as interrupted. A store in a folder that cannot be written, or of an
    /// earlier version, is read-only ([`Store::is_read_only`]).
    ///
    /// # Errors
    /// [`StoreError::NoStore`] if there is none; [`StoreError::Older`] if its version is older than this program can
    /// read; [`StoreError::Unmerged`]; else as [`Store::open`].
    pub async fn open_existing(folder: &Path) -> Result<Self, StoreError> {
        Self::look(folder, &MIGRATIONS).await
    }

    /// Folder that holds the database, the journals and the attempts' directories.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether nothing can be recorded: every `record_*` would fail.
    pub fn is_read_only(&self) -> bool {
        self.access == Access::Reading
    }

    /// The directory in which an attempt keeps its files: events, logs, snapshots.
    pub fn attempt_directory(&self, run: &crate::RunId, number: u32) -> PathBuf {
        layout::attempt_directory(&self.folder, run.as_str(), number)
    }

    /// Frees the disk space that was reserved, and returns whether there was any. A write that failed may succeed now.
    pub fn free_reserve(&self) -> bool {
        reserve::free(&self.folder)
    }

    /// Closes all connections; the file is then complete without its write-ahead log.
    pub async fn close(&self) {
        self.reader.close().await;
        self.writer.close().await;
    }

    /// For a driver. Only a process that has the database alone migrates it: another one may use the older tables.
    pub(crate) async fn at(folder: &Path, migrations: &Migrator) -> Result<Self, StoreError> {
        let file = folder.join(DATABASE);
        if file.is_dir() {
            return Err(StoreError::Foreign { path: file });
        }
        for _ in 0..TRIES {
            let in_use = lock::in_use(folder).await?;
            let found = version_of(&file, options(&file)).await?;
            if found == newest(migrations) {
                return Ok(Self::connected(folder, Some(in_use), Access::Writing, Reading::of(&file)));
            }
            if found > newest(migrations) {
                return Err(StoreError::Newer { path: file, found, known: newest(migrations) });
            }
            drop(in_use);
            let _alone = match lock::alone_soon(folder).await {
                Err(StoreError::Busy { .. }) => {
                    let known = newest(migrations);
                    return Err(StoreError::InUse { path: file, found, known });
                }
                alone => alone?,
            };
            migrate(folder, &file, migrations).await?;
        }
        Err(StoreError::Busy { path: file, seconds: BUSY_SECONDS })
    }

    async fn look(folder: &Path, migrations: &Migrator) -> Result<Self, StoreError> {
        let file = folder.join(DATABASE);
        if fs::symlink_metadata(&file).is_err() {
            return Err(StoreError::NoStore { folder: folder.to_owned() });
        }
        if file.is_dir() {
            return Err(StoreError::Foreign { path: file });
        }
        let lock::Looking { lock, writable } = lock::looking(folder).await?;
        let mut reading = Reading::of(&file);
        // SQLite needs an index of the write-ahead log beside it, which cannot be made here. Without a log no
        // process writes, and the file alone holds everything.
        reading.immutable = !writable && log_length(&file) == 0;
        let found = match version_of(&file, reading.options()).await {
            Err(StoreError::Database(error)) if !writable && result_code(&error) == Some(SQLITE_CANTOPEN) => {
                return Err(StoreError::Unmerged { path: log_of(&file) });
            }
            found => found?,
        };
        let known = newest(migrations);
        match found {
            // Its creator was killed, or is about to fill it.
            0 => return Err(StoreError::NoStore { folder: folder.to_owned() }),
            _ if found > known => return Err(StoreError::Newer { path: file, found, known }),
            _ if found == known => {}
            _ => {
                let Some(additions) = older::additions(found, known) else {
                    let writer = writer_of(reading.options()).await;
                    return Err(StoreError::Older { path: file, found, known, writer });
                };
                reading.additions = additions;
            }
        }
        let access = if writable && found == known { Access::Writing } else { Access::Reading };
        Ok(Self::connected(folder, lock, access, reading))
    }

    fn connected(folder: &Path, in_use: Option<Lock>, access: Access, reading: Reading) -> Self {
        let writing = match access {
            // No statistics are kept (`PRAGMA optimize`): those of the first sweep would mislead the planner for thousands.
            Access::Writing => options(&reading.file),
            Access::Reading => reading.options(),
        };
        let writer = pool()
            .max_connections(1)
            // After a failure such as a full disk SQLite may have rolled back by itself; a connection that is still in
            // a transaction is discarded.
            .before_acquire(|connection, _| Box::pin(async { Ok(!connection.is_in_transaction()) }))
            .connect_lazy_with(writing.synchronous(SqliteSynchronous::Normal));
        let additions = reading.additions.clone();
        let reader = pool()
            .max_connections(4)
            .after_connect(move |connection, _| {
                let additions = additions.clone();
                Box::pin(async move {
                    if !additions.is_empty() {
                        // Literals of this crate.
                        sqlx::raw_sql(AssertSqlSafe(additions)).execute(connection).await?;
                    }
                    Ok(())
                })
            })
            .connect_lazy_with(reading.options().row_buffer_size(1024));
        Self { _in_use: in_use, access, folder: folder.to_owned(), writer, reader }
    }
}

/// A pool whose connections live as long as it does. Otherwise the crate starts a task that looks for old ones, and that task can spin
/// for ever where a connection is returned and taken at the same time (sqlx issue 3645): the program then hangs at its end.
fn pool() -> SqlitePoolOptions {
    SqlitePoolOptions::new().idle_timeout(None).max_lifetime(None)
}

/// How the file is read.
struct Reading {
    file: PathBuf,
    /// Nothing is locked, and no log is looked for.
    immutable: bool,
    /// Statements of each connection, so that an older file can be queried as one of this version.
    additions: String,
}

impl Reading {
    fn of(file: &Path) -> Self {
        Self { file: file.to_owned(), immutable: false, additions: String::new() }
    }

    fn options(&self) -> SqliteConnectOptions {
        options(&self.file).read_only(true).immutable(self.immutable)
    }
}

/// The schema version of a file; 0 if it does not exist or is empty.
async fn version_of(file: &Path, options: SqliteConnectOptions) -> Result<i64, StoreError> {
    if fs::metadata(file).map_or(true, |data| data.len() == 0) {
        return Ok(0);
    }
    match read_version(file, options.clone().read_only(true)).await {
        // Its creator was killed before the first tables were whole: they are rolled back, for which SQLite writes.
        Err(StoreError::Database(error)) if result_code(&error) == Some(SQLITE_READONLY) => {
            read_version(file, options.read_only(false)).await
        }
        found => found,
    }
}

async fn read_version(file: &Path, options: SqliteConnectOptions) -> Result<i64, StoreError> {
    let mut connection = options.connect().await.map_err(|error| not_ours(file, error))?;
    let found = version(&mut connection, file).await;
    connection.close().await.map_err(|error| StoreError::from(error).of_file(file))?;
    found
}

/// The program that wrote the newest sweep, as far as the file tells.
async fn writer_of(options: SqliteConnectOptions) -> String {
    let read = async |mut connection: SqliteConnection| -> Result<Option<String>, sqlx::Error> {
        let version = "SELECT version FROM sweep ORDER BY id DESC LIMIT 1";
        let version = sqlx::query_scalar(version).fetch_optional(&mut connection).await?;
        connection.close().await?;
        Ok(version)
    };
    match options.connect().await {
        Ok(connection) => read(connection).await.ok().flatten().unwrap_or_default(),
        Err(_) => String::new(),
    }
}

/// The write-ahead log of a database.
pub(crate) fn log_of(file: &Path) -> PathBuf {
    PathBuf::from(format!("{}-wal", file.display()))
}

fn log_length(file: &Path) -> u64 {
    fs::metadata(log_of(file)).map_or(0, |log| log.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_store_whose_creator_was_killed_in_its_first_transaction_is_created_again() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("half.db");
        let mut creator = options(&file).create_if_missing(true).connect().await.unwrap();
        let half = "PRAGMA cache_size = 1; BEGIN; CREATE TABLE half (bytes); \
                    INSERT INTO half SELECT zeroblob(4000) FROM json_each('[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]')";
        sqlx::raw_sql(half).execute(&mut creator).await.unwrap();
        for reader in [true, false] {
            // As if it had been killed now.
            let store = folder.path().join(format!("store-{reader}"));
            fs::create_dir(&store).unwrap();
            fs::copy(&file, store.join(DATABASE)).unwrap();
            let journal = format!("{DATABASE}-journal");
            fs::copy(folder.path().join("half.db-journal"), store.join(&journal)).unwrap();
            assert!(fs::metadata(store.join(DATABASE)).unwrap().len() > 0);
            if reader {
                let refused = Store::open_existing(&store).await.unwrap_err();
                assert!(matches!(refused, StoreError::NoStore { .. }), "{refused}");
            }
            let store = Store::open(&store).await.unwrap();
            assert_eq!(store.db_check().await.unwrap(), []);
        }
    }
}
