//! Where a run continues that ended early: the last checkpoint of an earlier attempt, with what was recorded up to it.

use launch::{Continuation, SavedCheckpoint};
use recipe::RunSpec;
use std::path::PathBuf;
use store::{EventLog, RunId, Store};

/// No run was ever tried as often.
const MOST_ATTEMPTS: u32 = 10_000;

/// The last checkpoint from which a run that ended early can be continued.
pub(crate) fn last_checkpoint(store: &Store, run: &RunId, spec: &RunSpec) -> Option<SavedCheckpoint> {
    continuation(store, run, spec).map(|continuation| continuation.checkpoint)
}

/// The same with the events before it; of the last attempt that has one.
pub(crate) fn continuation(store: &Store, run: &RunId, spec: &RunSpec) -> Option<Continuation> {
    spec.train.checkpoint?;
    let attempts: Vec<PathBuf> = (1..=MOST_ATTEMPTS)
        .map(|number| store.attempt_directory(run, number))
        .take_while(|folder| folder.exists())
        .collect();
    attempts.iter().rev().filter(|attempt| SavedCheckpoint::any(attempt)).find_map(|attempt| {
        let events = EventLog::read(attempt).ok()?;
        let mut checkpoints = SavedCheckpoint::newest_first(attempt, spec.cluster.ranks(), &events);
        checkpoints.find_map(|checkpoint| checkpoint.continued(events.iter().cloned()))
    })
}
