//! What lies in the directory of a run beside its logs: models that were put aside, and the ids of its samples.

use crate::value::uint;
use crate::{EventLog, RunId, Store, StoreError};
use record::{Event, Nanos, Rank};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A model that a run put aside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptModel {
    /// Its file: 32-bit floats, little-endian, one after another. It may be gone: of the models in between,
    /// nothing is kept.
    pub path: PathBuf,
    /// Who put it aside.
    pub rank: Rank,
    /// Which model it is, in words: `rank 0`, `server`.
    pub model: String,
    /// After which step; 0 for the initial weights.
    pub step: u64,
    /// Samples consumed by all ranks together.
    pub samples: u64,
    /// When, on the clock of the run.
    pub at: Nanos,
    /// Whether the run is judged by it, and ended with it.
    pub last: bool,
    /// Whether its rank ended with it.
    pub ended: bool,
}

/// The samples that each rank used in each step, by step and rank, in the order of the batch.
pub type Samples = BTreeMap<(u64, Rank), Vec<u32>>;

impl Store {
    /// The directory of the attempt that speaks for a run; nothing where it was never begun.
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

    /// The models that a run put aside, by step.
    pub async fn kept_models(&self, run: &RunId) -> Result<Vec<KeptModel>, StoreError> {
        let Some(directory) = self.shown_directory(run).await? else { return Ok(Vec::new()) };
        let rows: Vec<(String, u32, String, i64, i64, i64, bool, bool)> = sqlx::query_as(
            "SELECT path, rank, model, artifact.step, artifact.samples, artifact.at, last, ended FROM run \
             JOIN shown ON shown.run = run.id JOIN artifact ON artifact.attempt = shown.attempt \
             WHERE run.ulid = ? AND kind = 'snapshot' ORDER BY artifact.step, rank, last",
        )
        .bind(run.as_str())
        .fetch_all(&self.reader)
        .await?;
        let model = |(path, rank, model, step, samples, at, last, ended): (
            String,
            u32,
            String,
            i64,
            i64,
            i64,
            bool,
            bool,
        )| {
            let (step, samples, at) = (uint(step), uint(samples), Nanos(uint(at)));
            KeptModel { path: directory.join(path), rank: Rank(rank), model, step, samples, at, last, ended }
        };
        Ok(rows.into_iter().map(model).collect())
    }
}

/// The sample ids in the event log of an attempt's `directory`; empty where the recipe did not ask for them.
/// They take four bytes each while they are held.
///
/// # Errors
/// [`StoreError::EventLog`] where there is no log, or it is damaged.
pub fn recorded_samples(directory: &Path) -> Result<Samples, StoreError> {
    let mut samples = Samples::new();
    for event in EventLog::events(directory)? {
        if let Event::Samples(told) = event? {
            samples.insert((told.step, told.rank), told.samples);
        }
    }
    Ok(samples)
}
