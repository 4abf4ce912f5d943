//! Models in TorchScript files. Those of this test are made by `tests/scripts/make.py`, that of the example by its `model.py`.

use crate::support::{GREY, conv, drawn, linear, max_pool, place};
use recipe::{FileLayer, Layer, ModelFile, ModelKind, ModelLayout};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use strategies::{Batch, Learner, Vector};
use worker::data::{DataSet, Split};
use worker::model::{ModelError, ScriptLearner, TorchLearner, TrainedModel, describe};

fn own_model() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/own-model/model.pt")
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/scripts/{name}.pt"))
}

fn described(file: PathBuf) -> ModelFile {
    let layout = describe(&file, GREY).unwrap();
    // It travels as text.
    assert_eq!(ModelLayout::read(&layout.text()), Ok(layout.clone()));
    ModelFile { file, layout }
}

fn needs_two_rows(name: &str) -> bool {
    described(script(name)).layout.needs_two_rows
}

fn learner(file: PathBuf, data: &Arc<DataSet>) -> ScriptLearner {
    worker::threads::compute_with(1);
    ScriptLearner::new(described(file), data.clone(), 7).unwrap()
}

fn batch(epoch: u64, examples: std::ops::Range<u32>) -> Batch {
    Batch { epoch, examples: examples.collect() }
}

/// The loss of a batch and its gradient, layer by layer.
fn pass(learner: &mut impl Learner, weights: &Vector, batch: &Batch) -> (f32, Vector) {
    let layout = learner.layout().clone();
    let mut gradient = Vector::zeros(layout.size());
    learner.load(batch).unwrap();
    for layer in 0..layout.layers().len() {
        learner.forward(weights, layer).unwrap();
    }
    let loss = learner.loss(batch).unwrap().0;
    for (layer, described) in layout.layers().iter().enumerate().rev() {
        learner.backward(weights, layer, &mut gradient[described.span.clone()]).unwrap();
    }
    (loss, gradient)
}

#[test]
fn the_layers_of_a_script_are_its_stages_with_the_tensors_that_each_trains() {
    let ModelFile { layout, .. } = described(own_model());
    let layers: Vec<(&str, Vec<&str>)> = layout
        .layers
        .iter()
        .map(|layer| {
            (layer.name.as_str(), layer.parameters.iter().map(|tensor| tensor.name.as_str()).collect())
        })
        .collect();
    assert_eq!(
        layers,
        [
            ("stage0", vec!["features.0.weight", "features.0.bias"]),
            ("stage1", vec!["hidden.1.weight", "hidden.1.bias"]),
            ("stage2", vec!["scores.weight", "scores.bias"]),
        ]
    );
    assert_eq!((layout.classes, &layout.layers[1].parameters[0].shape), (10, &vec![24, 288]));
    // Of the first stage the rectified maps, their maxima, and where these are, in 64 bits; of the last one the scores.
    let kept: Vec<usize> = layout.layers.iter().map(|layer| layer.kept).collect();
    assert_eq!(kept, [8 * 12 * 12 + 3 * 8 * 6 * 6, 24, 10]);
    // A sequence is cut in front of each module with weights.
    let sequence = described(script("sequence")).layout.layers;
    let children: Vec<Vec<&str>> =
        sequence.iter().map(|layer| layer.children.iter().map(String::as_str).collect()).collect();
    assert_eq!(children, [vec!["0", "1", "2"], vec!["3", "4"], vec!["5"]]);
    let names = |file: &str| -> Vec<String> {
        described(script(file)).layout.layers.into_iter().map(|layer| layer.name).collect()
    };
    assert_eq!(names("sequence"), ["0+1+2", "3+4", "5"]);
    assert_eq!(names("nested"), ["0+1", "2"], "the first sequence has nothing to train");
    assert_eq!(names("folded"), ["forward"], "its modules take no rows");
    assert!(needs_two_rows("batch-norm") && !needs_two_rows("folded"));
    let whole = described(script("dropout")).layout;
    assert_eq!(whole.layers.iter().map(|layer| layer.name.as_str()).collect::<Vec<_>>(), ["forward"]);
}

