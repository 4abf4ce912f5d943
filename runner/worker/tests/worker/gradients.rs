//! The hand-written backward pass against libtorch's automatic differentiation and against differences.

use crate::support::{
    COLOUR, GREY, avg_pool, bare_conv, cifar_cnn, coloured, conv, drawn, lenet, linear, max_pool, mnist_mlp,
    place, softmax,
};
use recipe::{Layer, LayeredModel, ModelKind, PlacedLayer};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use strategies::{Batch, Learner, Vector};
use tch::{Kind, Reduction, Tensor};
use worker::data::DataSet;
use worker::model::TorchLearner;

pub(crate) fn batch(examples: impl IntoIterator<Item = u32>) -> Batch {
    Batch { epoch: 1, examples: examples.into_iter().collect() }
}

/// Loss and gradient of a batch, layer by layer as a strategy does it.
pub(crate) fn gradient(learner: &mut TorchLearner, weights: &Vector, batch: &Batch) -> (f32, Vector) {
    // A NaN shows where the backward pass leaves the old value.
    let mut gradient = Vector::from(vec![f32::NAN; weights.len()]);
    let loss = gradient_into(learner, weights, batch, &mut gradient);
    (loss, gradient)
}

fn gradient_into(learner: &mut TorchLearner, weights: &Vector, batch: &Batch, gradient: &mut Vector) -> f32 {
    let layout = learner.layout().clone();
    learner.load(batch).unwrap();
    for layer in 0..layout.layers().len() {
        learner.forward(weights, layer).unwrap();
    }
    let loss = learner.loss(batch).unwrap().0;
    for (layer, described) in layout.layers().iter().enumerate().rev() {
        learner.backward(weights, layer, &mut gradient[described.span.clone()]).unwrap();
    }
    loss
}

/// The same by libtorch's automatic differentiation; `factors` are the masks of dropout layers by name.
fn reference(
    model: &LayeredModel,
    data: &DataSet,
    weights: &Vector,
    batch: &Batch,
    factors: &BTreeMap<String, Tensor>,
) -> (f32, Vector) {
    let mut at = 0;
    let mut leaves = Vec::new();
    let mut x = data.batch(batch, 0).unwrap();
    for placed in &model.layers {
        let mut own = Vec::new();
        for parameter in &placed.parameters {
            let shape: Vec<i64> = parameter.shape.iter().map(|side| *side as i64).collect();
            let values = &weights[at..at + parameter.size()];
            own.push(Tensor::from_slice(values).reshape(shape).set_requires_grad(true));
            at += parameter.size();
        }
        x = match &placed.layer {
            Layer::Dropout { .. } => &x * &factors[&placed.name],
            _ => result(placed, &own, &x),
        };
        leaves.extend(own);
    }
    let labels = Tensor::from_slice(&data.labels_of(batch).unwrap());
    let loss = x.cross_entropy_loss::<Tensor>(&labels, None, Reduction::Mean, -100, 0.0);
    let mut gradient = Vec::new();
    for of_leaf in Tensor::run_backward(&[&loss], &leaves, false, false) {
        let mut values = vec![0.0; of_leaf.numel()];
        of_leaf.contiguous().copy_data(&mut values, of_leaf.numel());
        gradient.extend(values);
    }
    (loss.double_value(&[]) as f32, Vector::from(gradient))
}

/// A convolution along the positions of a text: the sum of a linear map for each position of the kernel.
fn along(placed: &PlacedLayer, own: &[Tensor], x: &Tensor) -> Tensor {
    let Layer::TextConv { kernel, stride, padding, .. } = placed.layer else { panic!("a convolution") };
    let kernel = kernel as i64;
    let stride = stride as i64;
    let padding = padding as i64;
    let padded = x.constant_pad_nd([0, 0, padding, padding]);
    let last = padded.size()[1] - kernel;
    let part = |shift: i64| {
        let shifted = padded.slice(1, shift, last + shift + 1, stride);
        shifted.matmul(&own[0].select(2, shift).transpose(0, 1))
    };
    (0..kernel).fold(own[1].shallow_clone(), |sum, shift| sum + part(shift))
}

