//! Groups of ranks that hold one model together, with the layers of libtorch: convolutions below, dropout among the layers that
//! are split, and the evaluation of the parts.

use crate::support::{GREY, conv, drawn, linear, max_pool, place};
use recipe::{
    AveragedBy, FcUpdate, Layer, LayeredModel, Metric, Model, ModelKind, ModelPartition, ModuloScheme,
    Strategy,
};
use record::{Nanos, Rank, SnapshotGroup, SnapshotRecord, Standing};
use std::path::Path;
use std::sync::Arc;
use strategies::sim::{World, sample_spec_of};
use strategies::{Batch, Blueprint, Learner, SamplePartition, TrainingPlan, Vector};
use worker::evaluator::{EvaluationError, Evaluator};
use worker::model::{TorchLearner, open};
use worker::snapshot;

const SAMPLES: u32 = 200;

fn model() -> LayeredModel {
    let layers = [
        conv(4, 5, 2, 0),
        Layer::Relu,
        max_pool(2, 2),
        Layer::Flatten,
        linear(21),
        Layer::Relu,
        Layer::Dropout { rate: 0.5 },
        linear(14),
        Layer::Dropout { rate: 0.25 },
        linear(10),
    ];
    place(ModelKind::Sequential, GREY, &layers)
}

/// The layers of these tests have no counted operations: any ratio is above this.
fn partition(parts: usize) -> ModelPartition {
    ModelPartition::of(&Model::from(model()), parts, -1.0)
}

/// The models of group 0 after some steps, joined.
fn trained(strategy: Strategy, workers: u32, parts: usize, batch: u32) -> Vector {
    let mut spec = sample_spec_of(strategy, workers);
    spec.model = model().into();
    spec.train.length = recipe::Extent::Steps(5);
    spec.train.global_batch = batch;
    let plan = TrainingPlan::new(&spec, SamplePartition::shared_by(5, (0..SAMPLES).collect()));
    let size = spec.model.parameter_count();
    let blueprint = Blueprint::new(&spec, Arc::new(plan), size).with_partition(partition(parts));
    let data = drawn(SAMPLES, 40, 0.0);
    let learner = |_| Box::new(TorchLearner::new(model(), data.clone(), 3).unwrap()) as Box<dyn Learner>;
    let outcome = World::new(1).run(&blueprint, learner).unwrap();
    let mut whole = Vector::zeros(size);
    for part in 0..parts {
        let mut own = outcome.ranks[part].model().iter();
        for place in partition(parts).spans(part).into_iter().flatten() {
            whole[place] = *own.next().unwrap();
        }
        assert_eq!(own.next(), None);
    }
    whole
}

/// The output that one layer keeps and the input that the next one keeps are one tensor.
#[test]
fn what_forward_passes_keep_is_counted_once() {
    let layers = [Layer::Flatten, linear(21), Layer::Relu, linear(10)];
    let mut learner =
        TorchLearner::new(place(ModelKind::Sequential, GREY, &layers), drawn(SAMPLES, 40, 0.0), 3).unwrap();
    let weights = learner.initial();
    assert_eq!(learner.kept_bytes(), 0);
    learner.load(&Batch { epoch: 0, examples: (0..8).collect() }).unwrap();
    (0..2).for_each(|layer| learner.forward(&weights, layer).unwrap());
    assert_eq!(learner.kept_bytes(), 8 * 4 * (GREY.size() + 21));
}

/// Masks are drawn for examples and outputs, wherever these are computed.
#[test]
fn groups_train_what_one_process_trains_with_the_same_dropout() {
    for batch in [24, 22] {
        let expected = trained(Strategy::DSync, 1, 1, batch);
        let start = TorchLearner::new(model(), drawn(SAMPLES, 40, 0.0), 3).unwrap().initial();
        let furthest = |one: &Vector, other: &Vector| {
            one.iter().zip(other.iter()).map(|(one, other)| (one - other).abs()).fold(0.0, f32::max)
        };
        let moved = furthest(&expected, &start);
        for (workers, parts) in [(2, 2), (4, 2), (4, 4), (3, 3)] {
            for scheme in ModuloScheme::ALL.iter().copied() {
                let mp = parts as u32;
                let fc_update = FcUpdate::PerBatch;
                let strategy = Strategy::Gmp {
                    mp,
                    scheme,
                    fc_update,
                    average_every: None,
                    least_ccr: 0.0,
                    averaged_by: AveragedBy::Workers,
                };
                let own = trained(strategy, workers, parts, batch);
                let apart = furthest(&own, &expected);
                assert!(
                    apart < 1e-5 && moved > 1e-2,
                    "{workers} {parts} {scheme} {batch}: {apart} of {moved}"
                );
            }
        }
    }
}

