//! The word of a driver that it is alive, for processes on other machines and in other containers.

use crate::driver::{HEARTBEAT, now};
use crate::{Store, StoreError, SweepId};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};

/// Records heartbeats of a sweep's driver until it is dropped.
#[derive(Debug)]
pub struct Heartbeats {
    task: JoinHandle<()>,
}

impl Store {
    /// Records every few seconds that the driver of a sweep is alive; must be called inside the runtime.
    pub fn keep_alive(&self, sweep: &SweepId) -> Heartbeats {
        let store = self.clone();
        let sweep = sweep.clone();
        Heartbeats { task: tokio::spawn(async move { store.beat(&sweep).await }) }
    }

    async fn beat(&self, sweep: &SweepId) {
        let mut ticks = interval(Duration::from_secs(HEARTBEAT));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            // The next one may be recorded; a database that takes none fails the run itself.
            if let Err(error) = self.record_sweep_heartbeat(sweep, now()).await {
                tracing::debug!(%sweep, %error, "a heartbeat was not recorded");
            }
        }
    }

    /// Records that the driver of a sweep was alive at `time`, in seconds since 1970.
    pub async fn record_sweep_heartbeat(&self, sweep: &SweepId, time: i64) -> Result<(), StoreError> {
        sqlx::query("UPDATE sweep SET heartbeat_unix = ? WHERE ulid = ? AND state = 'running'")
            .bind(time)
            .bind(sweep.as_str())
            .execute(&self.writer)
            .await?;
        Ok(())
    }
}

impl Drop for Heartbeats {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[cfg(test)]
mod tests {
    use crate::database::older::tests::fill;
    use crate::driver::now;
    use crate::{Store, SweepId};
    use std::time::Duration;

    #[tokio::test]
    async fn a_driver_is_heard_of_from_the_first_moment_and_not_after_the_last() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).await.unwrap();
        fill(&store).await;
        let (id, heard) = ("SELECT ulid FROM sweep", "SELECT heartbeat_unix FROM sweep");
        let id = SweepId(sqlx::query_scalar(id).fetch_one(&store.reader).await.unwrap());
        let heard = async || -> i64 { sqlx::query_scalar(heard).fetch_one(&store.reader).await.unwrap() };
        let began = now();
        store.record_sweep_heartbeat(&id, began - 3_600).await.unwrap();
        let heartbeats = store.keep_alive(&id);
        let soon = async {
            while heard().await < began {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), soon).await.unwrap();
        let beating = heartbeats.task.abort_handle();
        drop(heartbeats);
        let ended = async {
            while !beating.is_finished() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), ended).await.unwrap();
    }
}
