//! Receives the updates of an attempt: shows them, and writes its events to the event log and to the store.
//!
//! It never makes a run wait: the launcher keeps what there is no room for yet. It never loses an event
//! either: when one cannot be kept it stops listening, and the launcher ends the run.

use crate::output::human;
use crate::progress::Progress;
use launch::Update;
use recipe::Run;
use record::Event;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use store::{AttemptId, EventLog, RunState, Store, StoreError};
use tokio::sync::mpsc::Receiver;

/// Updates taken at once: a batch is one transaction.
const BATCH: usize = 512;
/// How often the store records that the attempt is alive.
const HEARTBEAT: Duration = Duration::from_secs(5);

/// The recorder of one attempt.
pub(crate) struct Recorder {
    /// Where the numbers go.
    pub(crate) store: Store,
    /// The attempt that the events belong to.
    pub(crate) attempt: AttemptId,
    /// The run that is tried.
    pub(crate) run: Run,
    /// Directory of the attempt, where its event log lies.
    pub(crate) directory: PathBuf,
    /// The display that shows the updates.
    pub(crate) progress: Progress,
}

impl Recorder {
    /// Records until the attempt is over.
    ///
    /// # Errors
    /// An event cannot be kept; the rest is not listened to.
    pub(crate) async fn record(self, mut updates: Receiver<Update>) -> Result<(), StoreError> {
        let mut log = EventLog::open(&self.directory)?;
        let mut batch = Vec::with_capacity(BATCH);
        let mut alive = Instant::now();
        while updates.recv_many(&mut batch, BATCH).await > 0 {
            let mut events: Vec<Event> = Vec::new();
            for update in batch.drain(..) {
                self.progress.update(&self.run, &update);
                self.keep(update, &mut events).await?;
            }
            log.append(&events)?;
            self.store.record_events(self.attempt, &events).await?;
            if alive.elapsed() >= HEARTBEAT {
                alive = Instant::now();
                self.store.record_heartbeat(self.attempt, human::now()).await?;
            }
        }
        Ok(())
    }

    /// Collects events; what else is worth keeping goes into the attempt's history.
    async fn keep(&self, update: Update, events: &mut Vec<Event>) -> Result<(), StoreError> {
        match update {
            Update::Events(more) => events.extend(more),
            Update::Note(text) => self.store.record_note(self.attempt, human::now(), "note", &text).await?,
            Update::Lost { reason, .. } => {
                let state = RunState::Degraded.name();
                self.store.record_note(self.attempt, human::now(), state, &reason).await?;
            }
            Update::Spawned { .. } | Update::Continued { .. } | Update::Heartbeat(..) | Update::State(_) => {}
        }
        Ok(())
    }
}
