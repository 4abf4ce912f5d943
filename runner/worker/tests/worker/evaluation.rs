//! Metrics of snapshots: exact means, whatever the batches.

use crate::support::{GREY, drawn, linear, place, softmax};
use recipe::{Layer, Metric, Model, ModelKind};
use record::{Nanos, Rank, SnapshotGroup, SnapshotRecord, Standing};
use std::path::{Path, PathBuf};
use strategies::{Batch, Learner, Vector};
use worker::data::Split;
use worker::evaluator::{EvaluationError, Evaluator};
use worker::model::{TorchLearner, TrainedModel};
use worker::{mean, snapshot};

fn record(file: &str) -> SnapshotRecord {
    SnapshotRecord {
        rank: Rank(0),
        model: "rank 0".into(),
        step: 12,
        samples: 300,
        at: Nanos(77),
        file: file.into(),
        last: false,
        mark: 1,
        standing: Standing::Judged,
        group: None,
        sha256: String::new(),
        digested: true,
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
    let scores = learner.take_activations().unwrap();
    let mut loss = 0.0;
    let mut right = 0;
    for (row, label) in scores.values.chunks(10).zip(learner.data().labels()) {
        let row: Vec<f64> = row.iter().map(|score| f64::from(*score)).collect();
        let own = row[*label as usize];
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
        let model = place(ModelKind::Sequential, GREY, &layers(rate));
        let mut learner = TorchLearner::new(model, data.clone(), 3).unwrap();
        let weights = learner.initial();
        learner.evaluate(&weights, Split::Test).unwrap()
    };
    assert_eq!(found(0.9), found(0.0));
}

#[test]
fn a_snapshot_gets_its_metrics_with_its_own_time() {
    let folder = tempfile::tempdir().unwrap();
    let model = Model::from(softmax());
    let data = drawn(200, 40, 0.25);
    let mut evaluator = Evaluator::new(&model, data.clone(), 0, None).unwrap();
    let weights = Vector::zeros(model.parameter_count());
    std::fs::create_dir(folder.path().join("snapshots")).unwrap();
    snapshot::write(&folder.path().join("snapshots/a.f32"), &weights).unwrap();
    let metrics = evaluator.evaluate(folder.path(), &record("snapshots/a.f32")).unwrap();
    let kinds: Vec<Metric> = metrics.iter().map(|metric| metric.metric).collect();
    assert_eq!(kinds, Metric::ALL[..4]);
    for metric in &metrics {
        assert_eq!((metric.step, metric.samples, metric.at), (12, 300, Nanos(77)));
        assert!((metric.epoch - 2.0).abs() < 1e-12, "300 samples are twice the 150 that are left");
        if !metric.metric.higher_is_better() {
            assert!((metric.value - 10.0_f64.ln()).abs() < 1e-6, "equal scores: {}", metric.value);
        }
    }
    let mut without = Evaluator::new(&model, drawn(20, 4, 0.0), 0, None).unwrap();
    assert_eq!(without.evaluate(folder.path(), &record("snapshots/a.f32")).unwrap().len(), 2);
}

#[test]
fn a_diverged_model_has_metrics_and_a_broken_file_none() {
    let folder = tempfile::tempdir().unwrap();
    let model = Model::from(softmax());
    let mut evaluator = Evaluator::new(&model, drawn(20, 4, 0.0), 0, None).unwrap();
    snapshot::write(&folder.path().join("nan"), &Vector::from(vec![f32::NAN; model.parameter_count()]))
        .unwrap();
    let metrics = evaluator.evaluate(folder.path(), &record("nan")).unwrap();
    assert!(metrics[1].value.is_nan());
    snapshot::write(&folder.path().join("short"), &Vector::zeros(3)).unwrap();
    let error = evaluator.evaluate(folder.path(), &record("short")).unwrap_err();
    assert!(matches!(error, EvaluationError::Snapshot(_)), "{error}");
}

/// Weights that differ in all digits.
fn uneven(count: usize, seed: u64) -> Vector {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 40) as f32 / 16_777_216.0 - 0.5) * 3.0
    };
    Vector::from((0..count).map(|_| next()).collect::<Vec<f32>>())
}

fn written(folder: &Path, models: &[Vector]) -> Vec<PathBuf> {
    let files: Vec<PathBuf> = (0..models.len()).map(|rank| folder.join(format!("rank-{rank}"))).collect();
    for (file, model) in files.iter().zip(models) {
        snapshot::write(file, model).unwrap();
    }
    files
}

/// From the bytes of the files alone.
fn plain(files: &[PathBuf]) -> (Vec<u32>, f64) {
    let models: Vec<Vec<f64>> = files
        .iter()
        .map(|file| std::fs::read(file).unwrap())
        .map(|bytes| {
            bytes.chunks(4).map(|four| f64::from(f32::from_le_bytes(four.try_into().unwrap()))).collect()
        })
        .collect();
    let n = models.len() as f64;
    let mean: Vec<f64> =
        (0..models[0].len()).map(|at| models.iter().fold(0.0, |sum, model| sum + model[at]) / n).collect();
    let mut squares = 0.0;
    for model in &models {
        for (weight, middle) in model.iter().zip(&mean) {
            squares += (weight - middle) * (weight - middle);
        }
    }
    (mean.iter().map(|weight| (*weight as f32).to_bits()).collect(), (squares / n).sqrt())
}

