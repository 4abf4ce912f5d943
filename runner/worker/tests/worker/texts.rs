//! A small transformer on a text: against PyTorch's numbers, which `gpt.py` prints, and against libtorch's own derivative of the
//! whole graph.

use crate::gradients::batch;
use recipe::{
    ArrayProblem, Dataset, FileProblem, Files, Init, Layer, LayeredModel, Machine, OptimizerSettings,
    PlacedLayer, PlanRequest, Source, TextProfile, TextSize, TextTokens, UpdateRule,
};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use strategies::{Batch, Learner, Optimizer, Vector};
use tch::{Kind, Tensor};
use worker::data::{DataSet, Split};
use worker::model::{TorchLearner, TrainedModel};

/// A recipe and the text that it names.
struct Desk(String);

impl Files for Desk {
    fn read(&self, _: &Path) -> Result<String, FileProblem> {
        Ok(self.0.clone())
    }
    fn exists(&self, _: &Path) -> bool {
        true
    }
    fn text(&self, path: &Path, unit: TextTokens) -> Result<TextSize, ArrayProblem> {
        Ok(arrays::Text::read(path, unit, &mut |_| ()).map_err(ArrayProblem::from)?.size())
    }
    fn current_directory(&self) -> PathBuf {
        PathBuf::from("/")
    }
}

/// 200 letters of seven kinds, as `gpt.py` draws them.
fn letters() -> String {
    let mut state = 1_u32;
    (0..200)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            char::from(b'a' + ((state >> 24) % 7) as u8)
        })
        .collect()
}

struct World {
    model: LayeredModel,
    data: Arc<DataSet>,
    described: Dataset,
    folder: tempfile::TempDir,
}

/// The model that a recipe describes, and the letters in windows of five.
fn world(model: &str) -> World {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("letters.txt"), letters()).unwrap();
    let text = format!(
        "schema = 1\n{model}\n[dataset]\nkind = \"text-lines\"\npath = \"{}/letters.txt\"\ntokens = \"characters\"\n\
         context = 5\n[train]\nglobal-batch = 5\nsteps = 1\n[[strategy]]\nkind = \"d-sync\"\n",
        folder.path().display()
    );
    let request = PlanRequest::new(Path::new("/recipe.toml"));
    let plan = recipe::plan(&Desk(text), &request, &Machine::new(1)).unwrap();
    let spec = &plan.cells[0].spec;
    let data = Arc::new(DataSet::load(&spec.dataset).unwrap());
    World { model: spec.model.layered().unwrap().clone(), data, described: spec.dataset.clone(), folder }
}

fn tiny() -> World {
    world("model = { kind = \"gpt\", depth = 2, heads = 2, width = 8 }")
}

fn learner(world: &World) -> TorchLearner {
    TorchLearner::new(world.model.clone(), world.data.clone(), 3).unwrap()
}

/// The weights of `gpt.py`.
fn fixed(size: usize) -> Vector {
    let value = |place: usize| (((place * 37 + 11) % 101) as f64 / 101.0 * 0.8 - 0.4) as f32;
    Vector::from((0..size).map(value).collect::<Vec<f32>>())
}

fn gradient(learner: &mut TorchLearner, weights: &Vector, batch: &Batch) -> (f32, Vector) {
    let layout = learner.layout().clone();
    let mut gradient = Vector::from(vec![f32::NAN; weights.len()]);
    learner.load(batch).unwrap();
    (0..layout.layers().len()).for_each(|layer| learner.forward(weights, layer).unwrap());
    let loss = learner.loss(batch).unwrap().0;
    for (layer, described) in layout.layers().iter().enumerate().rev() {
        learner.backward(weights, layer, &mut gradient[described.span.clone()]).unwrap();
    }
    (loss, gradient)
}

const LOSS: f64 = 2.002_338_524_3;
/// Of the last position of the last window.
const SCORES: [f64; 7] =
    [0.741_384_78, 0.738_451_01, 0.223_476_38, 0.220_542_61, -0.028_452_06, -0.246_110_56, -0.249_044_33];
