//! A convolutional network on labelled texts: against PyTorch's numbers, which `text_cnn.py` prints, and against libtorch's own
//! derivative of the whole graph.

use crate::gradients::{batch, gradient};
use recipe::{
    ArrayProblem, Dataset, FileProblem, Files, LabelledTextForm, LabelledTextSize, Layer, LayeredModel,
    Machine, OptimizerSettings, PlanRequest, Shape, Source,
};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use strategies::{Batch, Learner, Optimizer, Vector};
use tch::{Kind, Tensor};
use worker::data::{DataSet, Split};
use worker::model::{TorchLearner, TrainedModel};

/// A recipe and the texts that it names.
struct Desk(String);

impl Files for Desk {
    fn read(&self, _: &Path) -> Result<String, FileProblem> {
        Ok(self.0.clone())
    }
    fn exists(&self, _: &Path) -> bool {
        true
    }
    fn labelled_texts(
        &self,
        folder: &Path,
        form: LabelledTextForm,
    ) -> Result<LabelledTextSize, ArrayProblem> {
        arrays::labelled_text_size(folder, form)
    }
    fn current_directory(&self) -> PathBuf {
        PathBuf::from("/")
    }
}

/// Texts of up to nine words of seven, each with one of three labels, as `text_cnn.py` draws them.
fn drawn(count: usize) -> String {
    let mut state = 1_u32;
    let mut draw = |below: u32| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 16) % below
    };
    let mut text = String::new();
    for _ in 0..count {
        let _ = write!(text, "{},", draw(3));
        for _ in 0..=draw(9) {
            let _ = write!(text, "w{} ", draw(7));
        }
        text.push('\n');
    }
    text
}

struct World {
    model: LayeredModel,
    data: Arc<DataSet>,
    described: Dataset,
    folder: tempfile::TempDir,
}

fn world_of(train: &str, test: &str, model: &str) -> World {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("train.csv"), train).unwrap();
    fs::write(folder.path().join("test.csv"), test).unwrap();
    let text = format!(
        "schema = 1\nmodel = {model}\n[dataset]\nkind = \"text\"\npath = \"{}\"\nheader = false\ncontext = 7\n[train]\n\
         global-batch = 5\nsteps = 1\n[[strategy]]\nkind = \"d-sync\"\n",
        folder.path().display()
    );
    let request = PlanRequest::new(Path::new("/recipe.toml"));
    let plan = recipe::plan(&Desk(text), &request, &Machine::new(1)).unwrap();
    let spec = &plan.cells[0].spec;
    let data = Arc::new(DataSet::load(&spec.dataset).unwrap());
    World { model: spec.model.layered().unwrap().clone(), data, described: spec.dataset.clone(), folder }
}

fn world(model: &str) -> World {
    world_of(&drawn(60), &drawn(20), model)
}

fn kim() -> World {
    world("{ kind = \"text-cnn\", width = 6, dropout = 0.0 }")
}

/// Layers of a user's own, outside of any block.
const OWN: &str = "{ kind = \"sequential\", layers = [{ kind = \"embedding\", width = 5, positions = true }, \
    { kind = \"text-conv\", outputs = 8, kernel = 3, stride = 2, padding = 1 }, \"relu\", \
    { kind = \"text-conv\", outputs = 6, kernel = 2 }, \"global-max-pool\", { kind = \"linear\", outputs = 3 }] }";

fn learner(world: &World) -> TorchLearner {
    TorchLearner::new(world.model.clone(), world.data.clone(), 3).unwrap()
}

/// The weights of `text_cnn.py`.
fn fixed(size: usize) -> Vector {
    let value = |place: u32| {
        let mixed = place.wrapping_mul(2_654_435_761).wrapping_add(12_345);
        let bits = (mixed ^ (mixed >> 15)).wrapping_mul(2_246_822_519);
        (f64::from(bits >> 8) / f64::from(1 << 24) * 0.8 - 0.4) as f32
    };
    Vector::from((0..size as u32).map(value).collect::<Vec<f32>>())
}

const LOSS: f64 = 0.712_893_574_1;
/// Of the last text.
const SCORES: [f64; 3] = [2.557_908_36, 1.502_025_51, -0.455_853_26];
/// Of the gradient of each tensor its length, and its product with fixed numbers.
const GRADIENTS: [[f64; 2]; 9] = [
    [0.954_033_693, 0.239_389_663],
    [0.499_462_252, 0.259_344_793],
    [0.341_361_357, -0.041_670_718],
    [0.507_146_289, 0.257_792_485],
    [0.333_343_141, 0.014_867_871],
    [0.603_180_958, 0.598_047_112],
    [0.343_317_536, 0.016_580_633],
    [0.995_119_022, -0.035_020_693],
    [0.147_334_465, -0.059_793_183],
];
/// The losses of the first ten steps of `torch.optim.SGD`.
const SGD: [f64; 10] = [
    1.467_261_38,
    0.833_767_34,
    1.507_038_98,
    1.154_933_48,
    1.034_411_66,
    1.297_163_02,
    1.501_947_54,
    1.581_395_51,
    1.544_296_3,
    1.337_679_66,
];

