//! Sums up an attempt before its end is recorded, and removes the steps and spans that are not kept after it.

use crate::derive::roll_up::{Choice, StepKey};
use crate::journal::packed_log::PackedLog;
use crate::read::steps::{Totals, totals_of};
use crate::write::discarded::Discarded;
use crate::write::place_of_attempt::{Try, try_of};
use crate::{AttemptId, RunState, Store, StoreError, layout};
use record::Event;
use std::path::{Path, PathBuf};

/// An attempt that is about to end.
pub(crate) struct Ending {
    pub(crate) attempt: AttemptId,
    pub(crate) place: Try,
    pub(crate) totals: Totals,
    /// Its event log without the steps and spans that are not kept.
    pub(crate) packed: Option<PackedLog>,
}

impl Store {
    /// Sums up an attempt. A long run takes longer than another driver waits for the write lock, so it happens before.
    pub(crate) async fn ending(&self, attempt: AttemptId, state: RunState) -> Result<Ending, StoreError> {
        let mut reader = self.reader.acquire().await?;
        let place = try_of(&mut reader, attempt).await?;
        let totals = totals_of(&mut reader, attempt).await?;
        drop(reader);
        let directory = self.attempt_directory(&place.run, place.number);
        let packed =
            if is_continued(&directory, state) { None } else { pack(directory, totals.choice.clone()).await };
        Ok(Ending { attempt, place, totals, packed })
    }

    /// Removes the steps that are not kept, once the end is recorded. A failure costs space and nothing else: the steps and the log that
    /// remain are more than the part to keep, and say the same.
    pub(crate) async fn roll_up(&self, ending: Ending) {
        let Ending { attempt, place, totals, packed } = ending;
        if let Some(Err(error)) = packed.map(PackedLog::install) {
            warn_of_log(&error);
        }
        if let Some(choice) = &totals.choice
            && let Err(error) = self.remove_surplus(attempt, choice).await
        {
            tracing::warn!(
                run = %place.run,
                %error,
                "the run counts, but its steps that are not needed any more stay in the database: free some disk space, then \
                 `bakeoff db rebuild` removes them"
            );
        }
    }

    async fn remove_surplus(&self, attempt: AttemptId, choice: &Choice) -> Result<(), StoreError> {
        let discarded = {
            let mut reader = self.reader.acquire().await?;
            Discarded::of(&mut reader, attempt, choice).await?
        };
        for part in discarded.parts() {
            let mut writer = self.writer.acquire().await?;
            part.remove(&mut writer, attempt).await?;
        }
        Ok(())
    }
}

/// Whether another attempt may continue from this one, whose steps are then its first: the log stays whole.
fn is_continued(directory: &Path, state: RunState) -> bool {
    !matches!(state, RunState::Done | RunState::Diverged) && directory.join(layout::CHECKPOINTS).exists()
}

/// Without room on the disk the log stays as it is.
async fn pack(directory: PathBuf, choice: Option<Choice>) -> Option<PackedLog> {
    let packing = tokio::task::spawn_blocking(move || {
        PackedLog::write(&directory, choice.is_none(), |event| match (event, &choice) {
            (Event::Step(step), Some(choice)) => {
                let key = StepKey { lane: step.lane, rank: step.rank, step: step.step, drain: step.drain };
                choice.keeps(key, step.length)
            }
            (Event::Span(span), Some(choice)) => choice.keeps_spans(span.lane, span.step),
            _ => true,
        })
    });
    match packing.await {
        Ok(Ok(packed)) => packed,
        Ok(Err(error)) => {
            warn_of_log(&error);
            None
        }
        Err(error) => {
            warn_of_log(&error);
            None
        }
    }
}

fn warn_of_log(error: &dyn std::fmt::Display) {
    tracing::warn!(
        %error,
        "the run counts, but its event log stays as large as it is: free some disk space, for example with `bakeoff db prune`"
    );
}
