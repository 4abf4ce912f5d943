//! Layers that are not trained, against the same layers when they are.

use crate::gradients::{batch, close, gradient};
use crate::support::{GREY, conv, drawn, linear, max_pool, named, place};
use recipe::{Layer, LayeredModel, ModelKind};
use strategies::{Learner, Vector};
use worker::data::Split;
use worker::model::{TorchLearner, TrainedModel, initial_weights};

/// Layers with weights below the first trained ones, between, and above; dropout and batch norm among them.
fn features() -> [Vec<Layer>; 3] {
    [
        vec![conv(4, 3, 2, 1), Layer::BatchNorm, Layer::Relu],
        vec![conv(6, 3, 1, 1), Layer::Relu, Layer::Dropout { rate: 0.3 }, max_pool(2, 2), Layer::Flatten],
        vec![linear(12), Layer::Relu],
    ]
}

/// The same layers, frozen or as blocks that are trained.
fn model(of: fn(Vec<Layer>) -> Layer) -> LayeredModel {
    let [below, between, above] = features().map(of);
    let layers = [below, conv(5, 3, 1, 1), between, linear(20), Layer::Relu, above, linear(10)];
    place(ModelKind::Sequential, GREY, &layers)
}

fn frozen(layers: Vec<Layer>) -> Layer {
    Layer::Frozen { layers }
}

/// With batch norm, dropout and rectifiers in them, loss and gradient are those of the trained layers' weights where all are trained.
#[test]
fn the_gradient_is_that_of_the_whole_model_without_the_frozen_part() {
    let data = drawn(40, 10, 0.0);
    let own = model(frozen);
    let whole = model(|layers| Layer::Block { layers });
    let mut learner = TorchLearner::new(own.clone(), data.clone(), 3).unwrap();
    let mut all = TorchLearner::new(renamed(&whole), data, 3).unwrap();
    let weights = learner.initial();
    let values = learner.frozen_weights();
    let mut weights_of_all = Vec::new();
    let mut trained = Vec::new();
    let mut at = 0;
    let mut frozen_at = 0;
    for (own, whole) in own.layers.iter().zip(&whole.layers) {
        let size: usize = whole.parameters.iter().map(recipe::Parameter::size).sum();
        if own.parameters.is_empty() {
            weights_of_all.extend_from_slice(&values[frozen_at..frozen_at + size]);
            frozen_at += size;
        } else {
            trained.push(weights_of_all.len()..weights_of_all.len() + size);
            weights_of_all.extend_from_slice(&weights[at..at + size]);
            at += size;
        }
    }
    assert_eq!((at, frozen_at), (weights.len(), values.len()));
    let batch = batch([4, 0, 7, 9, 13]);
    let (loss, gradient_of_trained) = gradient(&mut learner, &weights, &batch);
    let (expected, gradient_of_all) = gradient(&mut all, &Vector::from(weights_of_all), &batch);
    assert_eq!(loss.to_bits(), expected.to_bits());
    let of_trained: Vec<f32> = trained.into_iter().flat_map(|span| gradient_of_all[span].to_vec()).collect();
    close(&gradient_of_trained, &of_trained, 1e-6, "trained layers");
}

/// The dropout layers of blocks have masks of their own names; here those of the frozen layers are wanted.
fn renamed(model: &LayeredModel) -> LayeredModel {
    let text = serde_json::to_string(model).unwrap();
    serde_json::from_str(
        &text
            .replace("\"block1.", "\"frozen1.")
            .replace("\"block2.", "\"frozen2.")
            .replace("\"block3.", "\"frozen3."),
    )
    .unwrap()
}

/// Each rank draws them by itself, from the run's seed.
#[test]
fn frozen_weights_are_drawn_from_the_seed_and_stay_out_of_the_flat_vector() {
    let model = model(frozen);
    let of = |seed| {
        let learner = TorchLearner::new(model.clone(), drawn(20, 1, 0.0), seed).unwrap();
        (learner.initial(), learner.frozen_weights())
    };
    let one = of(3);
    let other = of(4);
    assert_eq!(one, of(3));
    assert_ne!(one.1, other.1);
    assert_eq!(one.0, initial_weights(&model, 3));
    let sizes: usize = model.frozen_tensors().iter().map(|tensor| tensor.size()).sum();
    assert_eq!(one.1.len(), sizes);
    assert_eq!(one.0.len(), model.weighted_layers().iter().map(recipe::WeightedLayer::size).sum::<usize>());
}

/// Evaluations depend on them, and not on the batch size.
#[test]
fn evaluation_uses_the_frozen_weights() {
    let data = drawn(200, 50, 0.0);
    let model = model(frozen);
    let mut learner = TorchLearner::new(model.clone(), data.clone(), 3).unwrap();
    let weights = learner.initial();
    let own = learner.evaluate(&weights, Split::Test).unwrap().unwrap();
    let mut other = TorchLearner::new(model, data, 4).unwrap();
    let theirs = other.evaluate(&weights, Split::Test).unwrap().unwrap();
    assert!(own.loss.is_finite() && (own.loss - theirs.loss).abs() > 1e-4, "{} {}", own.loss, theirs.loss);
}

/// Only the last layer learns, so that the loss is convex: on any segment it lies below its chord.
#[test]
fn the_convex_model_is_convex() {
    let mut learner = TorchLearner::new(named(ModelKind::Cifar100Convex), drawn(40, 1, 0.0), 3).unwrap();
    assert_eq!(learner.layout().layers().len(), 1);
    let batch = batch(0..20);
    let ends: Vec<Vector> = [1, 2]
        .map(|step| {
            (0..learner.layout().size())
                .map(|place| ((place * 37 * step) % 101) as f32 / 50.0 - 1.0)
                .collect::<Vec<_>>()
                .into()
        })
        .into();
    let mut loss = |weights: &Vector| gradient(&mut learner, weights, &batch).0;
    let first = loss(&ends[0]);
    let last = loss(&ends[1]);
    for share in [0.1, 0.3, 0.5, 0.7, 0.9] {
        let between: Vec<f32> =
            ends[0].iter().zip(ends[1].iter()).map(|(a, b)| a + share * (b - a)).collect();
        let here = loss(&between.into());
        let chord = first + share * (last - first);
        assert!(here <= chord + 1e-4 * chord.abs(), "{share}: {here} above {chord}");
    }
}

/// A step of the last layer needs nothing of the layers below but their result.
#[test]
fn nothing_is_kept_of_frozen_layers_below_the_first_weights() {
    let kept = |kind| {
        let mut learner = TorchLearner::new(named(kind), drawn(40, 1, 0.0), 3).unwrap();
        let weights = learner.initial();
        learner.load(&batch(0..8)).unwrap();
        for layer in 0..learner.layout().layers().len() {
            learner.forward(&weights, layer).unwrap();
        }
        learner.kept_bytes()
    };
    assert_eq!(kept(ModelKind::Cifar100Convex), 8 * 64 * 4, "what goes into the last layer");
    assert!(kept(ModelKind::Cifar100Cnn) > 100 * 8 * 64 * 4);
}
