//! Where a run continues that ended early: the furthest checkpoint of its earlier attempts, with what was recorded up to it.

use launch::{Continuation, SavedCheckpoint};
use recipe::RunSpec;
use std::path::{Path, PathBuf};
use store::{EventLog, RunId, Store};

/// No run was ever tried as often.
const MOST_ATTEMPTS: u32 = 10_000;

/// The furthest checkpoint of these attempts at runs of one identity, with the events before it.
pub(crate) fn continuation(attempts: &[PathBuf], spec: &RunSpec) -> Option<Continuation> {
    spec.train.checkpoint?;
    let last_of_each =
        attempts.iter().filter(|attempt| SavedCheckpoint::any(attempt)).filter_map(|attempt| {
            let events = EventLog::read(attempt).ok()?;
            let mut checkpoints = SavedCheckpoint::newest_first(attempt, spec.cluster.ranks(), &events);
            checkpoints.find_map(|checkpoint| checkpoint.continued(events.iter().cloned()))
        });
    last_of_each.max_by_key(|continuation| continuation.checkpoint.samples)
}

/// Deletes the models of the attempts before `last`, with which these runs are done, and the checkpoints of all.
pub(crate) fn delete_checkpoints(store: &Store, runs: &[RunId], last: &Path) {
    for attempt in attempts(store, runs).into_iter().filter(|attempt| SavedCheckpoint::any(attempt)) {
        if attempt != last {
            SavedCheckpoint::delete_models(&attempt);
        }
        SavedCheckpoint::delete_all(&attempt);
    }
}

/// The folders of all attempts at these runs.
pub(crate) fn attempts(store: &Store, runs: &[RunId]) -> Vec<PathBuf> {
    runs.iter().flat_map(|run| attempts_of(store, run)).collect()
}

fn attempts_of(store: &Store, run: &RunId) -> impl Iterator<Item = PathBuf> {
    let folders = (1..=MOST_ATTEMPTS).map(|number| store.attempt_directory(run, number));
    folders.take_while(|folder| folder.exists())
}