/// Of the gradient of each tensor its length, and its product with fixed numbers.
const GRADIENTS: [[f64; 2]; 28] = [
    [0.283_508_067, -0.034_290_141],
    [0.023_169_914, -0.000_402_598],
    [0.012_777_492, 0.010_452_75],
    [0.012_740_162, -0.000_252_797],
    [0.016_930_149, 0.007_813_852],
    [0.019_107_996, -0.014_487_932],
    [0.023_134_896, -0.002_862_379],
    [0.025_988_764, -0.007_197_534],
    [0.010_799_863, -0.004_656_001],
    [0.015_613_048, -0.000_540_663],
    [0.020_201_428, -0.023_963_222],
    [0.024_033_338, -0.011_659_169],
    [0.019_518_231, 0.001_078_182],
    [0.024_647_649, -0.007_577_702],
    [0.012_038_778, 0.002_384_262],
    [0.011_358_159, 0.000_794_985],
    [0.020_382_019, -0.005_982_003],
    [0.021_819_1, 0.005_181_952],
    [0.020_979_369, -0.010_726_181],
    [0.026_458_096, -0.008_581_638],
    [0.005_167_811, 0.002_230_991],
    [0.007_572_514, 0.001_409_2],
    [0.031_465_024, 0.006_120_249],
    [0.027_022_261, -0.008_458_051],
    [0.039_929_094, -0.005_097_938],
    [0.027_090_572, -0.009_565_881],
    [0.144_979_908, -0.129_498_028],
    [0.138_856_187, -0.008_868_641],
];
/// The losses of the first twenty steps of `torch.optim.AdamW`.
const ADAMW: [f64; 20] = [
    2.188_820_4,
    1.971_902,
    1.931_268_9,
    1.958_177_4,
    1.945_913_7,
    1.960_001_8,
    1.980_836_7,
    1.932_995_3,
    1.932_403_6,
    1.951_935_9,
    1.974_307_9,
    1.937_312_1,
    1.911_901_1,
    1.957_137_3,
    1.951_095_6,
    1.917_517_2,
    1.909_214_6,
    1.940_616_5,
    1.955_069_9,
    1.917_775_9,
];

#[test]
fn scores_loss_and_gradient_are_pytorchs() {
    let world = tiny();
    let mut learner = learner(&world);
    let weights = fixed(learner.layout().size());
    let batch = batch([4, 0, 7, 9, 13]);
    learner.load(&batch).unwrap();
    (0..learner.layout().layers().len()).for_each(|layer| learner.forward(&weights, layer).unwrap());
    let scores = learner.take_activations().unwrap().values;
    for (own, expected) in scores[scores.len() - 7..].iter().zip(SCORES) {
        assert!((f64::from(*own) - expected).abs() < 1e-5, "{own} and {expected}");
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
        let near = |found: f64, expected: f64| (found - expected).abs() < 1e-5 * length.max(0.1);
        assert!(
            near(squares.sqrt(), length) && near(sum, product),
            "{}: {} and {sum}",
            tensor.name,
            squares.sqrt()
        );
    }
}

#[test]
fn the_first_losses_of_adamw_are_pytorchs() {
    let world = tiny();
    let mut learner = learner(&world);
    let mut weights = fixed(learner.layout().size());
    let rule = UpdateRule::Adamw { beta1: 0.9, beta2: 0.95, epsilon: 1e-8 };
    let settings = OptimizerSettings { rule, weight_decay: 0.1, ..OptimizerSettings::sgd(0.01) };
    let mut optimizer = Optimizer::new(settings, [].into());
    for (step, expected) in (0_u32..).zip(ADAMW) {
        let batch = batch((0..5).map(|place| (3 * step + place) % 35));
        let (loss, mut slope) = gradient(&mut learner, &weights, &batch);
        assert!((f64::from(loss) - expected).abs() < 1e-5 * expected, "step {step}: {loss} and {expected}");
        optimizer.apply_gradient(&mut weights, &mut slope, 0.01);
    }
}

