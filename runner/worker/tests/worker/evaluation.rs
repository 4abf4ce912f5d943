//! Metrics of snapshots: exact means, whatever the batches.

use crate::support::{GREY, drawn, linear, place, softmax};
use recipe::{Layer, Metric};
use record::{Nanos, Rank, SnapshotRecord};
use strategies::{Batch, Learner, Vector};
use worker::data::Split;
use worker::evaluator::{EvaluationError, Evaluator};
use worker::model::TorchLearner;
use worker::snapshot;

fn record(file: &str) -> SnapshotRecord {
    SnapshotRecord {
        rank: Rank(0),
        model: "rank 0".into(),
        step: 12,
        samples: 300,
        at: Nanos(77),
        file: file.into(),
        last: false,
    }
}

#[test]
fn the_mean_is_over_samples_even_if_the_last_batch_is_short() {
    // 2100 samples: two batches of 1000 and one of 100.
    let data = drawn(2100, 1, 0.0);
    let mut learner = TorchLearner::new(softmax(), data, 3).unwrap();
    let weights = learner.initial();
    let found = learner.evaluate(&weights, Split::Training).unwrap().unwrap();
    let batch = Batch { epoch: 0, examples: (0..2100).collect() };
    learner.load(&batch).unwrap();
    learner.forward(&weights, 0).unwrap();
    let scores = learner.take().unwrap();
    let (mut loss, mut right) = (0.0, 0);
    for (row, label) in scores.values.chunks(10).zip(learner.data().labels()) {
        let row: Vec<f64> = row.iter().map(|score| f64::from(*score)).collect();
        let own = row[usize::from(*label)];
        loss += row.iter().map(|score| (score - own).exp()).sum::<f64>().ln();
        right += usize::from(row.iter().all(|score| *score <= own));
    }
    assert_eq!(found.samples, 2100);
    assert!((found.loss - loss / 2100.0).abs() < 1e-6, "{} and {}", found.loss, loss / 2100.0);
    assert!((found.accuracy - right as f64 / 2100.0).abs() < 1e-12);
}

#[test]
fn dropout_is_off() {
    let data = drawn(20, 50, 0.0);
    let layers = |rate| [Layer::Flatten, linear(20), Layer::Dropout { rate }, linear(10)];
    let found = |rate| {
        let model = place("sequential", GREY, &layers(rate));
        let learner = TorchLearner::new(model, data.clone(), 3).unwrap();
        learner.evaluate(&learner.initial(), Split::Test).unwrap()
    };
    assert_eq!(found(0.9), found(0.0));
}

#[test]
fn a_snapshot_gets_its_metrics_with_its_own_time() {
    let folder = tempfile::tempdir().unwrap();
    let model = softmax();
    let data = drawn(200, 40, 0.25);
    let evaluator = Evaluator::new(model.clone(), data.clone()).unwrap();
    let weights = Vector::zeros(model.parameters());
    std::fs::create_dir(folder.path().join("snapshots")).unwrap();
    snapshot::write(&folder.path().join("snapshots/a.f32"), &weights).unwrap();
    let metrics = evaluator.evaluate(folder.path(), &record("snapshots/a.f32")).unwrap();
    let kinds: Vec<Metric> = metrics.iter().map(|metric| metric.metric).collect();
    assert_eq!(kinds, Metric::ALL);
    for metric in &metrics {
        assert_eq!((metric.step, metric.samples, metric.at), (12, 300, Nanos(77)));
        assert!((metric.epoch - 2.0).abs() < 1e-12, "300 samples are twice the 150 that are left");
        if !metric.metric.higher_is_better() {
            assert!((metric.value - 10.0_f64.ln()).abs() < 1e-6, "equal scores: {}", metric.value);
        }
    }
    let without = Evaluator::new(model, drawn(20, 4, 0.0)).unwrap();
    assert_eq!(without.evaluate(folder.path(), &record("snapshots/a.f32")).unwrap().len(), 2);
}

#[test]
fn a_diverged_model_has_metrics_and_a_broken_file_none() {
    let folder = tempfile::tempdir().unwrap();
    let model = softmax();
    let evaluator = Evaluator::new(model.clone(), drawn(20, 4, 0.0)).unwrap();
    snapshot::write(&folder.path().join("nan"), &Vector::from(vec![f32::NAN; model.parameters()])).unwrap();
    let metrics = evaluator.evaluate(folder.path(), &record("nan")).unwrap();
    assert!(metrics[1].value.is_nan());
    snapshot::write(&folder.path().join("short"), &Vector::zeros(3)).unwrap();
    let error = evaluator.evaluate(folder.path(), &record("short")).unwrap_err();
    assert!(matches!(error, EvaluationError::Snapshot(_)), "{error}");
}