/// A layer on operands that libtorch may differentiate by.
pub(crate) fn result(placed: &PlacedLayer, own: &[Tensor], x: &Tensor) -> Tensor {
    let pair = |side: usize| [side as i64; 2];
    match &placed.layer {
        Layer::Linear { .. } => x.flatten(1, -1).linear(&own[0], Some(&own[1])),
        Layer::Conv { stride, padding, groups, .. } => {
            x.conv2d(&own[0], own.get(1), pair(*stride), pair(*padding), [1, 1], *groups as i64)
        }
        Layer::MaxPool { kernel, stride, padding, ceil } => {
            x.max_pool2d(pair(*kernel), pair(*stride), pair(*padding), [1, 1], *ceil)
        }
        Layer::AvgPool { kernel, stride, padding, ceil } => {
            x.avg_pool2d(pair(*kernel), pair(*stride), pair(*padding), *ceil, true, None)
        }
        Layer::GlobalAvgPool => x.adaptive_avg_pool2d([1, 1]).flatten(1, -1),
        Layer::GlobalMaxPool if x.dim() == 4 => x.adaptive_max_pool2d([1, 1]).0.flatten(1, -1),
        Layer::GlobalMaxPool => x.max_dim(1, false).0,
        Layer::TextConv { .. } => along(placed, own, x),
        // As PyTorch's own function does it: the channels are an axis that a pool of means slides over.
        Layer::LocalResponseNorm { size, alpha, beta, k } => {
            let size = *size as i64;
            let volume = x.square().unsqueeze(1).constant_pad_nd([0, 0, 0, 0, size / 2, (size - 1) / 2]);
            let means =
                volume.avg_pool3d([size, 1, 1], [1, 1, 1], [0, 0, 0], false, true, None).squeeze_dim(1);
            x / (means * f64::from(*alpha) + f64::from(*k)).pow_tensor_scalar(f64::from(*beta))
        }
        // By the formula, in operations that libtorch differentiates one by one.
        Layer::BatchNorm => {
            let over = if x.dim() == 4 { vec![0, 2, 3] } else { vec![0] };
            let channels = if x.dim() == 4 { vec![1, -1, 1, 1] } else { vec![1, -1] };
            let centred = x - x.mean_dim(&over[..], true, Kind::Float);
            let variance = centred.square().mean_dim(&over[..], true, Kind::Float);
            centred / (variance + 1e-5).sqrt() * own[0].view(&channels[..]) + own[1].view(&channels[..])
        }
        Layer::Residual { .. } => {
            let mut own = own;
            let mut row = |layers: &[PlacedLayer]| {
                layers.iter().fold(x.shallow_clone(), |x, inner| {
                    let (first, rest) = own.split_at(inner.parameters.len());
                    own = rest;
                    result(inner, first, &x)
                })
            };
            row(&placed.paths.branch) + row(&placed.paths.shortcut)
        }
        Layer::LayerNorm
        | Layer::Attention { .. }
        | Layer::Gelu
        | Layer::Block { .. }
        | Layer::Frozen { .. }
        | Layer::AuxiliaryHead { .. }
        | Layer::Embedding { .. }
        | Layer::TiedHead => crate::texts::result(placed, own, x),
        Layer::Branches { .. } => {
            let mut own = own;
            let ends: Vec<Tensor> = placed
                .paths
                .rows
                .iter()
                .map(|layers| {
                    layers.iter().fold(x.shallow_clone(), |x, inner| {
                        let (first, rest) = own.split_at(inner.parameters.len());
                        own = rest;
                        result(inner, first, &x)
                    })
                })
                .collect();
            Tensor::cat(&ends, 1)
        }
        Layer::Relu => x.relu(),
        Layer::Flatten => x.flatten(1, -1),
        Layer::Dropout { .. } => unreachable!("its masks are given"),
    }
}

