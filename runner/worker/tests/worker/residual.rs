//! Residual blocks and batch norm against plain Rust in 64 bits, and training with them.

use crate::gradients::{batch, close, gradient};
use crate::plain::{self, Rows};
use crate::support::{GREY, avg_pool, bare_conv, conv, drawn, linear, named, place};
use recipe::{Layer, LayeredModel, ModelKind};
use std::collections::BTreeMap;
use strategies::{Batch, Learner, Vector};
use worker::data::{DataSet, Split};
use worker::model::{TorchLearner, TrainedModel};

/// A small residual network with each of its kinds of layer, on images of 7 x 7.
fn small() -> LayeredModel {
    let projection = Layer::Conv { outputs: 4, kernel: 1, stride: 2, padding: 0, bias: false, groups: 1 };
    let layers = [
        avg_pool(4, 4),
        bare_conv(3, 1),
        Layer::BatchNorm,
        Layer::Relu,
        Layer::MaxPool { kernel: 3, stride: 1, padding: 1, ceil: false },
        Layer::Residual {
            branch: vec![bare_conv(4, 2), Layer::BatchNorm, Layer::Relu, bare_conv(4, 1), Layer::BatchNorm],
            shortcut: vec![projection, Layer::BatchNorm],
        },
        Layer::Relu,
        Layer::Residual { branch: vec![bare_conv(4, 1), Layer::BatchNorm], shortcut: vec![] },
        Layer::Relu,
        Layer::GlobalAvgPool,
        linear(5),
        Layer::BatchNorm,
        Layer::Relu,
        linear(10),
    ];
    place(ModelKind::Sequential, GREY, &layers)
}

/// Weights at which nothing is as simple as at the start: batch norms scale and shift.
pub(crate) fn uneven(learner: &TorchLearner) -> Vector {
    let mut weights = learner.initial();
    for (place, weight) in weights.iter_mut().enumerate() {
        *weight += ((place * 37 + 11) % 101) as f32 / 101.0 * 0.4 - 0.2;
    }
    weights
}

fn rows(data: &DataSet, split: Split, positions: &[u32]) -> Rows {
    let values = data.values(split, positions).unwrap();
    values
        .chunks(values.len() / positions.len())
        .map(|row| row.iter().map(|x| f64::from(*x)).collect())
        .collect()
}

fn wide(weights: &Vector) -> Vec<f64> {
    weights.iter().map(|weight| f64::from(*weight)).collect()
}

/// Central differences of the loss in 64 bits, one weight after another.
pub(crate) fn differences(model: &LayeredModel, data: &DataSet, weights: &Vector, batch: &Batch) -> Vec<f32> {
    let labels = data.labels_of(batch).unwrap();
    let inputs = rows(data, Split::Training, &batch.examples);
    let mut weights = wide(weights);
    let loss = |weights: &[f64]| plain::loss(model, weights, inputs.clone(), &labels);
    let h = 1e-6;
    (0..weights.len())
        .map(|place| {
            let here = weights[place];
            weights[place] = here + h;
            let above = loss(&weights);
            weights[place] = here - h;
            let below = loss(&weights);
            weights[place] = here;
            ((above - below) / (2.0 * h)) as f32
        })
        .collect()
}

#[test]
fn loss_and_gradient_are_those_of_the_definitions() {
    let model = small();
    let data = drawn(20, 1, 0.0);
    let mut learner = TorchLearner::new(model.clone(), data.clone(), 3).unwrap();
    let weights = uneven(&learner);
    let batch = batch([4, 0, 7, 9, 13]);
    let (loss, own) = gradient(&mut learner, &weights, &batch);
    let inputs = rows(&data, Split::Training, &batch.examples);
    let expected = plain::loss(&model, &wide(&weights), inputs, &data.labels_of(&batch).unwrap());
    assert!((f64::from(loss) - expected).abs() <= 1e-5 * expected, "{loss} and {expected}");
    close(&own, &differences(&model, &data, &weights, &batch), 1e-4, "differences");
}

/// A block is one layer of the layout, with the tensors of all its layers.
#[test]
fn a_block_is_one_layer_with_named_tensors() {
    let model = small();
    let layers = model.weighted_layers();
    let names: Vec<&str> = layers.iter().map(|layer| layer.name).collect();
    assert_eq!(
        names,
        ["conv1", "batch-norm1", "residual1", "residual2", "linear1", "batch-norm2", "linear2"]
    );
    let tensors: Vec<&str> = layers[2].parameters.iter().map(|tensor| tensor.name.as_str()).collect();
    assert_eq!(
        tensors,
        [
            "residual1.conv1.weight",
            "residual1.batch-norm1.weight",
            "residual1.batch-norm1.bias",
            "residual1.conv2.weight",
            "residual1.batch-norm2.weight",
            "residual1.batch-norm2.bias",
            "residual1.shortcut.conv1.weight",
            "residual1.shortcut.batch-norm1.weight",
            "residual1.shortcut.batch-norm1.bias",
        ]
    );
    assert_eq!(layers[2].size(), 4 * 27 + 8 + 4 * 36 + 8 + 4 * 3 + 8);
}

