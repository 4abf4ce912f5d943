//! From a snapshot to its metrics.

use crate::data::{DataSet, Split};
use crate::model::{ModelError, TorchLearner};
use crate::snapshot::{self, SnapshotError};
use recipe::{Metric, Model};
use record::{MetricRecord, SnapshotRecord};
use std::path::Path;
use std::sync::Arc;
use strategies::{Learner, StepError};

/// A snapshot without metrics.
#[derive(Debug, thiserror::Error)]
pub enum EvaluationError {
    /// It could not be read.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// libtorch could not compute its scores.
    #[error("snapshot of step {step} cannot be evaluated: {source}")]
    Compute {
        /// After which step it was taken.
        step: u64,
        /// What went wrong.
        source: StepError,
    },
}

/// Evaluates snapshots of one run.
pub struct Evaluator {
    learner: TorchLearner,
}

impl Evaluator {
    /// An evaluator of `model` on the test and held-out samples of `data`.
    pub fn new(model: Model, data: Arc<DataSet>) -> Result<Self, ModelError> {
        // Neither initial weights nor dropout play a role here, so any seed does.
        Ok(Self { learner: TorchLearner::new(model, data, 0)? })
    }

    /// The metrics of a snapshot, whose file lies in the run's `directory`: accuracy and loss on the test
    /// samples, and on the held-out ones where there are any. They carry the snapshot's time.
    pub fn evaluate(
        &self,
        directory: &Path,
        record: &SnapshotRecord,
    ) -> Result<Vec<MetricRecord>, EvaluationError> {
        let weights = snapshot::read(&directory.join(&record.file), self.learner.layout().size())?;
        let failed = |source| EvaluationError::Compute { step: record.step, source };
        let mut metrics = Vec::with_capacity(4);
        for (split, accuracy, loss) in [
            (Split::Test, Metric::TestAccuracy, Metric::TestLoss),
            (Split::Validation, Metric::ValidationAccuracy, Metric::ValidationLoss),
        ] {
            if let Some(found) = self.learner.evaluate(&weights, split).map_err(failed)? {
                metrics.push(self.metric(record, accuracy, found.accuracy));
                metrics.push(self.metric(record, loss, found.loss));
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
        }
    }
}
