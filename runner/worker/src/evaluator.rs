//! From a snapshot to its metrics.

use crate::data::{DataSet, Split};
use crate::join;
use crate::mean::{self, Mean};
use crate::model::{self, ModelError, TrainedModel};
use crate::snapshot::{self, SnapshotError};
use recipe::{Metric, Model, ModelPartition};
use record::{FROZEN, MetricRecord, SnapshotGroup, SnapshotRecord, Standing};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use strategies::{StepError, Vector};

/// A snapshot without metrics.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the message of each variant says what its fields are")]
pub enum EvaluationError {
    /// It could not be read.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// A part of the model is missing.
    #[error("the model of step {step} has {parts} parts, and {found} of them are there")]
    Parts {
        found: usize,
        parts: usize,
        /// After which step they were taken.
        step: u64,
    },
    /// libtorch could not compute its scores.
    #[error("snapshot of step {step} cannot be evaluated: {source}")]
    Compute {
        /// After which step it was taken.
        step: u64,
        source: StepError,
    },
}

/// Whether ranks that hold parts of one model take their steps together.
const PARTS_STEP_TOGETHER: bool = true;

/// Evaluates snapshots of one run.
pub struct Evaluator {
    learner: Box<dyn TrainedModel>,
    partition: ModelPartition,
}

impl Evaluator {
    /// An evaluator of `model` on the test and held-out samples of `data`, on a GPU or on the CPU; `seed` is the run's, of
    /// weights that are not trained.
    pub fn new(model: &Model, data: Arc<DataSet>, seed: u64, gpu: Option<u32>) -> Result<Self, ModelError> {
        Ok(Self { learner: model::open(model, data, seed, gpu)?, partition: ModelPartition::whole(model) })
    }

    /// The same for ranks that hold parts of the model.
    #[must_use]
    pub fn of_parts(self, partition: ModelPartition) -> Self {
        Self { partition, ..self }
    }

    /// The metrics of a snapshot, whose file lies in the run's `directory`: accuracy and loss on the test
    /// samples, and on the held-out ones where there are any. They carry the snapshot's time.
    pub fn evaluate(
        &mut self,
        directory: &Path,
        record: &SnapshotRecord,
    ) -> Result<Vec<MetricRecord>, EvaluationError> {
        let weights = snapshot::read(&directory.join(&record.file), self.learner.layout().size())?;
        if record.is_kept() {
            self.keep_frozen(directory)?;
        }
        self.scores(record, &weights)
    }

    /// Metrics of one mark's snapshots together, and the snapshot of their mean where the run ends with it. They are
    /// taken in the order given: that of their ranks. The mean is evaluated where the run is judged by it, under the
    /// name `mean of 4 ranks`; it has the time and the samples of the latest copy. Its step is that of the ranks where
    /// they step `together`, else the number of the mark. Without snapshots there is neither.
    pub fn average(
        &mut self,
        directory: &Path,
        records: &[SnapshotRecord],
        together: bool,
    ) -> Result<(Vec<MetricRecord>, Option<SnapshotRecord>), EvaluationError> {
        let Some(mut record) = merged(records, together) else { return Ok((Vec::new(), None)) };
        let files: Vec<PathBuf> = records.iter().map(|record| directory.join(&record.file)).collect();
        let Mean { model, distance } = mean::of(&files, self.learner.layout().size())?;
        let judged = record.standing == Standing::Judged;
        let mut metrics = if judged { self.scores(&record, &model)? } else { Vec::new() };
        let apart = self.metric(&record, Metric::ConsensusDistance, distance);
        metrics.push(MetricRecord { judged: false, ..apart });
        if record.is_result() {
            record.file = format!("snapshots/mean-step-{}.f32", record.step);
            record.sha256 = model.sha256();
            snapshot::write(&directory.join(&record.file), &model)?;
            self.keep_frozen(directory)?;
        }
        let result = record.is_result().then_some(record);
        Ok((metrics, result))
    }

