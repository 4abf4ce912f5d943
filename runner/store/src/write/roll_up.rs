//! Sums up an attempt before its end is recorded, and removes the steps that are not kept after it.

use crate::derive::roll_up::{Choice, StepKey};
use crate::journal::packed_log::PackedLog;
use crate::read::steps::{Totals, each_step, totals_of};
use crate::sql::document::to_json;
use crate::sql::value::lane_code;
use crate::write::attempt::{Try, try_of};
use crate::{AttemptId, Store, StoreError};
use record::Event;
use sqlx::sqlite::SqliteConnection;
use std::path::PathBuf;

/// Steps removed in a transaction, so that no other driver waits for long.
const STEPS: usize = 1024;

/// An attempt that is about to end.
pub(crate) struct Ending {
    pub(crate) attempt: AttemptId,
    pub(crate) place: Try,
    pub(crate) totals: Totals,
    /// Its event log without the steps that are not kept.
    pub(crate) packed: Option<PackedLog>,
}

impl Store {
    /// Sums up an attempt. A long run takes longer than another driver waits for the write lock, so it happens before.
    pub(crate) async fn ending(&self, attempt: AttemptId) -> Result<Ending, StoreError> {
        let mut reader = self.reader.acquire().await?;
        let place = try_of(&mut reader, attempt).await?;
        let totals = totals_of(&mut reader, attempt).await?;
        drop(reader);
        let directory = self.attempt_directory(&place.run, place.number);
        let packed = pack(directory, totals.choice.clone()).await;
        Ok(Ending { attempt, place, totals, packed })
    }

    /// Removes what is not kept, once the end is recorded. A failure costs space and nothing else: the steps and the log that
    /// remain are more than what is kept, and say the same.
    pub(crate) async fn roll_up(&self, ending: Ending) {
        let Ending { attempt, totals, packed, .. } = ending;
        if let Some(Err(error)) = packed.map(PackedLog::install) {
            tracing::warn!(%error, "an event log stays as it was");
        }
        if let Some(choice) = &totals.choice
            && let Err(error) = self.remove_steps(attempt, choice).await
        {
            tracing::warn!(%error, "steps that are not needed any more stay in the database");
        }
    }

    async fn remove_steps(&self, attempt: AttemptId, choice: &Choice) -> Result<(), StoreError> {
        let surplus = {
            let mut reader = self.reader.acquire().await?;
            surplus_of(&mut reader, attempt, choice).await?
        };
        for steps in surplus.chunks(STEPS) {
            let mut writer = self.writer.acquire().await?;
            remove(&mut writer, attempt, steps).await?;
        }
        Ok(())
    }
}

/// Without room on the disk the log stays as it is.
async fn pack(directory: PathBuf, choice: Option<Choice>) -> Option<PackedLog> {
    let packing = tokio::task::spawn_blocking(move || {
        PackedLog::write(&directory, choice.is_none(), |event| match (event, &choice) {
            (Event::Step(step), Some(choice)) => {
                let key = StepKey { lane: step.lane, rank: step.rank, step: step.step, drain: step.drain };
                choice.keeps(key, step.length)
            }
            _ => true,
        })
    });
    match packing.await {
        Ok(Ok(packed)) => packed,
        Ok(Err(error)) => {
            tracing::warn!(%error, "an event log stays as it was");
            None
        }
        Err(error) => {
            tracing::warn!(%error, "an event log stays as it was");
            None
        }
    }
}

/// Lane, step and rank of the steps that go.
pub(crate) async fn surplus_of(
    connection: &mut SqliteConnection,
    attempt: AttemptId,
    choice: &Choice,
) -> Result<Vec<(i64, u64, u32)>, StoreError> {
    let mut surplus = Vec::new();
    each_step(connection, attempt, |row| {
        if !choice.keeps(row.key(), row.length) {
            surplus.push((lane_code(row.lane), row.step, row.rank));
        }
    })
    .await?;
    Ok(surplus)
}

/// Removes steps of an attempt by lane, step and rank.
pub(crate) async fn remove(
    connection: &mut SqliteConnection,
    attempt: AttemptId,
    steps: &[(i64, u64, u32)],
) -> Result<(), StoreError> {
    sqlx::query(
        "DELETE FROM step WHERE (attempt, lane, step, rank) IN \
         (SELECT ?1, value ->> 0, value ->> 1, value ->> 2 FROM json_each(?2))",
    )
    .bind(attempt.0)
    .bind(to_json("list of steps", &steps)?)
    .execute(connection)
    .await?;
    Ok(())
}