/// PyTorch 2.11 in Python, one thread: the loop of `torch.optim.SGD(lr=0.1, momentum=0.9)` over the example's model, with batches of 20 of the
/// same 200 examples in their order.
const LOSSES: [f32; 20] = [
    2.303_385, 2.325_427, 2.367_792, 2.372_498, 2.246_356, 2.097_933, 2.138_847, 2.035_513, 2.189_874,
    2.140_355, 1.598_732, 1.576_516, 2.035_722, 2.151_735, 1.607_051, 1.413_605, 2.067_058, 1.562_117,
    1.687_071, 2.091_479,
];

#[test]
fn twenty_steps_have_the_losses_of_pytorch() {
    let data = drawn(200, 10, 0.0);
    let mut learner = learner(own_model(), &data);
    let mut weights = learner.initial();
    let mut velocity = Vector::zeros(weights.len());
    for (step, expected) in (0..).zip(LOSSES) {
        let begin = step * 20 % 200;
        let (loss, gradient) = pass(&mut learner, &weights, &batch(0, begin..begin + 20));
        assert!((loss - expected).abs() < 1e-4, "step {step}: {loss} in place of {expected}");
        for ((w, v), g) in weights.iter_mut().zip(velocity.iter_mut()).zip(gradient.iter()) {
            *v = 0.9 * *v + g;
            *w -= 0.1 * *v;
        }
    }
}

/// The same network as layers, whose backward pass is written by hand.
#[test]
fn a_script_and_the_same_layers_have_the_same_gradient() {
    let data = drawn(60, 40, 0.0);
    let layers =
        [conv(8, 5, 2, 0), Layer::Relu, max_pool(2, 2), Layer::Flatten, linear(24), Layer::Relu, linear(10)];
    let mut layered =
        TorchLearner::new(place(ModelKind::Sequential, GREY, &layers), data.clone(), 1).unwrap();
    let mut script = learner(own_model(), &data);
    let weights = script.initial();
    assert_eq!(layered.layout().size(), weights.len());
    for batch in [batch(0, 0..32), batch(1, 32..33)] {
        let (expected, other) = pass(&mut layered, &weights, &batch);
        let (loss, gradient) = pass(&mut script, &weights, &batch);
        assert!((loss - expected).abs() < 1e-6);
        let apart = gradient.iter().zip(other.iter()).map(|(one, other)| (one - other).abs());
        assert!(apart.fold(0.0, f32::max) < 1e-6);
    }
    let evaluate = |model: &mut dyn TrainedModel| model.evaluate(&weights, Split::Test).unwrap().unwrap();
    let one = evaluate(&mut script);
    let other = evaluate(&mut layered);
    assert_eq!((one.accuracy.to_bits(), one.samples), (other.accuracy.to_bits(), 40));
    assert!((one.loss - other.loss).abs() < 1e-6);
    assert_eq!(script.evaluate(&weights, Split::Validation).unwrap(), None);
}

#[test]
fn an_empty_batch_has_no_loss_and_no_gradient() {
    let mut learner = learner(own_model(), &drawn(20, 1, 0.0));
    let weights = learner.initial();
    let (loss, gradient) = pass(&mut learner, &weights, &batch(0, 0..0));
    assert_eq!((loss.to_bits(), gradient.iter().all(|slope| slope.to_bits() == 0)), (0, true));
}