/// A layer on operands that libtorch may differentiate by.
pub(crate) fn result(placed: &PlacedLayer, own: &[Tensor], x: &Tensor) -> Tensor {
    let wide = *x.size().last().unwrap();
    let linear = |x: &Tensor, weight: &Tensor, bias: &Tensor| {
        bias.addmm(&x.reshape([-1, wide]), &weight.transpose(0, 1))
    };
    match &placed.layer {
        Layer::LayerNorm => x.layer_norm([wide], Some(&own[0]), Some(&own[1]), 1e-5, false),
        Layer::Gelu => x.gelu("none"),
        Layer::Linear { outputs } => linear(x, &own[0], &own[1]).reshape([x.size()[0], -1, *outputs as i64]),
        Layer::Attention { heads } => {
            let heads = *heads as i64;
            let [examples, length, _] = x.size()[..] else { panic!("positions of texts") };
            let mixed = linear(x, &own[0], &own[1]).reshape([examples, length, 3, heads, wide / heads]);
            let mixed = mixed.permute([2, 0, 3, 1, 4]);
            let [q, k, v] = [0, 1, 2].map(|part| mixed.select(0, part));
            let y = Tensor::scaled_dot_product_attention::<Tensor>(&q, &k, &v, None, 0.0, true, None, false);
            linear(&y.transpose(1, 2).reshape([-1, wide]), &own[2], &own[3]).reshape(x.size())
        }
        Layer::Residual { .. } => x + row(&placed.paths.branch, own, x),
        Layer::Block { .. } => row(&placed.paths.branch, own, x),
        other => panic!("no test has {other:?} there"),
    }
}

fn row(layers: &[PlacedLayer], mut own: &[Tensor], x: &Tensor) -> Tensor {
    layers.iter().fold(x.shallow_clone(), |x, inner| {
        let (first, rest) = own.split_at(inner.parameters.len());
        own = rest;
        result(inner, first, &x)
    })
}

/// Loss and gradient by libtorch's derivative of the whole graph, in which the matrix of the embedding is one leaf with two uses.
fn whole_graph(world: &World, weights: &Vector, batch: &Batch) -> Vector {
    let mut at = 0;
    let mut leaves: Vec<Vec<Tensor>> = Vec::new();
    for placed in &world.model.layers {
        let mut own = Vec::new();
        for parameter in &placed.parameters {
            let shape: Vec<i64> = parameter.shape.iter().map(|side| *side as i64).collect();
            let values = &weights[at..at + parameter.size()];
            own.push(Tensor::from_slice(values).reshape(shape).set_requires_grad(true));
            at += parameter.size();
        }
        leaves.push(own);
    }
    let tokens = world.data.batch(batch, 0).unwrap().to_kind(Kind::Int64);
    let mut x = Tensor::new();
    for (placed, own) in world.model.layers.iter().zip(&leaves) {
        x = match &placed.layer {
            Layer::Embedding { .. } => Tensor::embedding(&own[0], &tokens, -1, false, false) + &own[1],
            Layer::TiedHead => x.reshape([-1, 8]).mm(&leaves[0][0].transpose(0, 1)),
            _ => result(placed, own, &x),
        };
    }
    let labels = Tensor::from_slice(&world.data.labels_of(batch).unwrap()).unsqueeze(1);
    let logs = x.detach().log_softmax(1, Kind::Float);
    let ones = Tensor::full_like(&labels.to_kind(Kind::Float), -1.0);
    let slope = logs.exp().scatter_add(1, &labels, &ones) / (labels.numel() as f64);
    let all: Vec<&Tensor> = leaves.iter().flatten().collect();
    let mut gradient = Vec::new();
    for of_leaf in Tensor::run_backward(&[x.flatten(0, 1).dot(&slope.flatten(0, 1))], &all, false, false) {
        gradient.extend(Vec::<f32>::try_from(of_leaf.contiguous().flatten(0, -1)).unwrap());
    }
    Vector::from(gradient)
}

