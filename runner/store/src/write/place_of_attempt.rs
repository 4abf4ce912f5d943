//! The place of an attempt among those of its run.

use crate::{AttemptId, RunId, StoreError};
use sqlx::sqlite::SqliteConnection;

/// The run that an attempt belongs to, and its number among that run's attempts, from 1.
pub(crate) struct Try {
    pub(crate) run: RunId,
    pub(crate) number: u32,
}

pub(crate) async fn try_of(connection: &mut SqliteConnection, attempt: AttemptId) -> Result<Try, StoreError> {
    let found: Option<(String, u32)> = sqlx::query_as(
        "SELECT run.ulid, number FROM attempt JOIN run ON run.id = attempt.run WHERE attempt.id = ?",
    )
    .bind(attempt.0)
    .fetch_optional(connection)
    .await?;
    let (run, number) =
        found.ok_or_else(|| StoreError::Unknown { what: "attempt", id: attempt.0.to_string() })?;
    Ok(Try { run: RunId(run), number })
}
