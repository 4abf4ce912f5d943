//! The steps and spans of an attempt that go when it has ended.

use crate::derive::roll_up::Choice;
use crate::read::steps::each_step;
use crate::sql::document::to_json;
use crate::sql::value::{lane_code, lane_of, uint};
use crate::{AttemptId, StoreError};
use sqlx::sqlite::SqliteConnection;

/// Steps removed in a transaction, so that no other driver waits for long.
const STEPS: usize = 1024;
/// Steps of a lane whose spans are removed in a transaction: a rank may have some hundred spans in each.
const SPANS: usize = 4;

/// Keys of the steps whose rows are removed, and of those that lose their spans.
pub(crate) struct Discarded {
    /// Lane, step and rank.
    steps: Vec<(i64, u64, u32)>,
    /// Lane and step, of all ranks.
    spans: Vec<(i64, u64)>,
}

/// The rows that one transaction removes.
pub(crate) enum Part<'a> {
    Steps(&'a [(i64, u64, u32)]),
    Spans(&'a [(i64, u64)]),
}

impl Discarded {
    pub(crate) async fn of(
        connection: &mut SqliteConnection,
        attempt: AttemptId,
        choice: &Choice,
    ) -> Result<Self, StoreError> {
        let mut steps = Vec::new();
        each_step(connection, attempt, |row| {
            if !choice.keeps(row.key(), row.length) {
                steps.push((lane_code(row.lane), row.step, row.rank));
            }
        })
        .await?;
        let mut spans = Vec::new();
        if choice.recorded_spans().is_some() {
            let recorded: Vec<(i64, i64)> =
                sqlx::query_as("SELECT DISTINCT lane, step FROM span WHERE attempt = ? ORDER BY lane, step")
                    .bind(attempt.0)
                    .fetch_all(connection)
                    .await?;
            for (lane, step) in recorded {
                if !choice.keeps_spans(lane_of(lane)?, uint(step)) {
                    spans.push((lane, uint(step)));
                }
            }
        }
        Ok(Self { steps, spans })
    }

    /// It in parts that are small enough for a transaction.
    pub(crate) fn parts(&self) -> impl Iterator<Item = Part<'_>> {
        self.steps.chunks(STEPS).map(Part::Steps).chain(self.spans.chunks(SPANS).map(Part::Spans))
    }
}

impl Part<'_> {
    pub(crate) async fn remove(
        &self,
        connection: &mut SqliteConnection,
        attempt: AttemptId,
    ) -> Result<(), StoreError> {
        let (statement, rows) = match self {
            Self::Steps(steps) => (
                "DELETE FROM step WHERE (attempt, lane, step, rank) IN \
                 (SELECT ?1, value ->> 0, value ->> 1, value ->> 2 FROM json_each(?2))",
                to_json("list of steps", steps)?,
            ),
            Self::Spans(steps) => (
                "DELETE FROM span WHERE (attempt, lane, step) IN \
                 (SELECT ?1, value ->> 0, value ->> 1 FROM json_each(?2))",
                to_json("list of steps", steps)?,
            ),
        };
        sqlx::query(statement).bind(attempt.0).bind(rows).execute(connection).await?;
        Ok(())
    }
}
