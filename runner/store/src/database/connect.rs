//! How a connection with a database is made, and a file that is none.

use crate::StoreError;
use crate::error::BUSY_SECONDS;
use sqlx::ConnectOptions;
use sqlx::sqlite::SqliteConnectOptions;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// The options of each connection with the database in a file.
pub(crate) fn options(file: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(file)
        .foreign_keys(true)
        .busy_timeout(Duration::from_secs(BUSY_SECONDS))
        .disable_statement_logging()
}

/// Distinguishes a file that never was a database from a damaged one.
pub(crate) fn not_ours(file: &Path, error: sqlx::Error) -> StoreError {
    let begins_as_database = fs::File::open(file).is_ok_and(|mut file| {
        let mut head = [0; 16];
        std::io::Read::read_exact(&mut file, &mut head).is_ok() && &head == b"SQLite format 3\0"
    });
    match StoreError::from(error).of_file(file) {
        StoreError::Damaged { path, .. } if !begins_as_database => StoreError::Foreign { path },
        other => other,
    }
}
