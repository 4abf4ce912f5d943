//! Where a run continues that ended early: the last checkpoint of an earlier attempt, with what was recorded up to it.

use launch::{Continuation, SavedCheckpoint};
use recipe::RunSpec;
use std::path::PathBuf;
use store::{EventLog, RunId, Store};

/// No run was ever tried as often.
const MOST_ATTEMPTS: u32 = 10_000;

/// The last checkpoint of a run's attempts from which it can be continued, that of the last attempt first.
pub(crate) fn last_checkpoint(store: &Store, run: &RunId, spec: &RunSpec) -> Option<SavedCheckpoint> {
    continuations(store, run, spec).next().map(|continuation| continuation.checkpoint)
}

/// The same with the events before it.
pub(crate) fn continuation(store: &Store, run: &RunId, spec: &RunSpec) -> Option<Continuation> {
    continuations(store, run, spec).next()
}

fn continuations<'a>(
    store: &'a Store,
    run: &'a RunId,
    spec: &RunSpec,
) -> impl Iterator<Item = Continuation> + 'a {
    let attempts: Vec<PathBuf> = match spec.train.checkpoint {
        Some(_) => (1..=MOST_ATTEMPTS)
            .map(|number| store.attempt_directory(run, number))
            .take_while(|folder| folder.exists())
            .collect(),
        None => Vec::new(),
    };
    attempts.into_iter().rev().flat_map(|attempt| {
        let checkpoints = SavedCheckpoint::newest_first(&attempt);
        checkpoints.into_iter().filter_map(move |checkpoint| {
            let events = EventLog::read(&attempt).ok()?;
            checkpoint.continued(events)
        })
    })
}