#[test]
fn layer_by_layer_is_the_derivative_of_the_whole_graph_bit_for_bit() {
    worker::threads::compute_with(1);
    let world = tiny();
    let mut learner = learner(&world);
    for weights in [fixed(learner.layout().size()), learner.initial()] {
        let batch = batch(0..9);
        let (_, own) = gradient(&mut learner, &weights, &batch);
        let expected = whole_graph(&world, &weights, &batch);
        for (place, (own, expected)) in own.iter().zip(expected.iter()).enumerate() {
            assert_eq!(own.to_bits(), expected.to_bits(), "{place}: {own} and {expected}");
        }
    }
}

/// Each layer by itself: none is inside of a block, where libtorch would record it.
#[test]
fn layers_outside_of_blocks_have_the_derivative_of_the_whole_graph() {
    let world = world(
        "model = { kind = \"sequential\", layers = [{ kind = \"embedding\", width = 8 }, { kind = \"attention\", heads = 2 }, \
         \"layer-norm\", { kind = \"linear\", outputs = 12 }, \"gelu\", { kind = \"linear\", outputs = 8 }, \"tied-head\"] }",
    );
    let mut learner = learner(&world);
    let weights = fixed(learner.layout().size());
    let (_, own) = gradient(&mut learner, &weights, &batch(0..9));
    crate::gradients::close(&own, &whole_graph(&world, &weights, &batch(0..9)), 1e-6, "layers");
}

/// Masks follow windows: a window alone drops what it drops among others, and another epoch drops other values.
#[test]
fn dropout_inside_of_blocks_follows_the_window_and_is_off_in_evaluations() {
    let dropping = |rate| {
        world(&format!("model = {{ kind = \"gpt\", depth = 2, heads = 2, width = 8, dropout = {rate} }}"))
    };
    let plain = tiny();
    let world = dropping("0.25");
    let mut undropped = learner(&plain);
    let mut learner = learner(&world);
    let weights = fixed(undropped.layout().size());
    let (whole_loss, whole) = gradient(&mut learner, &weights, &batch(0..8));
    let mut sum = Vector::zeros(whole.len());
    for window in 0..8 {
        let (_, mut part) = gradient(&mut learner, &weights, &batch([window]));
        part.scale(1.0 / 8.0);
        sum.add(&part);
    }
    crate::gradients::close(&sum, &whole, 1e-5, "windows");
    let (other, _) = gradient(&mut learner, &weights, &Batch { epoch: 2, ..batch(0..8) });
    let (full, _) = gradient(&mut undropped, &weights, &batch(0..8));
    assert!(
        (whole_loss - other).abs() > 1e-4 && (whole_loss - full).abs() > 1e-4,
        "{whole_loss}, {other}, {full}"
    );
    let evaluation = |learner: &mut TorchLearner| learner.evaluate(&weights, Split::Test).unwrap().unwrap();
    assert_eq!(evaluation(&mut learner), evaluation(&mut undropped));
    // Along the gradient by h, the loss changes by h times the square of its length.
    let square: f64 = whole.iter().map(|value| f64::from(*value).powi(2)).sum();
    let h = 2e-3;
    let at = |learner: &mut TorchLearner, sign: f32| {
        let moved: Vec<f32> =
            weights.iter().zip(whole.iter()).map(|(w, slope)| w + sign * h * slope).collect();
        f64::from(gradient(learner, &Vector::from(moved), &batch(0..8)).0)
    };
    let slope = (at(&mut learner, 1.0) - at(&mut learner, -1.0)) / (2.0 * f64::from(h));
    assert!((slope - square).abs() < 1e-2 * square, "{slope} and {square}");
}

#[test]
fn parts_of_a_batch_weighted_by_their_windows_give_the_whole() {
    let world = tiny();
    let mut learner = learner(&world);
    let weights = fixed(learner.layout().size());
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
    let (nothing, none) = gradient(&mut learner, &weights, &batch([]));
    assert!(nothing.to_bits() == 0 && none.iter().all(|value| value.to_bits() == 0));
}

