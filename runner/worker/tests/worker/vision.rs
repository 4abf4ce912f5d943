//! Local response norm, groups of channels, and pools that round up: the definitions against numbers of PyTorch, and the worker
//! against the definitions.

use crate::gradients::{batch, close, gradient};
use crate::plain;
use crate::residual::{differences, uneven};
use crate::support::{GREY, avg_pool, conv, drawn, linear, named, place};
use recipe::{Layer, ModelKind, Shape};
use strategies::Learner;
use worker::model::TorchLearner;

const RESPONSE: Layer = Layer::LocalResponseNorm { size: 3, alpha: 0.5, beta: 0.75, k: 2.0 };
const GROUPED: Layer = Layer::Conv { outputs: 6, kernel: 3, stride: 1, padding: 1, bias: true, groups: 2 };
const LARGEST: Layer = Layer::MaxPool { kernel: 2, stride: 2, padding: 0, ceil: true };
const MEAN: Layer = Layer::AvgPool { kernel: 3, stride: 2, padding: 1, ceil: true };

/// A small model with all of them, on images of 7 x 7 behind its first pool.
pub(crate) fn layers() -> Vec<Layer> {
    vec![
        avg_pool(4, 4),
        conv(4, 3, 1, 1),
        RESPONSE,
        GROUPED,
        Layer::Relu,
        LARGEST,
        MEAN,
        Layer::Flatten,
        linear(10),
    ]
}

/// An inception module in small: convolutions of 1 and 3, a pool, and the input itself.
pub(crate) fn inception() -> Vec<Layer> {
    let branches = vec![
        vec![conv(2, 1, 1, 0), Layer::Relu],
        vec![conv(2, 1, 1, 0), Layer::Relu, conv(3, 3, 1, 1), Layer::Relu],
        vec![Layer::MaxPool { kernel: 3, stride: 1, padding: 1, ceil: false }, conv(2, 1, 1, 0)],
        vec![],
    ];
    vec![
        avg_pool(4, 4),
        conv(3, 3, 1, 1),
        Layer::Branches { branches },
        Layer::Relu,
        Layer::GlobalAvgPool,
        linear(10),
    ]
}

fn ramp(count: usize, step: usize) -> impl Iterator<Item = f64> {
    (0..count).map(move |place| ((place * step + 11) % 101) as f64 / 101.0 - 0.5)
}

/// `local_response_norm`, `conv2d` with `groups = 2`, `max_pool2d` and `avg_pool2d` with `ceil_mode = True` of PyTorch 2.11 in 64
/// bits, one behind the other, on the same ramps: channels 0 and 4 of the result.
#[test]
fn the_definitions_are_those_of_pytorch() {
    const FIRST: [f64; 9] = [
        0.078_134_031_657_085,
        0.053_433_416_881_711,
        -0.016_903_605_844_125,
        0.067_814_484_484_331,
        0.038_548_945_036_744,
        -0.118_451_947_183_979,
        -0.022_931_100_721_132,
        -0.018_959_574_428_971,
        -0.118_337_503_969_346,
    ];
    const FIFTH: [f64; 9] = [
        0.367_429_551_948_655,
        0.590_290_580_069_187,
        0.280_736_273_944_759,
        0.452_257_538_043_311,
        0.523_130_727_369_420,
        0.055_559_380_275_016,
        0.067_067_803_543_214,
        0.089_205_692_286_421,
        0.011_914_337_223_186,
    ];
    let model = place(ModelKind::Sequential, Shape::Image(4, 7, 7), &[RESPONSE, GROUPED, LARGEST, MEAN]);
    assert_eq!(model.layers[3].output, Shape::Image(6, 3, 3));
    let weights: Vec<f64> = ramp(108, 53).chain(ramp(6, 29)).collect();
    let rows = vec![ramp(4 * 49, 37).map(|value| 4.0 * value).collect()];
    let out = plain::scores(&model, &weights, rows, &mut |_, own| own);
    for (channel, expected) in [(0, FIRST), (4, FIFTH)] {
        for (own, theirs) in out[0][9 * channel..].iter().zip(expected) {
            assert!((own - theirs).abs() < 1e-12, "channel {channel}: {own} and {theirs}");
        }
    }
}

#[test]
fn loss_and_gradient_are_those_of_the_definitions() {
    let data = drawn(20, 1, 0.0);
    let batch = batch([4, 0, 7]);
    for layers in [layers(), inception()] {
        let model = place(ModelKind::Sequential, GREY, &layers);
        let mut learner = TorchLearner::new(model.clone(), data.clone(), 3).unwrap();
        let weights = uneven(&learner);
        let (_, own) = gradient(&mut learner, &weights, &batch);
        close(&own, &differences(&model, &data, &weights, &batch), 1e-4, "differences");
    }
}

/// Of p workers' batches the mean gradient is that of all samples together: nothing here looks across a batch.
#[test]
fn halves_of_a_batch_have_the_gradient_of_the_whole() {
    for model in [place(ModelKind::Sequential, GREY, &layers()), named(ModelKind::Cifar100Cnn)] {
        let mut learner = TorchLearner::new(model, drawn(20, 1, 0.0), 3).unwrap();
        let weights = learner.initial();
        let mut of = |examples: std::ops::Range<u32>| gradient(&mut learner, &weights, &batch(examples)).1;
        let whole = of(0..8);
        let first = of(0..4);
        let second = of(4..8);
        let mean: Vec<f32> = first.iter().zip(second.iter()).map(|(a, b)| f32::midpoint(*a, *b)).collect();
        close(&mean, &whole, 1e-5, "halves");
    }
}

/// A block is one layer of the layout, with the tensors of its rows one behind the other.
#[test]
fn branches_are_one_layer_with_named_tensors() {
    let model = place(ModelKind::Sequential, GREY, &inception());
    let layers = model.weighted_layers();
    let names: Vec<&str> = layers[1].parameters.iter().map(|tensor| tensor.name.as_str()).collect();
    assert_eq!(layers[1].name, "branches1");
    assert_eq!(
        names[..3],
        ["branches1.1.conv1.weight", "branches1.1.conv1.bias", "branches1.2.conv1.weight"]
    );
    assert_eq!(names.last(), Some(&"branches1.3.conv1.bias"));
    assert_eq!(model.layers[2].output, Shape::Image(2 + 3 + 2 + 3, 7, 7));
}

/// Each group of outputs sees its own channels, so that it has as many inputs as a group has.
#[test]
fn weights_of_groups_are_drawn_by_the_inputs_of_a_group() {
    let model = place(ModelKind::Sequential, Shape::Image(4, 7, 7), &[GROUPED, Layer::Flatten, linear(10)]);
    let weights = worker::model::initial_weights(&model, 3);
    let largest = weights[..108].iter().fold(0.0_f32, |most, weight| most.max(weight.abs()));
    let bound = 1.0 / 18.0_f32.sqrt();
    assert!(largest <= bound && largest > 0.95 * bound, "{largest} and {bound}");
}
