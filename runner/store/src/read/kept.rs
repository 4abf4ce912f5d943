//! Files in the directory of an attempt: the snapshots of its models, and the ids of its samples.

use crate::sql::from_row::from_row;
use crate::sql::value::uint;
use crate::{EventLog, RunId, Store, StoreError};
use record::{Event, Nanos, Rank};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A snapshot of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptModel {
    /// Its file: 32-bit floats, little-endian, one after another. Only the first and the last model are kept; the files
    /// of those in between are deleted.
    pub path: PathBuf,
    /// The rank that wrote it.
    pub rank: Rank,
    /// The model, in words: `rank 0`, `server`.
    pub model: String,
    /// The step after which it was copied; 0 for the initial weights.
    pub step: u64,
    /// Samples consumed by all ranks together.
    pub samples: u64,
    /// Time on the clock of the run.
    pub at: Nanos,
    /// Whether it is the final model that the run is judged by.
    pub last: bool,
    /// Whether it is the final model of its rank.
    pub ended: bool,
}

/// Sample ids by step and rank, in the order of the batch.
pub type SampleIds = BTreeMap<(u64, Rank), Vec<u32>>;

from_row! {
    struct SnapshotColumns {
        path: String,
        rank: u32,
        model: String,
        step: i64,
        samples: i64,
        at: i64,
        last: bool,
        ended: bool,
    }
}

impl Store {
    /// The directory of the attempt that a run shows; `None` if it was never begun.
    pub async fn shown_directory(&self, run: &RunId) -> Result<Option<PathBuf>, StoreError> {
        let found: Option<(String, u32)> = sqlx::query_as(
            "SELECT owner.ulid, attempt.number FROM run JOIN shown ON shown.run = run.id \
             JOIN attempt ON attempt.id = shown.attempt JOIN run AS owner ON owner.id = attempt.run \
             WHERE run.ulid = ?",
        )
        .bind(run.as_str())
        .fetch_optional(&self.reader)
        .await?;
        Ok(found.map(|(owner, number)| self.attempt_directory(&RunId(owner), number)))
    }

    /// The snapshots of a run, by step.
    pub async fn kept_models(&self, run: &RunId) -> Result<Vec<KeptModel>, StoreError> {
        let Some(directory) = self.shown_directory(run).await? else { return Ok(Vec::new()) };
        let rows: Vec<SnapshotColumns> = sqlx::query_as(
            "SELECT path, rank, model, artifact.step AS step, artifact.samples AS samples, artifact.at AS at, last, ended FROM run \
             JOIN shown ON shown.run = run.id JOIN artifact ON artifact.attempt = shown.attempt \
             WHERE run.ulid = ? AND kind = 'snapshot' ORDER BY artifact.step, rank, last",
        )
        .bind(run.as_str())
        .fetch_all(&self.reader)
        .await?;
        Ok(rows
            .into_iter()
            .map(|row| KeptModel {
                path: directory.join(row.path),
                rank: Rank(row.rank),
                model: row.model,
                step: uint(row.step),
                samples: uint(row.samples),
                at: Nanos(uint(row.at)),
                last: row.last,
                ended: row.ended,
            })
            .collect())
    }
}

/// The sample ids in the event log of an attempt's `directory`; empty unless the recipe asks for them
/// (`measure.samples`). Takes four bytes of memory per sample.
///
/// # Errors
/// [`StoreError::EventLog`] if there is no log, or it is damaged.
pub fn recorded_samples(directory: &Path) -> Result<SampleIds, StoreError> {
    let mut samples = SampleIds::new();
    for event in EventLog::events(directory)? {
        if let Event::Samples(told) = event? {
            samples.insert((told.step, told.rank), told.samples);
        }
    }
    Ok(samples)
}