#[test]
fn each_layer_of_a_block_draws_by_its_own_inputs_and_batch_norm_begins_as_the_identity() {
    let model = LayeredModel { init: recipe::Init::Kaiming, ..small() };
    let weights = TorchLearner::new(model.clone(), drawn(20, 1, 0.0), 3).unwrap().initial();
    let mut at = 0;
    for parameter in model.layers.iter().flat_map(|layer| &layer.parameters) {
        let own = &weights[at..at + parameter.size()];
        at += parameter.size();
        let same = |value: f32| own.iter().all(|weight| weight.to_bits() == value.to_bits());
        match (parameter.matrix(), parameter.name.ends_with("weight")) {
            (Some(matrix), _) => {
                let bound = (6.0 / matrix.columns as f32).sqrt();
                let largest = own.iter().fold(0.0_f32, |most, weight| most.max(weight.abs()));
                let least = if own.len() > 100 { 0.95 } else { 0.6 };
                assert!(
                    largest <= bound && largest > least * bound,
                    "{}: {largest}, {bound}",
                    parameter.name
                );
            }
            (None, true) => assert!(same(1.0), "{}", parameter.name),
            (None, false) => assert!(same(0.0), "{}", parameter.name),
        }
    }
    // Neither kind of layer in a block has the numbers of another.
    assert_ne!(weights[27..27 + 6], weights[33..33 + 6]);
    let first = |name: &str| {
        let mut at = 0;
        let tensors = model.layers.iter().flat_map(|layer| &layer.parameters);
        for parameter in tensors {
            if parameter.name == name {
                return weights[at];
            }
            at += parameter.size();
        }
        panic!("there is no {name}")
    };
    assert_ne!(first("conv1.weight").to_bits(), first("residual1.conv1.weight").to_bits());
    assert_ne!(first("residual1.conv1.weight").to_bits(), first("residual2.conv1.weight").to_bits());
}

/// One value has itself as its mean and no deviation: its bias comes out, and nothing goes back.
#[test]
fn one_value_per_channel_gives_the_bias() {
    let layers = [Layer::Flatten, linear(6), Layer::BatchNorm, Layer::Relu, linear(10)];
    let model = place(ModelKind::Sequential, GREY, &layers);
    let mut learner = TorchLearner::new(model, drawn(20, 1, 0.0), 3).unwrap();
    let weights = uneven(&learner);
    learner.load(&batch([3])).unwrap();
    learner.forward(&weights, 0).unwrap();
    learner.forward(&weights, 1).unwrap();
    let out = learner.take_activations().unwrap().values;
    let bias = &weights[784 * 6 + 6 + 6..][..6];
    let expected: Vec<f32> = bias.iter().map(|bias| bias.max(0.0)).collect();
    // The kernel multiplies mean and value by 1 / sqrt(epsilon) each before it takes one from the other.
    close(&out, &expected, 1e-3, "biases");
    let (loss, gradient) = gradient(&mut learner, &weights, &batch([3]));
    assert!(loss.is_finite() && gradient.iter().all(|value| value.is_finite()));
    assert!(gradient[..784 * 6 + 6].iter().all(|value| *value == 0.0), "below it nothing is learned");
    assert!(gradient[784 * 6 + 6 + 6..].iter().any(|value| *value != 0.0));
}

/// With batch norm two workers are not one process: each normalises its own part.
#[test]
fn parts_of_a_batch_are_another_batch_for_batch_norm() {
    let mut learner = TorchLearner::new(small(), drawn(20, 1, 0.0), 3).unwrap();
    let weights = uneven(&learner);
    let mut loss = |examples: std::ops::Range<u32>| gradient(&mut learner, &weights, &batch(examples)).0;
    let whole = loss(0..8);
    let halves = f32::midpoint(loss(0..4), loss(4..8));
    assert!((whole - halves).abs() > 1e-3 * whole, "{whole} and {halves}");
}

/// Accuracy and loss on the test samples with the given moments of each batch norm.
fn judged(
    model: &LayeredModel,
    data: &DataSet,
    weights: &Vector,
    moments: &BTreeMap<String, plain::Moments>,
) -> (f64, f64) {
    let positions = data.positions(Split::Test);
    let inputs = rows(data, Split::Test, positions);
    let scores = plain::scores(model, &wide(weights), inputs, &mut |name, _| moments[name].clone());
    let mut right = 0.0;
    let mut loss = 0.0;
    for (row, label) in scores.iter().zip(data.labels_at(Split::Test, positions).unwrap()) {
        let own = row[label as usize];
        right += f64::from(u8::from(row.iter().all(|score| *score <= own)));
        loss += row.iter().map(|score| (score - own).exp()).sum::<f64>().ln();
    }
    (right / scores.len() as f64, loss / scores.len() as f64)
}