#[test]
fn what_is_random_in_a_script_follows_seed_epoch_and_examples() {
    let data = drawn(40, 20, 0.0);
    let mut one = learner(script("dropout"), &data);
    let weights = one.initial();
    let of = |learner: &mut ScriptLearner, batch: &Batch| pass(learner, &weights, batch).1.sha256();
    let first = of(&mut one, &batch(0, 0..20));
    let other = of(&mut one, &batch(1, 0..20));
    assert_ne!(first, other);
    assert_ne!(first, of(&mut one, &batch(0, 20..40)));
    let mut two = learner(script("dropout"), &data);
    assert_eq!(of(&mut two, &batch(1, 0..20)), other);
    assert_eq!(of(&mut two, &batch(0, 0..20)), first);
    let found = |learner: &mut ScriptLearner| learner.evaluate(&weights, Split::Test).unwrap();
    assert_eq!(found(&mut one), found(&mut two));
}

#[test]
fn tokens_are_numbers_and_another_thread_computes_the_same_bits() {
    let data = drawn(40, 1, 0.0);
    let passes = |learner: &mut ScriptLearner| {
        let weights = learner.initial();
        (0..3).map(|epoch| pass(learner, &weights, &batch(epoch, 0..20)).1.sha256()).collect::<Vec<_>>()
    };
    for name in ["tokens", "dropout"] {
        let expected = passes(&mut learner(script(name), &data));
        let mut moved = learner(script(name), &data);
        assert_eq!(std::thread::spawn(move || passes(&mut moved)).join().unwrap(), expected, "{name}");
    }
}

#[test]
fn frozen_weights_are_no_part_of_the_vector() {
    let data = drawn(40, 1, 0.0);
    let mut learner = learner(script("frozen"), &data);
    let names = learner.layout().layers().iter().map(|layer| layer.name.clone()).collect::<Vec<_>>();
    assert_eq!((names, learner.layout().size()), (vec!["forward".to_owned()], 12 * 10 + 10));
    assert_eq!(described(script("frozen")).layout.frozen, 16 * 12 + 12);
    assert_eq!(described(own_model()).layout.frozen, 0);
    let weights = learner.initial();
    let (loss, gradient) = pass(&mut learner, &weights, &batch(0, 0..20));
    let down: Vec<f32> = weights.iter().zip(gradient.iter()).map(|(w, g)| w - 0.5 * g).collect();
    assert!(pass(&mut learner, &Vector::from(down), &batch(0, 0..20)).0 < loss);
}

/// The gradient is that of central differences, although the second stage writes over what the first one made.
#[test]
fn a_stage_may_change_its_input_in_place() {
    let data = drawn(20, 1, 0.0);
    let mut learner = learner(script("in-place"), &data);
    let weights = learner.initial();
    let batch = batch(0, 0..20);
    let (_, gradient) = pass(&mut learner, &weights, &batch);
    for place in (0..weights.len()).step_by(17) {
        let mut loss = |by: f32| {
            let mut moved = weights.clone();
            moved[place] += by;
            f64::from(pass(&mut learner, &moved, &batch).0)
        };
        let slope = (loss(1e-2) - loss(-1e-2)) / 2e-2;
        assert!((slope - f64::from(gradient[place])).abs() < 2e-3, "{place}: {slope} {}", gradient[place]);
    }
}

