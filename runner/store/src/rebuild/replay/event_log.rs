//! Replays the event log of an attempt, and its end: an attempt counts only if its log holds what its journal promises.

use super::{AttemptKey, Replay, Sweep, Trust, is_ours};
use crate::journal::entries::{AttemptEnd, RolledUp};
use crate::journal::event_reader::{self, EventReader};
use crate::read::steps::{totals_again, totals_of};
use crate::sql::value::int;
use crate::write::attempt::insert_attempt_end;
use crate::write::discarded::Discarded;
use crate::write::ingest::insert_events;
use crate::{AttemptId, EventLog, RunState, StoreError};
use sqlx::Connection;
use sqlx::sqlite::SqliteConnection;
use std::fs;
use std::time::UNIX_EPOCH;

/// Number of events inserted at once, in a transaction of their own.
const BATCH: usize = 4096;

/// The end of an attempt, as its journal says.
pub(super) struct Ended<'e> {
    pub(super) attempt: AttemptKey,
    pub(super) end: &'e AttemptEnd,
    /// Bytes of its event log.
    pub(super) log: u64,
    /// Its totals, where not all steps are kept.
    pub(super) totals: Option<&'e RolledUp>,
}

/// Bytes of an event log, as its journal says.
struct Promise {
    /// Unknown of one that was cut short.
    least: Option<u64>,
    /// Bytes to which a compressed one may unpack at most.
    most: u64,
}

impl Replay<'_> {
    pub(super) async fn attempt_ends(
        &mut self,
        connection: &mut SqliteConnection,
        sweep: &mut Sweep,
        Ended { attempt, end, log, totals }: Ended<'_>,
    ) -> Result<(), StoreError> {
        let id = sweep.attempt(&attempt)?;
        sweep.open.remove(&attempt);
        // An attempt that was cut short may have ended in the middle of an event.
        let cut_short = matches!(end.state, RunState::Failed | RunState::Interrupted);
        let promise = Promise { least: (!cut_short).then_some(log), most: log };
        let (end, totals) = match self.events(connection, id, &attempt, promise).await? {
            Ok(()) => (end.clone(), totals),
            Err(reason) => (incomplete(end, &reason), None),
        };
        let totals = match totals {
            Some(totals) => totals_again(connection, id, totals.clone()).await?,
            None => totals_of(connection, id).await?,
        };
        let mut transaction = connection.begin().await?;
        insert_attempt_end(&mut transaction, id, &totals, &end).await?;
        transaction.commit().await?;
        // A log of an earlier version holds all steps, as one does whose driver was killed before it was packed.
        let Some(choice) = &totals.choice else { return Ok(()) };
        for part in Discarded::of(connection, id, choice).await?.parts() {
            part.remove(connection, id).await?;
        }
        Ok(())
    }

    /// An attempt whose driver was killed. It stays open: the next driver that opens the store ends it.
    pub(super) async fn unfinished(
        &mut self,
        connection: &mut SqliteConnection,
        sweep: &Sweep,
        attempt: &AttemptKey,
    ) -> Result<(), StoreError> {
        let id = sweep.attempt(attempt)?;
        // The log of a killed driver need not be complete.
        let _ = self.events(connection, id, attempt, Promise { least: None, most: u64::MAX }).await?;
        let written = fs::metadata(self.directory(attempt).join(EventLog::NAME));
        let written = written.and_then(|data| data.modified()).ok();
        let Some(time) = written.and_then(|time| time.duration_since(UNIX_EPOCH).ok()) else { return Ok(()) };
        sqlx::query("UPDATE attempt SET heartbeat_unix = max(heartbeat_unix, ?) WHERE id = ?")
            .bind(int(time.as_secs()))
            .bind(id.0)
            .execute(connection)
            .await?;
        Ok(())
    }

    /// Inserts the events of an attempt. If they are fewer than the `promised` bytes, or unreadable, reports it and
    /// returns the reason as the inner error.
    async fn events(
        &mut self,
        connection: &mut SqliteConnection,
        id: AttemptId,
        attempt: &AttemptKey,
        Promise { least: promised, most }: Promise,
    ) -> Result<Result<(), String>, StoreError> {
        let directory = self.directory(attempt);
        let path = event_reader::file_of(&directory);
        if promised.unwrap_or(0) == 0 && !path.exists() {
            return Ok(Ok(()));
        }
        let before = self.done.bytes.0;
        let most = if self.trust == Trust::Strangers { most } else { u64::MAX };
        let read =
            self.read_log(connection, id, EventReader::open(&directory).map(|log| log.within(most))).await;
        let bytes = self.done.bytes.0 - before;
        let reason = match read {
            Ok(()) if promised.is_none_or(|promised| bytes >= promised) => return Ok(Ok(())),
            Ok(()) => format!("it has {bytes} bytes of whole events, of {} once", promised.unwrap_or(bytes)),
            Err(error) if is_ours(&error) => return Err(error),
            Err(StoreError::EventLog { reason, .. }) => reason,
            Err(error) => error.to_string(),
        };
        let consequence = match promised {
            Some(_) => format!("run {} counts as failed, and will be trained again", attempt.run),
            None => "the rest of this interrupted attempt is left out".to_owned(),
        };
        self.unread(&path, format!("{reason}; {consequence}"));
        Ok(Err(format!("{}: {reason}", path.display())))
    }

    async fn read_log(
        &mut self,
        connection: &mut SqliteConnection,
        id: AttemptId,
        log: Result<EventReader, StoreError>,
    ) -> Result<(), StoreError> {
        let mut log = log?;
        let before = self.done.bytes.0;
        loop {
            let events = log.next_batch(BATCH)?;
            if events.is_empty() {
                return Ok(());
            }
            let mut transaction = connection.begin().await?;
            insert_events(&mut transaction, id, &events).await?;
            transaction.commit().await?;
            self.rebuilt.events += events.len() as u64;
            self.done.bytes.0 = before + log.at();
        }
    }
}

/// The end of an attempt whose events are incomplete: its numbers must not be taken for a result.
fn incomplete(end: &AttemptEnd, reason: &str) -> AttemptEnd {
    let mut end = end.clone();
    if matches!(end.state, RunState::Done | RunState::Degraded | RunState::Diverged) {
        end.detail = format!("it was {}, but its events cannot be read any more: {reason}", end.state.name());
        end.state = RunState::Failed;
    }
    end
}