#[test]
fn texts_are_the_tokens_that_another_program_finds() {
    let world = kim();
    assert_eq!(world.model.input, Shape::Tokens(7, 9));
    assert_eq!(world.data.values(Split::Training, &[4]).unwrap(), [7.0, 7.0, 8.0, 3.0, 3.0, 7.0, 6.0]);
    assert_eq!(world.data.labels_at(Split::Training, &[4]).unwrap(), [1]);
    assert_eq!((world.data.training_ids().len(), world.data.positions(Split::Test).len()), (60, 20));
}

#[test]
fn scores_loss_and_gradient_are_pytorchs() {
    let world = kim();
    let mut learner = learner(&world);
    let weights = fixed(learner.layout().size());
    let batch = batch([4, 0, 7, 9, 13]);
    learner.load(&batch).unwrap();
    (0..learner.layout().layers().len()).for_each(|layer| learner.forward(&weights, layer).unwrap());
    let scores = learner.take_activations().unwrap().values;
    for (own, expected) in scores[scores.len() - 3..].iter().zip(SCORES) {
        assert!((f64::from(*own) - expected).abs() < 1e-5 * expected.abs(), "{own} and {expected}");
    }
    let (loss, own) = gradient(&mut learner, &weights, &batch);
    assert!((f64::from(loss) - LOSS).abs() < 1e-5, "{loss}");
    let mut at = 0;
    let tensors: Vec<_> = world.model.layers.iter().flat_map(|layer| &layer.parameters).collect();
    assert_eq!(tensors.len(), GRADIENTS.len());
    for (tensor, [length, product]) in tensors.iter().zip(GRADIENTS) {
        let own = &own[at..at + tensor.size()];
        at += tensor.size();
        let squares: f64 = own.iter().map(|value| f64::from(*value).powi(2)).sum();
        let fixed = |place: usize| ((place * 53 + 7) % 97) as f64 / 97.0;
        let sum: f64 = own.iter().enumerate().map(|(place, value)| f64::from(*value) * fixed(place)).sum();
        let near = |found: f64, expected: f64| (found - expected).abs() < 2e-5 * length.max(0.1);
        assert!(
            near(squares.sqrt(), length) && near(sum, product),
            "{}: {} and {sum}",
            tensor.name,
            squares.sqrt()
        );
    }
}

#[test]
fn the_first_losses_of_sgd_are_pytorchs() {
    let world = kim();
    let mut learner = learner(&world);
    let mut weights = fixed(learner.layout().size());
    let mut optimizer = Optimizer::new(OptimizerSettings::sgd(0.05), [].into());
    for (step, expected) in (0_u32..).zip(SGD) {
        let batch = batch((0..5).map(|place| (3 * step + place) % 60));
        let (loss, mut slope) = gradient(&mut learner, &weights, &batch);
        assert!((f64::from(loss) - expected).abs() < 1e-4 * expected, "step {step}: {loss} and {expected}");
        optimizer.apply_gradient(&mut weights, &mut slope, 0.05);
    }
}

/// Tensors of a layer list as leaves, in the order of the flat vector.
fn leaves(world: &World, weights: &Vector) -> Vec<Vec<Tensor>> {
    let mut at = 0;
    let mut leaf = |shape: &[usize]| {
        let size: usize = shape.iter().product();
        let sides: Vec<i64> = shape.iter().map(|side| *side as i64).collect();
        at += size;
        Tensor::from_slice(&weights[at - size..at]).reshape(sides).set_requires_grad(true)
    };
    let layers = world.model.layers.iter();
    layers.map(|placed| placed.parameters.iter().map(|own| leaf(&own.shape)).collect()).collect()
}

/// The gradient by libtorch's derivative of the whole graph. Convolutions are sums over shifted positions.
fn whole_graph(world: &World, weights: &Vector, batch: &Batch) -> Vector {
    let leaves = leaves(world, weights);
    let tokens = world.data.batch(batch, 0).unwrap().to_kind(Kind::Int64);
    let mut x = Tensor::new();
    for (placed, own) in world.model.layers.iter().zip(&leaves) {
        x = match &placed.layer {
            Layer::Embedding { positions, .. } => {
                let vectors = own[0].index_select(0, &tokens.flatten(0, -1));
                let vectors = vectors.reshape([tokens.size()[0], tokens.size()[1], -1]);
                if *positions { vectors + &own[1] } else { vectors }
            }
            _ => crate::gradients::result(placed, own, &x),
        };
    }
    let labels = Tensor::from_slice(&world.data.labels_of(batch).unwrap());
    let loss = x.cross_entropy_for_logits(&labels);
    let all: Vec<&Tensor> = leaves.iter().flatten().collect();
    let mut gradient = Vec::new();
    for of_leaf in Tensor::run_backward(&[loss], &all, false, false) {
        gradient.extend(Vec::<f32>::try_from(of_leaf.contiguous().flatten(0, -1)).unwrap());
    }
    Vector::from(gradient)
}

