//! Size, version and row counts of the database, and a check of its integrity.

use crate::database::migrate::newest;
use crate::database::migrations::MIGRATIONS;
use crate::layout::DATABASE;
use crate::sql::value::uint;
use crate::{Store, StoreError};
use serde::Serialize;
use sqlx::AssertSqlSafe;
use std::path::PathBuf;

/// The store in numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DbInfo {
    /// Path of the database file.
    pub path: PathBuf,
    /// Its size with its write-ahead log, in bytes.
    pub bytes: u64,
    /// Version of its schema.
    pub version: i64,
    /// The version that this program writes.
    pub known: i64,
    /// Bytes of free pages, which later runs fill before the file grows.
    pub unused: u64,
    /// Rows by table, of tables that do not grow with the steps.
    pub counts: Vec<(String, u64)>,
}

/// A problem that a check found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DbProblem {
    /// The check: `integrity`, `reference`, `schema`.
    pub check: &'static str,
    /// Description of the problem; of `integrity`, a line of SQLite's report.
    pub text: String,
}

/// Counting rows reads the whole table, so that the large ones are left out.
const TABLES: [&str; 6] = ["sweep", "cell", "run", "attempt", "node", "report"];

impl Store {
    /// Size, version and row counts, in a time that does not grow with the steps.
    pub async fn db_info(&self) -> Result<DbInfo, StoreError> {
        let path = self.folder.join(DATABASE);
        let size = |path: &PathBuf| std::fs::metadata(path).map_or(0, |data| data.len());
        let bytes = size(&path) + size(&self.folder.join(format!("{DATABASE}-wal")));
        let version = sqlx::query_scalar("PRAGMA user_version").fetch_one(&self.reader).await?;
        let unused: i64 = sqlx::query_scalar(
            "SELECT freelist_count * page_size FROM pragma_freelist_count, pragma_page_size",
        )
        .fetch_one(&self.reader)
        .await?;
        let mut counts = Vec::new();
        for table in TABLES {
            // The names are literals of this file.
            let count = AssertSqlSafe(format!("SELECT count(*) FROM {table}"));
            let count: i64 = sqlx::query_scalar(count).fetch_one(&self.reader).await?;
            counts.push((table.to_owned(), uint(count)));
        }
        Ok(DbInfo { path, bytes, version, known: newest(&MIGRATIONS), unused: uint(unused), counts })
    }

    /// All problems of the database; reads all of it.
    pub async fn db_check(&self) -> Result<Vec<DbProblem>, StoreError> {
        let mut problems = Vec::new();
        let integrity: Vec<String> =
            sqlx::query_scalar("PRAGMA integrity_check").fetch_all(&self.reader).await?;
        problems.extend(
            integrity
                .into_iter()
                .filter(|line| line != "ok")
                .map(|text| DbProblem { check: "integrity", text }),
        );
        let dangling: Vec<(String, Option<i64>, String)> =
            sqlx::query_as("SELECT \"table\", rowid, parent FROM pragma_foreign_key_check")
                .fetch_all(&self.reader)
                .await?;
        problems.extend(dangling.into_iter().map(|(table, row, parent)| {
            let row = row.map_or_else(String::new, |row| format!(" {row}"));
            DbProblem {
                check: "reference",
                text: format!("{table}{row} refers to a {parent} that is not there"),
            }
        }));
        problems.extend(self.schema_problems().await?);
        Ok(problems)
    }

    /// Compares the applied migrations with those of this program. A file of an earlier version lacks the later ones, and is sound.
    async fn schema_problems(&self) -> Result<Vec<DbProblem>, StoreError> {
        let applied: Vec<(i64, Vec<u8>, bool)> =
            sqlx::query_as("SELECT version, checksum, success FROM _sqlx_migrations ORDER BY version")
                .fetch_all(&self.reader)
                .await?;
        let version: i64 = sqlx::query_scalar("PRAGMA user_version").fetch_one(&self.reader).await?;
        let mut problems = Vec::new();
        for migration in MIGRATIONS.iter() {
            let text = match applied.iter().find(|(version, ..)| *version == migration.version) {
                None if migration.version > version => continue,
                None => format!("migration {} was not applied", migration.version),
                Some((_, _, false)) => format!("migration {} stopped half way", migration.version),
                Some((_, checksum, _)) if checksum[..] != migration.checksum[..] => {
                    format!(
                        "migration {} was applied in another form than this program has",
                        migration.version
                    )
                }
                Some(_) if migration.version > version => {
                    format!(
                        "the file says version {version}, and migration {} was applied",
                        migration.version
                    )
                }
                Some(_) => continue,
            };
            problems.push(DbProblem { check: "schema", text });
        }
        if version > newest(&MIGRATIONS) {
            let text = format!("the file says version {version}, the program knows {}", newest(&MIGRATIONS));
            problems.push(DbProblem { check: "schema", text });
        }
        Ok(problems)
    }
}
