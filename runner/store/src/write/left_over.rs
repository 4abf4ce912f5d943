//! Sweeps whose driver was killed: the database says that they run, but nothing drives them.

use crate::driver::{KILLED, now};
use crate::journal::entries::{AttemptEnd, SweepEnd};
use crate::sql::document::to_json;
use crate::sql::from_row::from_row;
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
            self.end_abandoned_sweep(sweep).await?;
        }
        Ok(())
    }

    async fn end_abandoned_sweep(&self, sweep: i64) -> Result<(), StoreError> {
        let attempts: Vec<(i64, i64)> = sqlx::query_as(
            "SELECT attempt.id, attempt.heartbeat_unix FROM attempt JOIN run ON run.id = attempt.run \
             WHERE run.sweep = ? AND attempt.state = 'running'",
        )
        .bind(sweep)
        .fetch_all(&self.reader)
        .await?;
        let mut ends = Vec::new();
        for (attempt, heartbeat) in attempts {
            let end = killed(heartbeat);
            ends.push((self.ending(AttemptId(attempt), end.state).await?, end));
        }
        let mut transaction = self.writer.begin_with("BEGIN IMMEDIATE").await?;
        let open: Option<String> =
            sqlx::query_scalar("SELECT ulid FROM sweep WHERE id = ? AND state = 'running'")
                .bind(sweep)
                .fetch_optional(&mut *transaction)
                .await?;
        // Another driver may have closed its books in the meantime.
        let Some(id) = open else { return Ok(()) };
        for (ending, end) in &ends {
            self.record_attempt_end_in(&mut transaction, ending, end).await?;
        }
        self.record_sweep_end_in(&mut transaction, &SweepId(id), SweepEnd::Interrupted, None).await?;
        transaction.commit().await?;
        for (ending, _) in ends {
            self.roll_up(ending).await;
        }
        Ok(())
    }

    /// Row ids of the sweeps that the database says are running, but whose driver is dead.
    pub(crate) async fn abandoned_sweeps(&self) -> Result<Vec<i64>, StoreError> {
        let running: Vec<Running> = sqlx::query_as(
            "SELECT id, driver_pid, driver_born, driver_host, driver_space, \
             max(started_unix, coalesce(heartbeat_unix, 0), coalesce((SELECT max(attempt.heartbeat_unix) FROM attempt \
             JOIN run ON run.id = attempt.run WHERE run.sweep = sweep.id AND attempt.state = 'running'), 0)) AS heard \
             FROM sweep WHERE state = 'running'",
        )
        .fetch_all(&self.reader)
        .await?;
        let now = now();
        Ok(running
            .into_iter()
            .filter(|sweep| !sweep.driver().is_alive(sweep.heard, now))
            .map(|sweep| sweep.id)
            .collect())
    }
}

from_row! {
    /// A sweep that the database says is running.
    struct Running {
        id: i64,
        driver_pid: u32,
        driver_born: String,
        driver_host: String,
        driver_space: String,
        /// When its driver was last heard of, in seconds since 1970.
        heard: i64,
    }
}