    /// The metrics of the model that snapshots of one mark are the parts of, and its own snapshot where the run begins or ends
    /// with it. They are taken in the order of their parts.
    pub fn join(
        &mut self,
        directory: &Path,
        records: &[SnapshotRecord],
    ) -> Result<(Vec<MetricRecord>, Option<SnapshotRecord>), EvaluationError> {
        let Some(mut record) = merged(records, PARTS_STEP_TOGETHER) else { return Ok((Vec::new(), None)) };
        if records.len() != self.partition.parts() {
            let parts = self.partition.parts();
            let step = record.step;
            return Err(EvaluationError::Parts { found: records.len(), parts, step });
        }
        "group 0".clone_into(&mut record.model);
        let files: Vec<PathBuf> = records.iter().map(|record| directory.join(&record.file)).collect();
        let model = join::of(&files, &self.partition, self.learner.layout().size())?;
        let metrics = self.scores(&record, &model)?;
        if !record.is_kept() {
            return Ok((metrics, None));
        }
        record.file = format!("snapshots/group-0-step-{}.f32", record.step);
        record.sha256 = model.sha256();
        record.digested = false;
        snapshot::write(&directory.join(&record.file), &model)?;
        self.keep_frozen(directory)?;
        Ok((metrics, Some(record)))
    }

    /// Writes the weights that are not trained beside the snapshots that are kept, once.
    fn keep_frozen(&self, directory: &Path) -> Result<(), SnapshotError> {
        let file = directory.join(FROZEN);
        if file.exists() {
            return Ok(());
        }
        let frozen = self.learner.frozen_weights();
        if frozen.is_empty() { Ok(()) } else { snapshot::write(&file, &frozen) }
    }

    fn scores(
        &mut self,
        record: &SnapshotRecord,
        weights: &Vector,
    ) -> Result<Vec<MetricRecord>, EvaluationError> {
        let failed = |source| EvaluationError::Compute { step: record.step, source };
        let text = self.learner.data().targets() > 1;
        let mut metrics = Vec::with_capacity(6);
        for measures in [Measures::OF_TEST, Measures::OF_VALIDATION] {
            if let Some(found) = self.learner.evaluate(weights, measures.split).map_err(failed)? {
                metrics.push(self.metric(record, measures.accuracy, found.accuracy));
                metrics.push(self.metric(record, measures.loss, found.loss));
                metrics.extend(found.top_5.map(|share| self.metric(record, measures.top_5, share)));
                if text {
                    metrics.push(self.metric(record, measures.perplexity, found.loss.exp()));
                }
            }
        }
        Ok(metrics)
    }

    fn metric(&self, record: &SnapshotRecord, metric: Metric, value: f64) -> MetricRecord {
        MetricRecord {
            metric,
            model: record.model.clone(),
            step: record.step,
            samples: record.samples,
            epoch: record.samples as f64 / self.learner.data().training_ids().len() as f64,
            at: record.at,
            value,
            judged: record.standing == Standing::Judged,
        }
    }
}

/// The metrics of a split.
struct Measures {
    split: Split,
    accuracy: Metric,
    loss: Metric,
    top_5: Metric,
    perplexity: Metric,
}

impl Measures {
    const OF_TEST: Self = Self {
        split: Split::Test,
        accuracy: Metric::TestAccuracy,
        loss: Metric::TestLoss,
        top_5: Metric::TestTop5Accuracy,
        perplexity: Metric::TestPerplexity,
    };
    const OF_VALIDATION: Self = Self {
        split: Split::Validation,
        accuracy: Metric::ValidationAccuracy,
        loss: Metric::ValidationLoss,
        top_5: Metric::ValidationTop5Accuracy,
        perplexity: Metric::ValidationPerplexity,
    };
}

/// The snapshot that the mean of these would be.
fn merged(records: &[SnapshotRecord], together: bool) -> Option<SnapshotRecord> {
    let first = records.first()?;
    let latest = |of: fn(&SnapshotRecord) -> u64| records.iter().map(of).max().unwrap_or_default();
    // A copy may stand for marks that its rank passed on the way to it.
    let mark = records.iter().map(|record| record.mark).min().unwrap_or_default();
    let judged = first.group.is_some_and(|SnapshotGroup { judged, .. }| judged);
    let size = records.len();
    Some(SnapshotRecord {
        rank: first.rank,
        model: format!("mean of {size} rank{}", if size == 1 { "" } else { "s" }),
        step: if together { latest(|record| record.step) } else { mark },
        samples: latest(|record| record.samples),
        at: records.iter().map(|record| record.at).max().unwrap_or_default(),
        file: String::new(),
        last: records.iter().all(|record| record.last),
        mark,
        standing: if judged { Standing::Judged } else { Standing::Member },
        group: None,
        sha256: String::new(),
        digested: true,
    })
}