/// The mean of the loss over `samples`, by the definition of a linear layer of 10 behind a batch norm of the 16 means of an image: the
/// moments are means over `batches` of training samples of their means and unbiased variances.
fn normed_loss(weights: &[f32], data: &DataSet, batches: &[&[u32]], split: Split, samples: &[u32]) -> f64 {
    let pooled = |split: Split, samples: &[u32]| -> Vec<Vec<f64>> {
        let values = data.values(split, samples).unwrap();
        let mean = |image: &[f32], part: usize| {
            let top = part / 4 * 7;
            let left = part % 4 * 7;
            let rows = (top..top + 7).flat_map(|row| &image[28 * row + left..28 * row + left + 7]);
            rows.map(|value| f64::from(*value)).sum::<f64>() / 49.0
        };
        values.chunks(784).map(|image| (0..16).map(|part| mean(image, part)).collect()).collect()
    };
    let mut moments = vec![(0.0, 0.0); 16];
    let all = batches.iter().map(|batch| batch.len()).sum::<usize>() as f64;
    for batch in batches {
        let rows = pooled(Split::Training, batch);
        let count = batch.len() as f64;
        for (channel, (mean, variance)) in moments.iter_mut().enumerate() {
            let own = rows.iter().map(|row| row[channel]).sum::<f64>() / count;
            let squares: f64 = rows.iter().map(|row| (row[channel] - own).powi(2)).sum();
            *mean += count / all * own;
            *variance += count / all * squares / (count - 1.0);
        }
    }
    let weight = |place: usize| f64::from(weights[place]);
    let labels = data.labels_at(split, samples).unwrap();
    let losses = pooled(split, samples).into_iter().zip(labels).map(|(row, label)| {
        let x: Vec<f64> = row
            .iter()
            .zip(&moments)
            .enumerate()
            .map(|(channel, (value, (mean, variance)))| {
                (value - mean) / (variance + 1e-5).sqrt() * weight(channel) + weight(16 + channel)
            })
            .collect();
        let score = |class: usize| {
            let products = x.iter().enumerate().map(|(input, value)| value * weight(32 + 16 * class + input));
            weight(32 + 160 + class) + products.sum::<f64>()
        };
        (0..10).map(|class| score(class).exp()).sum::<f64>().ln() - score(label as usize)
    });
    losses.sum::<f64>() / samples.len() as f64
}

/// Whatever a rank has seen in training, the moments are those of training samples under the evaluated weights; as many of a batch as
/// `update_bn` would take.
#[test]
fn a_batch_norm_of_a_script_is_evaluated_with_the_moments_of_training_samples() {
    for training in [200, 600] {
        let data = drawn(training, 50, 0.0);
        let mut learner = learner(script("batch-norm"), &data);
        let initial = learner.initial();
        let moved: Vec<f32> =
            initial.iter().enumerate().map(|(place, value)| value + (place % 7) as f32 * 0.1).collect();
        for weights in [Vector::from(moved), initial] {
            let samples = data.training_ids().to_vec();
            let found = learner.evaluate(&weights, Split::Test).unwrap().unwrap().loss;
            let test = data.positions(Split::Test).to_vec();
            let expected = normed_loss(&weights, &data, &[&samples], Split::Test, &test);
            // Several batches are drawn, and their variances are a little smaller than that of all.
            let within = if training <= 256 { 1e-5 } else { 5e-3 };
            assert!((found - expected).abs() < within, "{training}: {found} and {expected}");
            let trained = pass(&mut learner, &weights, &batch(0, 0..40));
            assert_eq!(
                learner.evaluate(&weights, Split::Test).unwrap().unwrap().loss.to_bits(),
                found.to_bits()
            );
            assert_eq!(pass(&mut learner, &weights, &batch(0, 0..40)), trained);
        }
    }
}

/// With equal weights two layers of a sequence do what one script does.
#[test]
fn a_sequence_trains_as_the_whole_that_it_is() {
    let data = drawn(40, 20, 0.0);
    let mut cut = learner(script("sequence"), &data);
    let file = script("sequence");
    let mut layout = describe(&file, GREY).unwrap();
    let parameters = layout.layers.iter().flat_map(|layer| layer.parameters.clone()).collect();
    let whole =
        FileLayer { name: "forward".into(), children: Vec::new(), parameters, ..layout.layers[2].clone() };
    layout.layers = vec![whole];
    let mut whole = ScriptLearner::new(ModelFile { file, layout }, data.clone(), 7).unwrap();
    assert_eq!((cut.layout().layers().len(), whole.layout().layers().len()), (3, 1));
    let weights = cut.initial();
    assert_eq!(weights, whole.initial());
    assert_eq!(pass(&mut cut, &weights, &batch(0, 0..20)), pass(&mut whole, &weights, &batch(0, 0..20)));
    let loss = |learner: &mut ScriptLearner| learner.evaluate(&weights, Split::Test).unwrap().unwrap().loss;
    assert_eq!(loss(&mut cut).to_bits(), loss(&mut whole).to_bits());
}