impl Running {
    fn driver(&self) -> Driver {
        Driver {
            pid: self.driver_pid,
            born: self.driver_born.clone(),
            host: self.driver_host.clone(),
            space: self.driver_space.clone(),
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database::older::tests::fill;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// A store with one attempt of 20,000 steps, and the most instructions of SQLite between two commits from then on: those of one
    /// query over all steps are some ten per step.
    async fn long_run(folder: &std::path::Path) -> (Store, Arc<AtomicU64>) {
        let store = Store::open(folder).await.unwrap();
        fill(&store).await;
        sqlx::query(
            "INSERT INTO step (attempt, lane, step, rank, begin, length, samples, own_samples, bytes_out, bytes_in, loss, \
             is_finite, drain, phases) WITH RECURSIVE more (step) AS (SELECT 7 UNION ALL SELECT step + 1 FROM more \
             WHERE step < 20000) SELECT 1, 0, step, 0, 10 * step, 9, step, 1, 0, 0, 0.5, 1, 0, x'0009' FROM more",
        )
        .execute(&store.writer)
        .await
        .unwrap();
        let (now, most) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let mut writer = store.writer.acquire().await.unwrap();
        {
            let mut handle = writer.lock_handle().await.unwrap();
            let (counted, longest) = (Arc::clone(&now), Arc::clone(&most));
            handle.set_progress_handler(1, move || {
                longest.fetch_max(counted.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
                true
            });
            handle.set_commit_hook(move || {
                now.store(0, Ordering::Relaxed);
                true
            });
        }
        drop(writer);
        (store, most)
    }

    /// State and steps of the attempt, and whether nothing was summed up while the write lock was held.
    async fn ended(store: &Store, most: &AtomicU64) -> (String, i64) {
        let most = most.load(Ordering::Relaxed);
        assert!((100..100_000).contains(&most), "{most}");
        sqlx::query_as("SELECT state, steps FROM attempt").fetch_one(&store.reader).await.unwrap()
    }

    /// Other drivers wait for the write lock for ten seconds at most, so that nothing may be summed up under it.
    #[tokio::test]
    async fn the_write_lock_is_not_held_longer_for_a_longer_run() {
        let folder = tempfile::tempdir().unwrap();
        let (store, most) = long_run(folder.path()).await;
        sqlx::query("UPDATE sweep SET driver_pid = 0").execute(&store.writer).await.unwrap();
        store.end_abandoned_sweeps().await.unwrap();
        assert_eq!(ended(&store, &most).await, ("interrupted".to_owned(), 20_000));
    }

    #[tokio::test]
    async fn nor_is_it_by_the_driver_that_ends_the_run_itself() {
        let folder = tempfile::tempdir().unwrap();
        let (store, most) = long_run(folder.path()).await;
        let end = AttemptEnd { state: RunState::Done, detail: String::new(), ..killed(now()) };
        store.record_attempt_end(crate::AttemptId(1), &end).await.unwrap();
        assert_eq!(ended(&store, &most).await, ("done".to_owned(), 20_000));
    }

    /// With those of a database of one sweep, `list` read all sweeps once per run.
    #[tokio::test]
    async fn no_statistics_of_a_small_database_are_left_for_a_large_one() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).await.unwrap();
        fill(&store).await;
        store.close().await;
        let store = Store::open(folder.path()).await.unwrap();
        let tables: i64 =
            sqlx::query_scalar("SELECT count(*) FROM sqlite_schema WHERE name LIKE 'sqlite_stat%'")
                .fetch_one(&store.reader)
                .await
                .unwrap();
        assert_eq!(tables, 0);
    }

    #[tokio::test]
    async fn the_books_of_a_driver_elsewhere_stay_open_while_it_is_heard_of() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).await.unwrap();
        fill(&store).await;
        let now = now();
        let id: String = sqlx::query_scalar("SELECT ulid FROM sweep").fetch_one(&store.reader).await.unwrap();
        let id = SweepId(id);
        let open = async || store.left_over().await.unwrap().is_empty();
        // Its number is that of this process, in another container; or on another machine.
        for elsewhere in
            ["driver_space = 'pid:[1]'", "driver_born = 'another boot:1', driver_host = 'bench2'"]
        {
            let moved = sqlx::AssertSqlSafe(format!("UPDATE sweep SET {elsewhere}"));
            sqlx::query(moved).execute(&store.writer).await.unwrap();
            store.record_sweep_heartbeat(&id, now - 3_600).await.unwrap();
            assert!(!open().await);
            store.record_sweep_heartbeat(&id, now).await.unwrap();
            assert!(open().await);
            Store::open(folder.path()).await.unwrap().close().await;
            let state: String =
                sqlx::query_scalar("SELECT state FROM sweep").fetch_one(&store.reader).await.unwrap();
            assert_eq!(state, "running");
        }
        store.record_sweep_heartbeat(&id, now - 3_600).await.unwrap();
        Store::open(folder.path()).await.unwrap().close().await;
        let state: String =
            sqlx::query_scalar("SELECT state FROM sweep").fetch_one(&store.reader).await.unwrap();
        assert_eq!(state, "interrupted");
    }
}