/// Asserts that two vectors differ by at most `tolerance` of the larger one's largest element.
pub(crate) fn close(one: &[f32], other: &[f32], tolerance: f32, what: &str) {
    assert_eq!(one.len(), other.len());
    let largest = other.iter().fold(0.0_f32, |most, value| most.max(value.abs()));
    assert!(largest > 0.0, "{what}: nothing to compare");
    for (place, (a, b)) in one.iter().zip(other).enumerate() {
        assert!(
            (a - b).abs() <= tolerance * largest,
            "{what}, element {place}: {a} and {b}, largest {largest}"
        );
    }
}

fn compare(model: LayeredModel, data: Arc<DataSet>) {
    let what =
        format!("{} {:?}", model.kind, model.layers.iter().map(|layer| &layer.name).collect::<Vec<_>>());
    let mut learner = TorchLearner::new(model.clone(), data.clone(), 3).unwrap();
    let weights = learner.initial();
    for batch in [batch([4, 0, 7, 9, 9, 13]), batch([2])] {
        let (loss, own) = gradient(&mut learner, &weights, &batch);
        let (expected, theirs) = reference(&model, &data, &weights, &batch, &BTreeMap::new());
        assert!((loss - expected).abs() <= 1e-6 * expected, "{what}: loss {loss} and {expected}");
        close(&own, &theirs, 1e-6, &what);
    }
}

#[test]
fn each_kind_of_layer_equals_automatic_differentiation() {
    let data = drawn(20, 1, 0.0);
    for layers in [
        vec![linear(10)],
        vec![Layer::Flatten, linear(7), linear(10)],
        vec![Layer::Flatten, Layer::Relu, linear(7), Layer::Relu, Layer::Relu, linear(10)],
        vec![avg_pool(3, 2), max_pool(2, 1), Layer::Flatten, linear(10)],
        vec![conv(4, 3, 2, 1), conv(3, 5, 1, 0), Layer::Flatten, linear(10)],
        vec![conv(4, 3, 1, 1), max_pool(3, 2), conv(3, 2, 1, 1), avg_pool(3, 2), linear(10)],
        vec![conv(2, 7, 3, 2), avg_pool(2, 1), max_pool(2, 2), Layer::Relu, Layer::Flatten, linear(10)],
        vec![conv(10, 28, 1, 0), Layer::Flatten],
        vec![
            bare_conv(3, 2),
            Layer::MaxPool { kernel: 3, stride: 2, padding: 1, ceil: false },
            Layer::GlobalAvgPool,
            linear(10),
        ],
        vec![conv(4, 3, 2, 1), Layer::GlobalMaxPool, linear(10)],
        vec![bare_conv(3, 2), Layer::BatchNorm, Layer::Relu, Layer::Flatten, linear(10)],
        crate::vision::layers(),
        crate::vision::inception(),
        // The first layer is a block, and one without weights lies between.
        vec![plain_block(), Layer::Residual { branch: vec![Layer::Relu], shortcut: vec![] }, linear(10)],
    ] {
        compare(place(ModelKind::Sequential, GREY, &layers), data.clone());
    }
}

/// oneDNN's gradient of such weights overruns its own memory if channels are last and fewer than a register holds: wrong numbers,
/// or no end (its issue 6035).
#[test]
fn strided_convolutions_of_one_pixel_equal_automatic_differentiation() {
    let data = coloured(64, 1);
    for channels in [1, 3, 4, 7, 8, 12, 20] {
        let layers = [conv(channels, 3, 1, 1), conv(16, 1, 2, 0), Layer::GlobalAvgPool, linear(10)];
        let model = place(ModelKind::Sequential, COLOUR, &layers);
        let mut learner = TorchLearner::new(model.clone(), data.clone(), 3).unwrap();
        let weights = learner.initial();
        for _ in 0..10 {
            let batch = batch(0..64);
            let (_, own) = gradient(&mut learner, &weights, &batch);
            let (_, theirs) = reference(&model, &data, &weights, &batch, &BTreeMap::new());
            close(&own, &theirs, 1e-5, &format!("{channels} channels"));
        }
    }
}