#[test]
fn mean_and_distance_are_those_of_plain_sums_bit_for_bit() {
    let folder = tempfile::tempdir().unwrap();
    for n in 1..=5 {
        let models: Vec<Vector> = (0..n).map(|rank| uneven(70_001, 3 + rank)).collect();
        let files = written(folder.path(), &models);
        let found = mean::of(&files, 70_001).unwrap();
        let (mean, distance) = plain(&files);
        assert_eq!(found.model.iter().map(|weight| weight.to_bits()).collect::<Vec<_>>(), mean, "{n} ranks");
        assert_eq!(found.distance.to_bits(), distance.to_bits(), "{n} ranks");
        assert_eq!(found.distance > 0.0, n > 1);
    }
    // By hand: two models at -1 and 1 in four weights are each 2 away from their mean.
    let files = written(folder.path(), &[-1.0, 1.0].map(|weight| Vector::from(vec![weight; 4])));
    assert_eq!(mean::of(&files, 4).unwrap().distance.to_bits(), 2.0_f64.to_bits());
}

#[test]
fn equal_models_are_exactly_together() {
    let folder = tempfile::tempdir().unwrap();
    for n in [2, 3, 7] {
        let files = written(folder.path(), &vec![uneven(999, 8); n]);
        let found = mean::of(&files, 999).unwrap();
        assert_eq!(found.distance.to_bits(), 0, "{n} ranks");
        assert_eq!(found.model, uneven(999, 8));
    }
}

#[test]
fn a_model_of_another_size_is_found_before_anything_is_summed() {
    let folder = tempfile::tempdir().unwrap();
    let files = written(folder.path(), &[Vector::zeros(4), Vector::zeros(5)]);
    let error = mean::of(&files, 4).unwrap_err();
    assert!(error.to_string().ends_with("rank-1 has 20 bytes; 4 weights take 16"), "{error}");
    assert!(
        mean::of(&files[..1], usize::MAX / 16).is_err(),
        "nothing is allocated for weights that are not there"
    );
}

#[test]
fn a_mean_is_evaluated_where_the_run_is_judged_by_it_and_kept_where_it_ends_with_it() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("snapshots")).unwrap();
    let model = Model::from(softmax());
    let models = [
        uneven(model.parameter_count(), 1),
        uneven(model.parameter_count(), 2),
        uneven(model.parameter_count(), 3),
    ];
    let files = written(folder.path(), &models);
    let mut evaluator = Evaluator::new(&model, drawn(200, 40, 0.0), 0, None).unwrap();
    let copies = |judged, last| -> Vec<SnapshotRecord> {
        let copy = |rank: u32| SnapshotRecord {
            rank: Rank(rank),
            step: 12 + u64::from(rank),
            samples: 300 + u64::from(rank),
            at: Nanos(77 - u64::from(rank)),
            last,
            mark: 5,
            standing: Standing::Member,
            group: Some(SnapshotGroup { size: 4, judged }),
            ..record(&format!("rank-{rank}"))
        };
        (0..3).map(copy).collect()
    };
    let mut of =
        |judged, last, together| evaluator.average(folder.path(), &copies(judged, last), together).unwrap();
    let (metrics, result) = of(false, true, true);
    assert_eq!((metrics.len(), result), (1, None));
    assert_eq!((metrics[0].metric, metrics[0].judged), (Metric::ConsensusDistance, false));
    assert_eq!(metrics[0].value.to_bits(), plain(&files).1.to_bits());
    let (metrics, result) = of(true, false, false);
    assert_eq!(result, None);
    let told: Vec<_> = metrics.iter().map(|metric| (metric.metric, metric.judged)).collect();
    let expected =
        [(Metric::TestAccuracy, true), (Metric::TestLoss, true), (Metric::ConsensusDistance, false)];
    assert_eq!(told, expected);
    for metric in &metrics {
        let place = (metric.model.as_str(), metric.step, metric.samples, metric.at);
        assert_eq!(place, ("mean of 3 ranks", 5, 302, Nanos(77)), "three of four: one was lost");
    }
    let (again, result) = of(true, true, true);
    let result = result.unwrap();
    assert!(result.is_result() && again[0].step == 14);
    let kept = snapshot::read(&folder.path().join(&result.file), model.parameter_count()).unwrap();
    assert_eq!(kept.sha256(), result.sha256);
    assert_eq!(kept.iter().map(|weight| weight.to_bits()).collect::<Vec<_>>(), plain(&files).0);
    let alone = evaluator.evaluate(folder.path(), &result).unwrap();
    assert_eq!((alone[0].value, alone[1].value), (again[0].value, again[1].value));
}
