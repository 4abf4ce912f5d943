//! The configuration that an attempt runs.

use crate::sql::document::from_json;
use crate::{AttemptId, StoreError};
use recipe::RunSpec;
use sqlx::sqlite::SqliteConnection;

/// The configuration of the attempt's run.
pub(crate) async fn spec_of(
    connection: &mut SqliteConnection,
    attempt: AttemptId,
) -> Result<RunSpec, StoreError> {
    let spec: String = sqlx::query_scalar(
        "SELECT config.spec FROM attempt JOIN run ON run.id = attempt.run JOIN cell ON cell.id = run.cell \
         JOIN config ON config.id = cell.config WHERE attempt.id = ?",
    )
    .bind(attempt.0)
    .fetch_one(connection)
    .await?;
    from_json("configuration", &spec)
}