/// Without batch norm: a convolution on both ways, sides halved.
fn plain_block() -> Layer {
    let branch = vec![conv(4, 3, 2, 1), Layer::Relu, bare_conv(4, 1), Layer::Relu];
    Layer::Residual { branch, shortcut: vec![conv(4, 1, 2, 0)] }
}

#[test]
fn whole_models_equal_automatic_differentiation() {
    compare(softmax(), drawn(20, 1, 0.0));
    compare(mnist_mlp(), drawn(20, 1, 0.0));
    compare(lenet(), drawn(20, 1, 0.0));
    compare(cifar_cnn(), coloured(20, 1));
}

fn with_dropout() -> LayeredModel {
    let layers = [
        conv(4, 3, 2, 0),
        Layer::Dropout { rate: 0.3 },
        Layer::Relu,
        Layer::Flatten,
        linear(30),
        Layer::Relu,
        Layer::Dropout { rate: 0.5 },
        linear(10),
    ];
    place(ModelKind::Sequential, GREY, &layers)
}

/// The masks of a batch: with weights 0 and biases 1 nothing but the mask comes out of a layer.
fn masks(learner: &mut TorchLearner, model: &LayeredModel, batch: &Batch) -> BTreeMap<String, Tensor> {
    let mut ones = Vector::zeros(learner.layout().size());
    let mut at = 0;
    for parameter in model.layers.iter().flat_map(|layer| &layer.parameters) {
        ones[at..at + parameter.size()].fill(if parameter.shape.len() == 1 { 1.0 } else { 0.0 });
        at += parameter.size();
    }
    learner.load(batch).unwrap();
    let mut masks = BTreeMap::new();
    for (layer, (name, shape)) in
        [("dropout1", vec![-1, 4, 13, 13]), ("dropout2", vec![-1, 30])].into_iter().enumerate()
    {
        learner.forward(&ones, layer).unwrap();
        let mask = learner.take_activations().unwrap();
        masks.insert(name.to_owned(), Tensor::from_slice(&mask.values).reshape(shape));
        learner.put_activations(mask).unwrap();
    }
    masks
}

#[test]
fn dropout_equals_automatic_differentiation_with_the_same_masks() {
    let model = with_dropout();
    let data = drawn(20, 1, 0.0);
    let mut learner = TorchLearner::new(model.clone(), data.clone(), 3).unwrap();
    let weights = learner.initial();
    let batch = batch([5, 3, 8, 1]);
    let masks = masks(&mut learner, &model, &batch);
    let dropped = masks["dropout1"].eq(0.0).to_kind(Kind::Float).mean(Kind::Float).double_value(&[]);
    assert!((0.25..0.35).contains(&dropped), "{dropped}");
    let (loss, own) = gradient(&mut learner, &weights, &batch);
    let (expected, theirs) = reference(&model, &data, &weights, &batch, &masks);
    assert!((loss - expected).abs() <= 1e-6 * expected);
    close(&own, &theirs, 1e-6, "dropout");
}

#[test]
fn differences_of_the_loss_agree() {
    let layers = [avg_pool(4, 4), conv(2, 2, 1, 0), max_pool(2, 2), linear(4), Layer::Relu, linear(10)];
    let model = place(ModelKind::Sequential, GREY, &layers);
    let mut learner = TorchLearner::new(model, drawn(20, 1, 0.0), 5).unwrap();
    let mut weights = learner.initial();
    let batch = batch(0..8);
    let (_, own) = gradient(&mut learner, &weights, &batch);
    // Moving along the gradient by h changes the loss by h times the square of its length.
    let square: f64 = own.iter().map(|value| f64::from(*value).powi(2)).sum();
    let h = 2e-3;
    let mut losses = [0.0; 2];
    for (loss, sign) in losses.iter_mut().zip([-1.0, 1.0]) {
        let start = weights.clone();
        for (weight, slope) in weights.iter_mut().zip(own.iter()) {
            *weight += sign * h * slope;
        }
        *loss = f64::from(gradient(&mut learner, &weights, &batch).0);
        weights = start;
    }
    let slope = (losses[1] - losses[0]) / (2.0 * f64::from(h));
    assert!((slope - square).abs() < 2e-3 * square, "{slope} and {square}");
}