fn part_of(rank: u32, step: u64, last: bool) -> SnapshotRecord {
    SnapshotRecord {
        rank: Rank(rank),
        model: format!("part {rank}"),
        step,
        samples: 10 * step,
        at: Nanos(7),
        file: format!("rank-{rank}"),
        last,
        mark: step,
        standing: Standing::Member,
        group: Some(SnapshotGroup { size: 3, judged: true }),
        sha256: String::new(),
        digested: true,
    }
}

/// Writes the parts of a model as the ranks of a group do.
fn write_parts(folder: &Path, whole: &Vector, parts: usize) {
    for part in 0..parts {
        let places = partition(parts).spans(part).into_iter().flatten();
        let own: Vec<f32> = places.map(|place| whole[place]).collect();
        snapshot::write(&folder.join(format!("rank-{part}")), &own.into()).unwrap();
    }
}

#[test]
fn parts_are_evaluated_as_the_model_that_they_are_and_kept_as_one_file() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("snapshots")).unwrap();
    let model = Model::from(model());
    let data = drawn(SAMPLES, 40, 0.0);
    let whole = open(&model, data.clone(), 9, None).unwrap().initial();
    write_parts(folder.path(), &whole, 3);
    let mut evaluator = Evaluator::new(&model, data, 0, None).unwrap().of_parts(partition(3));
    let of = |evaluator: &mut Evaluator, step, last| {
        let records: Vec<_> = (0..3).map(|rank| part_of(rank, step, last)).collect();
        evaluator.join(folder.path(), &records).unwrap()
    };
    let (metrics, kept) = of(&mut evaluator, 4, false);
    assert_eq!(kept, None);
    let told: Vec<_> = metrics
        .iter()
        .map(|metric| (metric.metric, metric.judged, metric.step, metric.model.as_str()))
        .collect();
    assert_eq!(told, [(Metric::TestAccuracy, true, 4, "group 0"), (Metric::TestLoss, true, 4, "group 0")]);
    for (step, last) in [(0, false), (9, true)] {
        let (metrics, kept) = of(&mut evaluator, step, last);
        let kept = kept.unwrap();
        assert_eq!((kept.sha256.as_str(), kept.is_kept()), (whole.sha256().as_str(), true));
        assert_eq!(kept.is_result(), last);
        assert_eq!(snapshot::read(&folder.path().join(&kept.file), whole.len()).unwrap(), whole);
        let alone = evaluator.evaluate(folder.path(), &kept).unwrap();
        assert_eq!((alone[0].value, alone[1].value), (metrics[0].value, metrics[1].value));
    }
}

#[test]
fn parts_that_make_no_model_say_so() {
    let folder = tempfile::tempdir().unwrap();
    let model = Model::from(model());
    let mut evaluator = Evaluator::new(&model, drawn(20, 4, 0.0), 0, None).unwrap().of_parts(partition(3));
    write_parts(folder.path(), &Vector::zeros(model.parameter_count()), 3);
    let records: Vec<_> = (0..3).map(|rank| part_of(rank, 4, false)).collect();
    let two = evaluator.join(folder.path(), &records[..2]).unwrap_err();
    assert!(matches!(two, EvaluationError::Parts { found: 2, parts: 3, step: 4 }), "{two}");
    assert_eq!(two.to_string(), "the model of step 4 has 3 parts, and 2 of them are there");
    snapshot::write(&folder.path().join("rank-1"), &Vector::zeros(5)).unwrap();
    let cut = evaluator.join(folder.path(), &records).unwrap_err();
    assert!(cut.to_string().contains("rank-1 has 20 bytes"), "{cut}");
}