/// Up to 256 samples are one batch, so that mean and variance are those of the whole training set.
#[test]
fn evaluation_takes_the_moments_of_training_samples() {
    let model = small();
    let data = drawn(200, 50, 0.2);
    let mut learner = TorchLearner::new(model.clone(), data.clone(), 3).unwrap();
    let weights = uneven(&learner);
    let mut moments = BTreeMap::new();
    assert_eq!(data.training_ids().len(), 160);
    plain::scores(
        &model,
        &wide(&weights),
        rows(&data, Split::Training, data.training_ids()),
        &mut |name, own| {
            moments.insert(name.to_owned(), own.clone());
            own
        },
    );
    assert_eq!(moments.len(), 6, "{:?}", moments.keys());
    let (accuracy, loss) = judged(&model, &data, &weights, &moments);
    let found = learner.evaluate(&weights, Split::Test).unwrap().unwrap();
    assert!((found.accuracy - accuracy).abs() < 1e-12, "{found:?}, {accuracy}");
    assert!((found.loss - loss).abs() < 1e-5 * loss, "{found:?}, {loss}");
    // Of the test samples themselves they would be others.
    let mut others = BTreeMap::new();
    plain::scores(
        &model,
        &wide(&weights),
        rows(&data, Split::Test, data.positions(Split::Test)),
        &mut |name, own| {
            others.insert(name.to_owned(), own.clone());
            own
        },
    );
    let (_, other) = judged(&model, &data, &weights, &others);
    assert!((found.loss - other).abs() > 1e-3 * loss, "{other}");
}

/// More samples are several batches: the first batch norm sees the same values in each, so that its mean is that of all samples,
/// whichever batch they are in, and its variance is within the batches.
#[test]
fn moments_are_means_over_all_samples_of_several_batches() {
    let layers = [avg_pool(4, 4), Layer::BatchNorm, Layer::Flatten, linear(10)];
    let model = place(ModelKind::Sequential, GREY, &layers);
    // 256 samples and one more.
    let data = drawn(257, 50, 0.0);
    let of_seed = |seed| TorchLearner::new(model.clone(), data.clone(), seed).unwrap();
    let weights = uneven(&of_seed(3));
    let found = of_seed(3).evaluate(&weights, Split::Test).unwrap().unwrap();
    assert_eq!(Some(found), of_seed(4).evaluate(&weights, Split::Test).unwrap(), "whatever the run's seed");
    let mut whole = BTreeMap::new();
    plain::scores(
        &model,
        &wide(&weights),
        rows(&data, Split::Training, data.training_ids()),
        &mut |name, own| {
            whole.insert(name.to_owned(), own.clone());
            own
        },
    );
    // One image has 49 of 12,593 values: what its own mean takes from the variance is small.
    let (_, loss) = judged(&model, &data, &weights, &whole);
    assert!((found.loss - loss).abs() < 0.01 * loss, "{found:?}, {loss}");
}

#[test]
fn the_same_inputs_give_the_same_bits() {
    let digest = || {
        let mut learner = TorchLearner::new(small(), drawn(20, 1, 0.0), 3).unwrap();
        let weights = uneven(&learner);
        gradient(&mut learner, &weights, &batch(0..9)).1.sha256()
    };
    assert_eq!(digest(), digest());
}

/// A few steps on one batch.
fn losses(model: LayeredModel, steps: usize, rate: f32) -> Vec<f32> {
    let mut learner = TorchLearner::new(model, drawn(16, 16, 0.0), 1).unwrap();
    let mut weights = learner.initial();
    let step = |_| {
        let (loss, slope) = gradient(&mut learner, &weights, &batch(0..16));
        weights.iter_mut().zip(slope.iter()).for_each(|(weight, slope)| *weight -= rate * slope);
        loss
    };
    (0..steps).map(step).collect()
}

#[test]
fn named_residual_networks_learn() {
    for kind in [ModelKind::Resnet20, ModelKind::Resnet18] {
        let losses = losses(named(kind), 6, 0.05);
        assert!(losses.iter().all(|loss| loss.is_finite()), "{kind}: {losses:?}");
        assert!(losses[5] < 0.6 * losses[0], "{kind}: {losses:?}");
    }
    // Fifty layers that normalise sixteen samples of 1 x 1 take no higher rate, and two steps a while.
    let [first, second] = losses(named(ModelKind::Resnet50), 2, 0.002)[..] else { panic!("two steps") };
    assert!(second < 0.95 * first, "{first} and {second}");
}

#[test]
fn a_convolution_without_a_bias_has_one_tensor() {
    let model = place(ModelKind::Sequential, GREY, &[conv(2, 28, 1, 0), bare_conv(10, 1), Layer::Flatten]);
    let learner = TorchLearner::new(model, drawn(20, 1, 0.0), 3).unwrap();
    let sizes: Vec<usize> = learner.layout().layers().iter().map(|layer| layer.span.len()).collect();
    assert_eq!(sizes, [2 * 784 + 2, 10 * 2 * 9]);
}