#[test]
fn parts_of_a_batch_weighted_by_their_samples_give_the_whole() {
    parts_give_the_whole(with_dropout(), 1e-6);
    let block = [plain_block(), Layer::Relu, Layer::GlobalAvgPool, linear(10)];
    parts_give_the_whole(place(ModelKind::Sequential, GREY, &block), 1e-5);
}

fn parts_give_the_whole(model: LayeredModel, tolerance: f32) {
    let mut learner = TorchLearner::new(model, drawn(20, 1, 0.0), 3).unwrap();
    let weights = learner.initial();
    let (whole_loss, whole) = gradient(&mut learner, &weights, &batch(0..8));
    let mut sum = Vector::zeros(whole.len());
    let mut loss = 0.0;
    for (part, share) in [(batch(0..3), 3.0 / 8.0), (batch(3..8), 5.0 / 8.0), (batch([]), 0.0)] {
        let (part_loss, mut part) = gradient(&mut learner, &weights, &part);
        part.scale(share);
        sum.add(&part);
        loss += share * part_loss;
    }
    assert!((loss - whole_loss).abs() < 1e-6 * whole_loss);
    close(&sum, &whole, tolerance, "parts");
}

#[test]
fn the_same_inputs_give_the_same_bits() {
    let data = drawn(20, 1, 0.0);
    let weights = TorchLearner::new(lenet(), data.clone(), 3).unwrap().initial();
    let mut into = Vector::zeros(weights.len());
    let mut digest = |learner: &mut TorchLearner, batch: &Batch| {
        let loss = gradient_into(learner, &weights, batch, &mut into);
        (loss.to_bits(), into.sha256())
    };
    let mut one = TorchLearner::new(lenet(), data.clone(), 3).unwrap();
    let first = digest(&mut one, &batch(0..9));
    assert_ne!(digest(&mut one, &batch(5..12)), first);
    assert_eq!(digest(&mut one, &batch(0..9)), first);
    let mut other = TorchLearner::new(lenet(), data, 3).unwrap();
    assert_eq!(digest(&mut other, &batch(0..9)), first);
}

/// Kernels may choose another order of summation for memory that is aligned otherwise; what the allocator
/// aligns must be enough to keep them from it.
#[test]
fn the_place_in_memory_does_not_matter() {
    let layers = [avg_pool(4, 4), Layer::Flatten, linear(13), Layer::Relu, linear(10)];
    let mut learner =
        TorchLearner::new(place(ModelKind::Sequential, GREY, &layers), drawn(40, 1, 0.0), 3).unwrap();
    let weights = learner.initial();
    let mut places = BTreeSet::new();
    let mut digests = BTreeSet::new();
    let mut kept = Vec::new();
    for number in 0..64 {
        // A block of another size each time moves the next vectors about.
        let block = vec![0_u8; 16 * number + 8];
        let here = weights.clone();
        let mut into = Vector::zeros(weights.len());
        places.insert((here.as_ptr().addr() % 64, into.as_ptr().addr() % 64));
        gradient_into(&mut learner, &here, &batch(0..34), &mut into);
        digests.insert(into.sha256());
        kept.push((block, here, into));
    }
    assert!(places.len() > 2, "{places:?}");
    assert_eq!(digests.len(), 1);
}

#[test]
fn an_empty_batch_has_no_loss_and_no_gradient() {
    let block = place(ModelKind::Sequential, GREY, &[plain_block(), Layer::BatchNorm, linear(10)]);
    for model in [softmax(), lenet(), with_dropout(), block] {
        let mut learner = TorchLearner::new(model, drawn(20, 1, 0.0), 3).unwrap();
        let weights = learner.initial();
        let (loss, gradient) = gradient(&mut learner, &weights, &batch([]));
        assert_eq!(loss.to_bits(), 0);
        assert!(gradient.iter().all(|value| value.to_bits() == 0));
    }
}
