//! Initial weights, the cursor, and layers cut into slices.

use crate::support::{GREY, drawn, lenet, linear, mnist_mlp, place, softmax};
use recipe::{Init, Layer, LayeredModel, Model, ModelKind, Parameter};
use strategies::{Batch, Block, Learner, StepError, Vector};
use worker::model::{ModelError, TorchLearner, initial_weights, layout};

fn learner(model: LayeredModel) -> TorchLearner {
    TorchLearner::new(model, drawn(20, 1, 0.0), 3).unwrap()
}

fn batch() -> Batch {
    Batch { epoch: 0, examples: vec![1, 5, 2] }
}

#[test]
fn a_layer_of_the_layout_is_one_with_weights_and_what_follows() {
    let model = lenet();
    let names: Vec<_> =
        layout(&model.weighted_layers()).layers().iter().map(|layer| layer.name.clone()).collect();
    assert_eq!(names, ["conv1", "conv2", "linear1", "linear2", "linear3"]);
    assert_eq!(layout(&model.weighted_layers()).size(), Model::from(model.clone()).parameter_count());
    assert_eq!(layout(&model.weighted_layers()).layers()[1].span, 156..156 + 2416);
}

#[test]
fn initial_weights_depend_on_the_seed_and_stay_in_their_bounds() {
    let model = mnist_mlp();
    let weights = initial_weights(&model, 1);
    assert_eq!(weights, initial_weights(&model, 1));
    assert_eq!(weights, TorchLearner::new(model.clone(), drawn(20, 1, 0.0), 1).unwrap().initial());
    assert_ne!(weights, initial_weights(&model, 2));
    let mut at = 0;
    for layer in model.layers.iter().filter(|layer| !layer.parameters.is_empty()) {
        let bound = 1.0 / (layer.input.size() as f32).sqrt();
        let size: usize = layer.parameters.iter().map(Parameter::size).sum();
        let own = &weights[at..at + size];
        let largest = own.iter().fold(0.0_f32, |most, weight| most.max(weight.abs()));
        assert!(largest <= bound && largest > 0.99 * bound, "{}: {largest}, bound {bound}", layer.name);
        let mean: f64 = own.iter().map(|weight| f64::from(*weight)).sum::<f64>() / size as f64;
        assert!(mean.abs() < 4.0 * f64::from(bound) / (3.0 * size as f64).sqrt(), "{}: {mean}", layer.name);
        at += size;
    }
}

#[test]
fn initial_weights_stay_what_they_are() {
    // Another digest would mean that results of earlier versions cannot be repeated.
    assert_eq!(
        initial_weights(&softmax(), 1).sha256(),
        "4b63ba442bc0ef9659d397dd3ea5f5549a30dad8ced304b906c73cd3effe3ae9"
    );
}

/// The same draws, stretched: of Caffe's `xavier` by sqrt(3), of Kaiming's by sqrt(6); and no biases.
#[test]
fn ways_to_draw_initial_weights_differ_by_their_bounds() {
    let pytorch = initial_weights(&lenet(), 3);
    for (init, factor) in [(Init::Xavier, 3.0_f64.sqrt()), (Init::Kaiming, 6.0_f64.sqrt())] {
        let model = LayeredModel { init, ..lenet() };
        let weights = initial_weights(&model, 3);
        assert_eq!(weights, initial_weights(&model, 3));
        assert_ne!(weights, initial_weights(&model, 4));
        let mut at = 0;
        for parameter in model.layers.iter().flat_map(|layer| &layer.parameters) {
            let own = at..at + parameter.size();
            if parameter.shape.len() == 1 {
                assert!(weights[own.clone()].iter().all(|bias| bias.to_bits() == 0), "{}", parameter.name);
            }
            for (weight, drawn) in
                weights[own.clone()].iter().zip(&pytorch[own.clone()]).filter(|_| parameter.shape.len() > 1)
            {
                let expected = f64::from(*drawn) * factor;
                assert!((f64::from(*weight) - expected).abs() <= 1e-6 * expected.abs(), "{}", parameter.name);
            }
            at = own.end;
        }
        // The variance of a weight is that of the uniform distribution: 1 / n and 2 / n.
        let (inputs, span) = widest(&model);
        let square: f64 = weights[span.clone()].iter().map(|weight| f64::from(*weight).powi(2)).sum();
        let variance = square / span.len() as f64 * inputs as f64;
        assert!((variance / (factor * factor / 3.0) - 1.0).abs() < 0.02, "{init:?}: {variance}");
    }
}

/// Inputs and place of the largest matrix of a model.
fn widest(model: &LayeredModel) -> (usize, std::ops::Range<usize>) {
    let mut at = 0;
    let places = model.layers.iter().flat_map(|layer| &layer.parameters).map(|parameter| {
        let place = at..at + parameter.size();
        at = place.end;
        (parameter.shape.iter().skip(1).product(), place)
    });
    places.max_by_key(|(_, place)| place.len()).unwrap()
}