#[test]
fn layer_by_layer_is_the_derivative_of_the_whole_graph() {
    for model in ["{ kind = \"text-cnn\", width = 6, dropout = 0.0 }", OWN] {
        let world = world(model);
        let mut learner = learner(&world);
        for weights in [fixed(learner.layout().size()), learner.initial()] {
            let (_, own) = gradient(&mut learner, &weights, &batch(0..9));
            crate::gradients::close(&own, &whole_graph(&world, &weights, &batch(0..9)), 1e-5, model);
        }
    }
}

#[test]
fn parts_of_a_batch_weighted_by_their_texts_give_the_whole() {
    for model in ["{ kind = \"text-cnn\", width = 6, dropout = 0.25 }", OWN] {
        let world = world(model);
        let mut learner = learner(&world);
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
        crate::gradients::close(&sum, &whole, 1e-5, "parts");
    }
}

#[test]
fn the_weights_are_as_many_as_the_formula_says() {
    let world = kim();
    let vocabulary = 9;
    let width = 6;
    let classes = 3;
    let weights = learner(&world).initial();
    assert_eq!(weights.len(), vocabulary * width + 100 * 12 * width + 300 + 300 * classes + classes);
    let names: Vec<&str> = world.model.weighted_layers().iter().map(|layer| layer.name).collect();
    assert_eq!(names, ["embedding1", "branches1", "linear1"]);
    // Of the filters over four words PyTorch's bound, 1 / sqrt(4 D).
    let begin = vocabulary * width + 100 * (3 * width + 1);
    let filters = &weights[begin..begin + 100 * 4 * width];
    let largest = filters.iter().fold(0.0_f32, |most, weight| most.max(weight.abs()));
    let bound = 1.0 / (4.0 * width as f32).sqrt();
    assert!(largest <= bound && largest > 0.99 * bound, "{largest} and {bound}");
}

/// The label is the word that occurs, among others that say nothing, anywhere in the text.
#[test]
fn it_learns_which_word_occurs() {
    let mut state = 5_u32;
    let mut draw = |below: u32| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 16) % below
    };
    let mut texts = |count: usize| {
        let mut all = String::new();
        for _ in 0..count {
            let label = draw(4);
            let place = draw(7);
            let mut word =
                |at: u32| if at == place { format!("sign{label}") } else { format!("n{}", draw(30)) };
            let words: Vec<String> = (0..7).map(&mut word).collect();
            let _ = writeln!(all, "{label},\"{}\"", words.join(", "));
        }
        all
    };
    let train = texts(400);
    let test = texts(100);
    let world = world_of(&train, &test, "{ kind = \"text-cnn\", width = 16, dropout = 0.5 }");
    let mut learner = learner(&world);
    let mut weights = learner.initial();
    let accuracy = |learner: &mut TorchLearner, weights: &Vector| {
        learner.evaluate(weights, Split::Test).unwrap().unwrap().accuracy
    };
    assert!(accuracy(&mut learner, &weights) < 0.5);
    let mut optimizer = Optimizer::new(OptimizerSettings::sgd(0.2), [].into());
    for step in 0..200 {
        let examples = (0..20).map(|place| (20 * step + place) % 400).collect();
        // The masks of dropout are others in each pass over the texts.
        let batch = Batch { epoch: u64::from(step / 20), examples };
        let (_, mut slope) = gradient(&mut learner, &weights, &batch);
        optimizer.apply_gradient(&mut weights, &mut slope, 0.2);
    }
    let learned = accuracy(&mut learner, &weights);
    assert!(learned > 0.95, "{learned}");
}

#[test]
fn texts_that_changed_are_refused() {
    let world = kim();
    let Source::Text { path, .. } = &world.described.source else { panic!("texts") };
    assert!(path.starts_with(world.folder.path()));
    let told = || DataSet::load(&world.described).unwrap_err().to_string();
    fs::write(path.join("test.csv"), drawn(21)).unwrap();
    let expected = "then 60 and 20 texts of 3 classes and a vocabulary of 9, now 60 and 21 texts of 3 classes and a vocabulary \
                    of 9; run the recipe again";
    assert!(told().contains(expected), "{}", told());
    fs::write(path.join("test.csv"), "7,w1\n").unwrap();
    assert!(
        told().contains("test.csv has the label \"7\" in line 1, which train.csv does not have; mend"),
        "{}",
        told()
    );
}

#[test]
fn the_digest_is_that_of_names_and_contents() {
    let one = kim();
    let other = kim();
    assert_eq!(one.data.digest(), other.data.digest());
    // The same texts, otherwise written.
    let quoted = drawn(20).replacen("0,", "\"0\",", 1);
    assert_ne!(quoted, drawn(20));
    let changed = world_of(&drawn(60), &quoted, "{ kind = \"text-cnn\", width = 6 }");
    assert_eq!(
        changed.data.values(Split::Test, changed.data.positions(Split::Test)).unwrap(),
        one.data.values(Split::Test, one.data.positions(Split::Test)).unwrap()
    );
    assert_ne!(changed.data.digest(), one.data.digest());
}
