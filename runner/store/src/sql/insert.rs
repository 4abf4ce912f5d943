//! Inserts many rows per statement, because each statement is a round trip to SQLite's thread.

use crate::StoreError;
use sqlx::sqlite::{SqliteArguments, SqliteConnection};
use sqlx::{Arguments, AssertSqlSafe, Encode, Sqlite, Type};

/// Number of rows in a full statement. All full statements of a table have the same text, which stays prepared.
const ROWS: usize = 64;

/// The values of one statement, in the order of its columns.
#[derive(Default)]
pub(crate) struct Values {
    arguments: SqliteArguments,
    failure: Option<sqlx::error::BoxDynError>,
}

impl Values {
    /// Appends the value of the next column; [`insert`] reports the first one that cannot be encoded.
    pub(crate) fn add<'t, T: Encode<'t, Sqlite> + Type<Sqlite>>(&mut self, value: T) -> &mut Self {
        if let Err(error) = self.arguments.add(value) {
            self.failure.get_or_insert(error);
        }
        self
    }
}

/// The statement around the list of values.
#[derive(Clone, Copy)]
pub(crate) struct Target {
    /// `INSERT INTO table (columns)`, with no other comma.
    pub(crate) head: &'static str,
    /// After the values: `ON CONFLICT ...`, or empty.
    pub(crate) tail: &'static str,
}

/// Inserts all rows; `bind` adds one row's values.
pub(crate) async fn insert<T>(
    connection: &mut SqliteConnection,
    target: Target,
    rows: &[T],
    mut bind: impl FnMut(&T, &mut Values),
) -> Result<(), StoreError> {
    for chunk in rows.chunks(ROWS) {
        let mut values = Values::default();
        for row in chunk {
            bind(row, &mut values);
        }
        if let Some(error) = values.failure {
            return Err(StoreError::Database(sqlx::Error::Encode(error)));
        }
        // The text holds nothing but literals of this crate and placeholders.
        let text = AssertSqlSafe(statement(target, chunk.len()));
        sqlx::query_with(text, values.arguments)
            .persistent(chunk.len() == ROWS)
            .execute(&mut *connection)
            .await?;
    }
    Ok(())
}

fn statement(target: Target, rows: usize) -> String {
    let columns = target.head.matches(',').count() + 1;
    let row = format!("({})", vec!["?"; columns].join(","));
    format!("{} VALUES {} {}", target.head, vec![row; rows].join(","), target.tail)
}
