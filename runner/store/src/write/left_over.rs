//! Sweeps whose driver was killed: the database says that they run, but nothing drives them.

use crate::driver::KILLED;
use crate::journal::entries::{AttemptEnd, SweepEnd};
use crate::read::steps::summary_of;
use crate::sql::document::to_json;
use crate::{AttemptId, Driver, RunState, Store, StoreError, SweepId};
use serde::Serialize;

/// A sweep whose driver was killed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LeftOver {
    /// The sweep's id.
    pub sweep: String,
    /// Name of its recipe.
    pub recipe: String,
    /// Process id of its driver.
    pub driver: u32,
    /// Seconds since 1970.
    pub started: i64,
    /// Number of runs that have not ended.
    pub unfinished: u32,
}

impl Store {
    /// The sweeps whose driver was killed, oldest first.
    pub async fn left_over(&self) -> Result<Vec<LeftOver>, StoreError> {
        let abandoned = to_json("list of sweeps", &self.abandoned_sweeps().await?)?;
        let rows: Vec<(String, String, u32, i64, u32)> = sqlx::query_as(
            "SELECT sweep.ulid, sweep.name, driver_pid, started_unix, \
             (SELECT count(*) FROM run WHERE run.sweep = sweep.id AND run.state IN ('pending', 'running')) \
             FROM sweep WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id",
        )
        .bind(abandoned)
        .fetch_all(&self.reader)
        .await?;
        Ok(rows
            .into_iter()
            .map(|(sweep, recipe, driver, started, unfinished)| LeftOver {
                sweep,
                recipe,
                driver,
                started,
                unfinished,
            })
            .collect())
    }

    /// Records the attempts and sweeps of killed drivers as interrupted.
    pub(crate) async fn end_abandoned_sweeps(&self) -> Result<(), StoreError> {
        for sweep in self.abandoned_sweeps().await? {
            let mut transaction = self.writer.begin_with("BEGIN IMMEDIATE").await?;
            let attempts: Vec<(i64, i64)> = sqlx::query_as(
                "SELECT attempt.id, attempt.heartbeat_unix FROM attempt JOIN run ON run.id = attempt.run \
                 WHERE run.sweep = ? AND attempt.state = 'running'",
            )
            .bind(sweep)
            .fetch_all(&mut *transaction)
            .await?;
            for (attempt, heartbeat) in attempts {
                let attempt = AttemptId(attempt);
                let summary = summary_of(&mut transaction, attempt).await?;
                self.record_attempt_end_in(&mut transaction, attempt, &summary, &killed(heartbeat)).await?;
            }
            let id: String = sqlx::query_scalar("SELECT ulid FROM sweep WHERE id = ?")
                .bind(sweep)
                .fetch_one(&mut *transaction)
                .await?;
            self.record_sweep_end_in(&mut transaction, &SweepId(id), SweepEnd::Interrupted, None).await?;
            transaction.commit().await?;
        }
        Ok(())
    }

    /// Row ids of the sweeps that the database says are running, but whose driver is dead.
    pub(crate) async fn abandoned_sweeps(&self) -> Result<Vec<i64>, StoreError> {
        let running: Vec<(i64, u32, String)> =
            sqlx::query_as("SELECT id, driver_pid, driver_born FROM sweep WHERE state = 'running'")
                .fetch_all(&self.reader)
                .await?;
        Ok(running
            .into_iter()
            .filter(|(_, pid, born)| !Driver { pid: *pid, born: born.clone() }.lives())
            .map(|(id, ..)| id)
            .collect())
    }
}

fn killed(heartbeat: i64) -> AttemptEnd {
    AttemptEnd {
        state: RunState::Interrupted,
        detail: KILLED.to_owned(),
        culprit: None,
        last_lines: Vec::new(),
        wall: None,
        ended: heartbeat,
        lost: Vec::new(),
    }
}
