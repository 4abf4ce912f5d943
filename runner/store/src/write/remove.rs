//! Removes rows in transactions of bounded size, so that no other driver waits for long.

use crate::{AttemptId, Store, StoreError};
use sqlx::AssertSqlSafe;

/// Rows of a transaction.
const ROWS: i64 = 1024;

/// A table with a row per step or more.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Large {
    name: &'static str,
    key: &'static str,
}

pub(crate) const STEPS: Large = Large { name: "step", key: "attempt, lane, step, rank" };
pub(crate) const SPANS: Large = Large { name: "span", key: "attempt, lane, step, rank, begin, phase" };

/// The tables that belong to attempts, each before those that it refers to.
const OF_ATTEMPTS: [&str; 21] = [
    "host",
    "block",
    "phase_total",
    "emulation",
    "coding",
    "schedule",
    "staleness",
    "averaging",
    "loss",
    "transfer",
    "link",
    "weight_hash",
    "artifact",
    "step_histogram",
    "loss_extreme",
    "metric",
    "metric_latest",
    "target_hit",
    "event",
    "rank",
    "attempt",
];

impl Store {
    /// Removes the rows of an attempt that fit a condition, which is a literal of this crate.
    pub(crate) async fn remove_rows(
        &self,
        attempt: AttemptId,
        table: Large,
        condition: &'static str,
    ) -> Result<(), StoreError> {
        let Large { name, key } = table;
        let text = format!(
            "DELETE FROM {name} WHERE ({key}) IN (SELECT {key} FROM {name} WHERE attempt = ? AND ({condition}) LIMIT ?)"
        );
        loop {
            let removed = sqlx::query(AssertSqlSafe(text.as_str()))
                .bind(attempt.0)
                .bind(ROWS)
                .execute(&self.writer)
                .await?;
            if removed.rows_affected() < ROWS.unsigned_abs() {
                return Ok(());
            }
        }
    }

    /// Removes an attempt with all that is kept of it.
    pub(crate) async fn remove_attempt(&self, attempt: AttemptId) -> Result<(), StoreError> {
        self.remove_rows(attempt, STEPS, "1").await?;
        self.remove_rows(attempt, SPANS, "1").await?;
        let mut transaction = self.writer.begin_with("BEGIN IMMEDIATE").await?;
        for table in OF_ATTEMPTS {
            let column = if table == "attempt" { "id" } else { "attempt" };
            let statement = AssertSqlSafe(format!("DELETE FROM {table} WHERE {column} = ?"));
            sqlx::query(statement).bind(attempt.0).execute(&mut *transaction).await?;
        }
        Ok(transaction.commit().await?)
    }
}