#[test]
fn the_weights_are_as_many_as_the_formula_says_and_begin_as_those_of_gpt_2() {
    let vocabulary = 7;
    let context = 5;
    let width = 64;
    let depth = 3;
    let world = world("model = { kind = \"gpt\", depth = 3, heads = 4, width = 64 }");
    let weights = learner(&world).initial();
    let formula = (vocabulary + context) * width + depth * (12 * width * width + 13 * width) + 2 * width;
    assert_eq!(weights.len(), formula);
    let names: Vec<&str> = world.model.weighted_layers().iter().map(|layer| layer.name).collect();
    assert_eq!(names, ["embedding1", "block1", "block2", "block3", "layer-norm1"], "the head has no weights");
    assert_eq!(world.model.init, Init::Gpt2);
    let mut at = 0;
    for tensor in world.model.layers.iter().flat_map(|layer| &layer.parameters) {
        let own = &weights[at..at + tensor.size()];
        at += tensor.size();
        let deviation =
            (own.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>() / own.len() as f64).sqrt();
        // Six residual blocks add to the way.
        let expected = match tensor.name.as_str() {
            name if name.ends_with("bias") => 0.0,
            name if name.contains("layer-norm") => 1.0,
            name if name.ends_with("attention1.out.weight") || name.ends_with("linear2.weight") => {
                0.02 / 6.0_f64.sqrt()
            }
            _ => 0.02,
        };
        let spread = 4.0 / (2.0 * own.len() as f64).sqrt();
        assert!(
            (deviation - expected).abs() <= expected * spread,
            "{}: {deviation}, {expected}",
            tensor.name
        );
    }
}

#[test]
fn windows_lie_one_behind_the_other_and_the_last_are_the_test_set() {
    let world = tiny();
    let text: Vec<f32> = letters().bytes().map(|letter| f32::from(letter - b'a')).collect();
    // 199 targets make 39 windows of five.
    assert_eq!((world.data.training_ids().len(), world.data.positions(Split::Test).len()), (35, 4));
    assert_eq!(
        world.data.values(Split::Training, &[2, 34]).unwrap(),
        [&text[10..15], &text[170..175]].concat()
    );
    assert_eq!(world.data.values(Split::Test, &[0, 3]).unwrap(), [&text[175..180], &text[190..195]].concat());
    let labels: Vec<f32> =
        world.data.labels_at(Split::Test, &[3]).unwrap().iter().map(|label| *label as f32).collect();
    assert_eq!(labels, text[191..196]);
    assert!(world.data.labels_at(Split::Test, &[4]).is_err());
}

#[test]
fn an_evaluation_is_the_mean_over_tokens() {
    let world = tiny();
    let mut learner = learner(&world);
    let weights = fixed(learner.layout().size());
    let found = learner.evaluate(&weights, Split::Test).unwrap().unwrap();
    assert_eq!(found.samples, 4);
    // The training windows one by one, and all at once.
    let all: Vec<f32> = (0..35).map(|window| gradient(&mut learner, &weights, &batch([window])).0).collect();
    let mean = f64::from(all.iter().sum::<f32>()) / 35.0;
    let trained = learner.evaluate(&weights, Split::Training).unwrap().unwrap();
    assert!((trained.loss - mean).abs() < 1e-5 * mean, "{} and {mean}", trained.loss);
    assert!(trained.accuracy < 1.0);
}

#[test]
fn a_text_that_changed_is_refused() {
    let world = tiny();
    let Source::TextLines { path, .. } = &world.described.source else { panic!("a text") };
    assert!(path.starts_with(world.folder.path()));
    fs::write(path, "abcdefgabcdefgabc").unwrap();
    let told = DataSet::load(&world.described).unwrap_err().to_string();
    assert!(
        told.contains("then 200 tokens of a vocabulary of 7, now 17 of 7; run the recipe again"),
        "{told}"
    );
    fs::write(path, b"ab\xff").unwrap();
    let told = DataSet::load(&world.described).unwrap_err().to_string();
    assert!(told.contains("is not UTF-8: byte 2 begins no character; convert the file"), "{told}");
    let size = TextSize { tokens: 200, vocabulary: 256 };
    let text = TextProfile::cut(size, TextTokens::Bytes, 5, 0.1).unwrap();
    fs::write(path, letters()).unwrap();
    let source = Source::TextLines { path: path.clone(), text };
    assert!(DataSet::load(&Dataset { source, ..world.described.clone() }).is_ok());
}