#[test]
fn the_cursor_can_leave_and_return() {
    let mut learner = learner(mnist_mlp());
    let weights = learner.initial();
    let run = |learner: &mut TorchLearner, detour: bool| {
        learner.load(&batch()).unwrap();
        let mut gradient = Vector::zeros(weights.len());
        let layout = learner.layout().clone();
        for layer in 0..3 {
            learner.forward(&weights, layer).unwrap();
            if detour {
                let block = learner.take_activations().unwrap();
                assert_eq!(
                    (block.width, block.values.len()),
                    ([500, 500, 10][layer], 3 * [500, 500, 10][layer])
                );
                learner.put_activations(block).unwrap();
            }
        }
        learner.loss(&batch()).unwrap();
        for layer in (0..3).rev() {
            if detour {
                let block = learner.take_activations().unwrap();
                learner.put_activations(block).unwrap();
            }
            let span = layout.layers()[layer].span.clone();
            learner.backward(&weights, layer, &mut gradient[span]).unwrap();
        }
        gradient.sha256()
    };
    assert_eq!(run(&mut learner, true), run(&mut learner, false));
}

#[test]
fn slices_are_slices_of_the_whole_layer() {
    let layers = [linear(7), Layer::Relu, Layer::Dropout { rate: 0.4 }, linear(10)];
    let model = place(ModelKind::Sequential, GREY, &layers);
    let mut whole = learner(model.clone());
    let weights = whole.initial();
    whole.load(&batch()).unwrap();
    whole.forward(&weights, 0).unwrap();
    let expected = whole.take_activations().unwrap();
    let mut values = vec![Vec::new(); 3];
    let mut sizes = Vec::new();
    for part in 0..3 {
        let mut slice = learner(model.clone());
        slice.shard_layer(0, part, 3).unwrap();
        let own = slice.initial();
        assert_eq!(own.len(), slice.layout().size());
        slice.load(&batch()).unwrap();
        slice.forward(&own, 0).unwrap();
        let block = slice.take_activations().unwrap();
        for (row, some) in values.iter_mut().zip(block.values.chunks(block.width)) {
            row.extend_from_slice(some);
        }
        sizes.push(block.width);
        // A layer that stays whole has the same weights on every part.
        let last = slice.layout().layers()[1].span.clone();
        assert_eq!(own[last], weights[whole.layout().layers()[1].span.clone()]);
    }
    assert_eq!(sizes, [3, 2, 2]);
    assert_eq!(expected.width, 7);
    for (one, other) in values.concat().iter().zip(&expected.values) {
        assert!((one - other).abs() < 1e-6, "{one} and {other}");
        assert_eq!(*one == 0.0, *other == 0.0);
    }
}

#[test]
fn a_mask_before_a_layer_that_is_cut_is_that_of_whole_rows() {
    let layers = [Layer::Flatten, Layer::Dropout { rate: 0.2 }, linear(6), Layer::Relu, linear(10)];
    let model = place(ModelKind::Sequential, GREY, &layers);
    let mut whole = learner(model.clone());
    let weights = whole.initial();
    whole.load(&batch()).unwrap();
    whole.forward(&weights, 0).unwrap();
    let expected = whole.take_activations().unwrap();
    for part in 0..2 {
        let mut slice = learner(model.clone());
        slice.shard_layer(0, part, 2).unwrap();
        let own = slice.initial();
        slice.load(&batch()).unwrap();
        slice.forward(&own, 0).unwrap();
        let block = slice.take_activations().unwrap();
        let columns = expected.columns(3 * part..3 * part + 3);
        for (one, other) in block.values.iter().zip(&columns.values) {
            assert!((one - other).abs() < 1e-6, "{one} and {other}");
        }
    }
}

#[test]
fn what_cannot_be_cut_says_so() {
    let mut lenet = learner(lenet());
    assert_eq!(
        lenet.shard_layer(0, 0, 2).unwrap_err(),
        StepError::Learner("conv1 cannot be cut: only linear layers can".into())
    );
    assert!(lenet.shard_layer(9, 0, 2).unwrap_err().to_string().contains("there is no layer 9"));
    assert!(lenet.shard_layer(2, 2, 2).is_err());
    lenet.shard_layer(2, 1, 2).unwrap();
    assert!(lenet.shard_layer(2, 1, 2).is_err());
}

#[test]
fn misuse_is_an_error_with_a_reason() {
    let mut learner = learner(mnist_mlp());
    let weights = learner.initial();
    let reason = |result: Result<(), StepError>| result.unwrap_err().to_string();
    assert!(reason(learner.forward(&weights, 0)).contains("a batch is loaded first"));
    learner.load(&batch()).unwrap();
    assert!(reason(learner.forward(&Vector::zeros(3), 0)).contains("3 weights were given"));
    assert!(reason(learner.backward(&weights, 0, &mut [0.0; 3])).contains("its gradient 3"));
    learner.put_activations(Block { width: 5, values: vec![0.0; 10] }).unwrap();
    assert!(reason(learner.forward(&weights, 1)).contains("linear2 takes rows of Flat(500)"));
    assert!(
        reason(learner.put_activations(Block { width: 3, values: vec![0.0; 4] }))
            .contains("no rows of width 3")
    );
    let missing = Batch { epoch: 0, examples: vec![20] };
    assert!(reason(learner.load(&missing)).contains("sample 20 was asked for, but there are only 20"));
}

#[test]
fn models_that_do_not_fit_the_data_are_refused() {
    let new = |model| TorchLearner::new(model, drawn(20, 1, 0.0), 0).err();
    let flat = |layers: &[Layer]| place(ModelKind::Sequential, GREY, layers);
    assert!(matches!(new(flat(&[Layer::Flatten])), Some(ModelError::NoWeights { .. })));
    assert!(matches!(new(flat(&[linear(9)])), Some(ModelError::Classes { model: 9, data: 10, .. })));
    assert!(matches!(new(crate::support::cifar_cnn()), Some(ModelError::Input { .. })));
    assert!(new(flat(&[linear(11)])).is_none());
}
