//! Auxiliary heads: a model with them against the models that end at each head, and GoogLeNet.

use crate::gradients::{batch, close, gradient};
use crate::support::{GREY, conv, drawn, linear, max_pool, place};
use recipe::{Layer, LayeredModel, ModelKind};
use std::collections::BTreeMap;
use strategies::{Batch, Learner, Vector};
use worker::data::Split;
use worker::model::{TorchLearner, TrainedModel};

const WEIGHT: f32 = 0.3;

fn head() -> Vec<Layer> {
    vec![
        Layer::AvgPool { kernel: 5, stride: 3, padding: 0, ceil: false },
        conv(3, 1, 1, 0),
        Layer::Relu,
        Layer::Flatten,
        linear(10),
    ]
}

/// A head right below a rectifier, which works in place, and one right above the first layer's pool.
fn with_heads() -> LayeredModel {
    let auxiliary = Layer::AuxiliaryHead { layers: head(), weight: WEIGHT };
    let layers = [
        conv(4, 3, 2, 1),
        Layer::AuxiliaryHead { layers: head(), weight: 0.5 },
        Layer::Relu,
        conv(5, 3, 1, 1),
        auxiliary,
        max_pool(2, 2),
        Layer::Flatten,
        linear(10),
    ];
    place(ModelKind::Sequential, GREY, &layers)
}

/// The layers of `with_heads` up to a place, then some others; each layer's weights are taken by name.
fn of(places: &[usize], then: &[Layer]) -> LayeredModel {
    let model = with_heads();
    let mut layers: Vec<Layer> = places.iter().map(|place| model.layers[*place].layer.clone()).collect();
    layers.extend_from_slice(then);
    place(ModelKind::Sequential, GREY, &layers)
}

/// Loss, and gradient by the names that `rename` gives the tensors of `model`.
fn by_name(
    model: &LayeredModel,
    weights: &BTreeMap<String, Vec<f32>>,
    rename: impl Fn(&str) -> String,
) -> (f32, BTreeMap<String, Vec<f32>>) {
    let mut learner = TorchLearner::new(model.clone(), drawn(40, 1, 0.0), 3).unwrap();
    let tensors: Vec<(String, usize)> = model
        .weighted_layers()
        .iter()
        .flat_map(|layer| layer.parameters)
        .map(|tensor| (rename(&tensor.name), tensor.size()))
        .collect();
    let flat: Vec<f32> = tensors.iter().flat_map(|(name, _)| weights[name].clone()).collect();
    let (loss, gradient) = gradient(&mut learner, &Vector::from(flat), &batch([4, 0, 7, 9, 13]));
    let mut at = 0;
    let mut named = BTreeMap::new();
    for (name, size) in tensors {
        named.insert(name, gradient[at..at + size].to_vec());
        at += size;
    }
    (loss, named)
}

/// The loss is the sum of three, and so is the gradient: that of the model without heads, and of the models that end at each.
#[test]
fn losses_and_gradients_add() {
    let model = with_heads();
    let weights: BTreeMap<String, Vec<f32>> = model
        .weighted_layers()
        .iter()
        .flat_map(|layer| layer.parameters)
        .enumerate()
        .map(|(number, tensor)| {
            let value = |place: usize| ((place * 37 + 11 * number) % 101) as f32 / 101.0 * 0.6 - 0.3;
            (tensor.name.clone(), (0..tensor.size()).map(value).collect())
        })
        .collect();
    let (loss, own) = by_name(&model, &weights, str::to_owned);
    let ends = [
        (of(&[0, 2, 3, 5, 6, 7], &[]), 1.0, String::new()),
        (of(&[0], &head()), 0.5, "auxiliary-head1.".to_owned()),
        (of(&[0, 2, 3], &head()), WEIGHT, "auxiliary-head2.".to_owned()),
    ];
    let mut sum = 0.0;
    let mut expected: BTreeMap<String, Vec<f32>> = BTreeMap::new();
    for (model, factor, prefix) in ends {
        let trunk =
            model.layers.iter().filter(|layer| matches!(layer.layer, Layer::Conv { kernel: 3, .. })).count();
        let rename = |name: &str| {
            let (layer, role) = name.split_once('.').unwrap();
            let number: usize = layer.trim_start_matches(char::is_alphabetic).parse().unwrap();
            let of_head = !prefix.is_empty() && (layer.starts_with("linear") || number > trunk);
            let number = if layer.starts_with("conv") && of_head { number - trunk } else { number };
            let stem = layer.trim_end_matches(char::is_numeric);
            if of_head { format!("{prefix}{stem}{number}.{role}") } else { name.to_owned() }
        };
        let (loss, gradient) = by_name(&model, &weights, rename);
        sum += factor * loss;
        for (name, values) in gradient {
            let all = expected.entry(name).or_insert_with(|| vec![0.0; values.len()]);
            all.iter_mut().zip(values).for_each(|(sum, value)| *sum += factor * value);
        }
    }
    assert!((loss - sum).abs() <= 1e-6 * sum, "{loss} and {sum}");
    assert_eq!(own.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
    for (name, values) in &own {
        close(values, &expected[name], 2e-6, name);
    }
}

/// An evaluation leaves them out: loss and accuracy are those of the model without them.
#[test]
fn an_evaluation_has_no_heads() {
    let data = drawn(40, 30, 0.0);
    let mut with = TorchLearner::new(with_heads(), data.clone(), 3).unwrap();
    let mut without = TorchLearner::new(of(&[0, 2, 3, 5, 6, 7], &[]), data, 3).unwrap();
    let weights = with.initial();
    let trunk = without.initial();
    let own = with.evaluate(&weights, Split::Test).unwrap().unwrap();
    assert_eq!(own, without.evaluate(&trunk, Split::Test).unwrap().unwrap());
}

/// An empty batch adds nothing, to the loss neither.
#[test]
fn a_batch_without_examples_has_no_loss() {
    let mut learner = TorchLearner::new(with_heads(), drawn(40, 1, 0.0), 3).unwrap();
    let weights = learner.initial();
    let (loss, gradient) = gradient(&mut learner, &weights, &Batch { epoch: 1, examples: vec![] });
    assert_eq!(loss.to_bits(), 0.0_f32.to_bits());
    assert!(gradient.iter().all(|value| *value == 0.0));
}