#[test]
fn a_script_that_cannot_be_trained_here_says_why() {
    let reason = |file: PathBuf| match describe(&file, GREY) {
        Err(ModelError::Unsuited { reason, .. } | ModelError::Script { reason, .. }) => reason,
        other => panic!("{}: {other:?}", file.display()),
    };
    for (name, expected) in [
        ("forgetful", "an example cannot be scored without others: Expected more than 1 value per channel"),
        ("different", "`forward` is not its stages one after the other"),
        ("counting", "it changes more in training than its weights"),
        ("experts", "no gradient reaches `two.weight`"),
        ("tied", "`one.weight` and `two.weight` are one tensor"),
        ("shared", "`square.weight` is used by `stage0` and by `stage1`"),
        ("blocked", "no gradient passes `stage1`"),
        ("weightless", "`stage0` has no weights that are trained; join it with another stage"),
        ("rowless", "`forward` makes a tensor of [10] Float of 3 examples"),
        ("doubled", "`forward` makes a tensor of [3, 10] Double of 3 examples"),
        ("from-one", "it has `stage1` and no `stage0`"),
        ("gap", "it has `stage2` and no `stage1`"),
        ("strange", "unknown kind: 27"),
        ("hooked", "it has a forward hook"),
        ("overlapping", "`one` and `two` are one tensor"),
        ("nameless", "it has neither a method `forward` nor `stage0`"),
    ] {
        let reason = reason(script(name));
        assert!(reason.contains(expected), "{name}: {reason}");
    }
    // A convolution of one channel meets pictures of three.
    let error = describe(&own_model(), crate::support::COLOUR).unwrap_err().to_string();
    assert!(error.contains("does not run") && error.contains("channels"), "{error}");
    assert!(!error.contains('\n'), "{error}");
}

#[test]
fn files_that_are_no_scripts_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("model.pt");
    assert!(matches!(describe(&file, GREY), Err(ModelError::Unreadable { .. })));
    assert!(matches!(describe(folder.path(), GREY), Err(ModelError::Unreadable { .. })));
    let whole = fs::read(own_model()).unwrap();
    let mut texts: Vec<Vec<u8>> =
        (0..whole.len()).step_by(1499).map(|length| whole[..length].to_vec()).collect();
    texts.push(b"PK\x03\x04 and nothing else".to_vec());
    texts.push(b"no archive".repeat(1000));
    for text in texts {
        fs::write(&file, &text).unwrap();
        let error = describe(&file, GREY).unwrap_err();
        assert!(matches!(error, ModelError::NotTorchScript { .. }), "{} bytes: {error}", text.len());
        assert!(!error.to_string().contains('\n'), "{error}");
    }
    // Of no content: it is refused before it is read.
    fs::File::create(&file).unwrap().set_len(1 << 40).unwrap();
    let error = describe(&file, GREY).unwrap_err();
    assert!(matches!(error, ModelError::Unreadable { .. }), "{error}");
    assert!(error.to_string().contains("it has 1099511627776 bytes; at most"), "{error}");
}

#[test]
fn a_file_that_changed_since_it_was_described_is_not_trained() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("model.pt");
    fs::copy(script("dropout"), &file).unwrap();
    let planned = described(file.clone());
    fs::copy(script("frozen"), &file).unwrap();
    let error = ScriptLearner::new(planned, drawn(20, 1, 0.0), 1).err().unwrap();
    assert!(matches!(error, ModelError::Changed { .. }), "{error}");
}

#[test]
fn a_script_cannot_be_cut() {
    let mut learner = learner(own_model(), &drawn(20, 1, 0.0));
    assert!(learner.shard_layer(1, 0, 2).unwrap_err().to_string().contains("cannot be cut"));
    assert!(learner.take_activations().is_err());
}
