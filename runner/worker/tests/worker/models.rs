//! Every named model of layers: on fixed weights and images against the numbers of PyTorch 2.11 in 64 bits that `models.py` prints, and
//! the workers' halves of a batch against the whole.

use crate::gradients::{batch, close, gradient};
use crate::imagenet::{OfLayer, hashed, pictures, without_dropout};
use crate::support::{described, named_on, npy};
use recipe::{ArrayProfile, LayeredModel, ModelKind, Source};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use strategies::{Batch, Learner, Vector};
use worker::data::DataSet;
use worker::model::{TorchLearner, TrainedModel};

/// PyTorch's numbers for a model: the loss, and of the scores and of the gradient of each layer with weights the length
/// and the product with `hashed` of number 7.
struct Numbers {
    kind: ModelKind,
    images: u32,
    loss: f64,
    scores: OfLayer,
    gradient: &'static [OfLayer],
}

const NUMBERS: &[Numbers] = &[
    Numbers {
        kind: ModelKind::Softmax,
        images: 4,
        loss: 2.799_787_997,
        scores: (5.570_077, 0.810_393),
        gradient: &[(15.884_870, -1.589_073)],
    },
    Numbers {
        kind: ModelKind::MnistMlp,
        images: 4,
        loss: 2.329_818_938,
        scores: (5.857_001, -1.552_867),
        gradient: &[(14.843_378, 20.110_392), (5.684_399, 3.912_728), (5.727_517, -0.689_220)],
    },
    Numbers {
        kind: ModelKind::Lenet,
        images: 4,
        loss: 3.141_937_092,
        scores: (11.741_593, -5.453_123),
        gradient: &[
            (5.358_304, -0.414_075),
            (15.012_697, 9.307_443),
            (22.007_658, -3.989_241),
            (12.560_332, -9.863_444),
        ],
    },
    Numbers {
        kind: ModelKind::CifarCnn,
        images: 4,
        loss: 2.955_418_271,
        scores: (6.863_674, -1.066_305),
        gradient: &[
            (0.935_010, -0.473_414),
            (12.630_651, 8.551_912),
            (13.023_715, -1.579_191),
            (10.098_972, -4.015_157),
            (3.438_637, -5.581_484),
        ],
    },
    Numbers {
        kind: ModelKind::Resnet20,
        images: 4,
        loss: 3.484_163_818,
        scores: (9.293_457, -4.017_856),
        gradient: &[
            (2.721_536, -1.889_962),
            (1.085_932, 0.283_564),
            (5.799_665, 1.282_832),
            (3.927_767, -2.711_793),
            (2.973_470, 1.228_330),
            (3.337_082, 0.346_573),
            (3.072_193, -2.362_553),
            (2.338_572, -0.529_842),
            (2.592_945, -1.850_952),
            (2.336_548, -1.160_383),
            (1.868_922, 0.061_104),
            (5.308_780, -3.251_399),
        ],
    },
    Numbers {
        kind: ModelKind::Resnet18,
        images: 4,
        loss: 2.689_156_906,
        scores: (7.992_255, 6.943_851),
        gradient: &[
            (147.840_963, 22.457_993),
            (13.652_546, -10.751_045),
            (236.804_547, 217.346_660),
            (174.227_183, 67.798_324),
            (199.252_643, -33.829_694),
            (180.712_857, 270.038_353),
            (167.558_881, 12.038_442),
            (149.272_368, -18.729_883),
            (108.085_423, 14.261_390),
            (74.392_966, -6.302_466),
            (14.376_197, 6.453_960),
        ],
    },
    Numbers {
        kind: ModelKind::Resnet50,
        images: 64,
        loss: 5.501_491_001,
        scores: (66.793_478, 83.923_048),
        gradient: &[
            (328.426_740, 114.122_720),
            (23.736_593, -8.280_864),
            (327.316_819, -270.910_266),
            (250.044_961, -54.010_309),
            (171.668_122, -109.057_454),
            (183.118_920, -132.221_203),
            (135.640_408, -48.548_409),
            (93.676_800, -88.425_454),
            (70.758_033, -28.013_092),
            (82.118_051, -33.797_563),
            (60.193_826, -71.977_728),
            (43.183_555, 32.473_831),
            (31.581_132, 31.957_650),
            (24.227_418, -14.156_996),
            (19.427_375, -4.833_894),
            (25.001_736, -33.569_416),
            (17.596_237, 2.334_088),
            (11.641_145, 9.136_793),
            (32.951_008, -2.432_741),
        ],
    },
    Numbers {
        kind: ModelKind::Vgg19,
        images: 4,
        loss: 2.669_827_295,
        scores: (3.374_679, -0.578_748),
        gradient: &[
            (0.383_879, 0.073_141),
            (1.853_695, 1.158_133),
            (2.637_777, 0.469_641),
            (3.239_777, -0.625_606),
            (3.386_995, 3.517_517),
            (4.954_413, 0.820_290),
            (5.233_831, 4.477_830),
            (5.390_050, 0.814_572),
            (5.548_438, 2.448_970),
            (8.498_357, 0.875_272),
            (8.207_588, 5.801_652),
            (8.048_012, 1.057_822),
            (9.204_631, 6.359_488),
            (9.615_467, -7.340_422),
            (8.991_074, 5.666_351),
            (9.133_802, -1.196_166),
            (3.759_854, 0.868_480),
            (10.739_181, 2.401_088),
            (11.139_261, -4.235_609),
        ],
    },
    Numbers {
        kind: ModelKind::VggCifar,
        images: 4,
        loss: 3.458_077_337,
        scores: (6.531_282, 2.810_093),
        gradient: &[
            (54.651_552, -52.405_378),
            (15.363_697, 5.036_773),
            (207.813_375, -95.337_517),
            (10.052_247, 5.125_053),
            (146.424_838, 8.890_649),
            (9.335_543, -1.255_181),
            (171.783_102, -83.915_018),
            (6.807_798, -5.778_811),
            (132.930_029, -13.460_714),
            (6.063_365, 5.149_044),
            (155.310_048, 100.490_501),
            (4.976_133, 1.275_947),
            (131.150_621, 23.271_004),
            (3.713_161, -0.841_404),
            (108.943_747, 152.042_988),
            (3.670_492, -2.506_084),
            (128.135_365, -30.187_238),
            (3.034_603, 0.091_428),
            (109.279_960, 22.188_428),
            (2.636_192, -2.323_840),
            (100.519_114, 26.081_634),
            (2.185_532, 1.448_134),
            (79.342_713, 32.571_237),
            (1.758_026, -0.254_727),
            (62.653_165, 39.034_710),
            (0.807_787, 0.061_257),
            (12.171_049, 5.842_318),
            (0.700_854, -0.319_006),
            (8.346_928, 4.503_134),
        ],
    },
    Numbers {
        kind: ModelKind::Cifar100Cnn,
        images: 4,
        loss: 5.434_291_042,
        scores: (13.662_697, -13.273_562),
        gradient: &[
            (2.184_010, -0.488_688),
            (40.143_372, 51.502_845),
            (39.576_489, -18.657_714),
            (45.054_612, 46.481_672),
            (9.247_190, -14.369_642),
        ],
    },
    Numbers {
        kind: ModelKind::AlexnetCifar,
        images: 4,
        loss: 3.940_550_805,
        scores: (9.608_130, 2.667_918),
        gradient: &[
            (3.055_308, 1.486_356),
            (22.906_689, 41.977_508),
            (25.689_825, 3.910_525),
            (28.572_789, 4.238_098),
            (26.880_447, -9.908_493),
            (18.319_656, -13.653_079),
            (37.350_752, -15.503_312),
            (37.027_954, -14.736_540),
        ],
    },
    Numbers {
        kind: ModelKind::VggSplitbrain,
        images: 4,
        loss: 3.751_106_010,
        scores: (18.767_668, 2.143_724),
        gradient: &[
            (1.996_322, 1.393_170),
            (8.336_572, 4.480_353),
            (9.936_688, -0.281_512),
            (13.747_220, 0.824_598),
            (13.971_233, -2.322_796),
            (20.076_978, -13.650_393),
            (19.960_922, -26.253_157),
            (30.439_122, 0.822_495),
            (15.174_713, 11.281_377),
            (14.330_085, -9.448_761),
        ],
    },
];

/// Where a model is tested.
#[derive(PartialEq, Eq)]
enum TestedIn {
    /// Here, on images of 3 x 32 x 32.
    Images,
    /// In the module `imagenet`, on pictures.
    Pictures,
    /// In `texts` and `text_cnn`.
    Texts,
    /// Here, beside the model of which it trains a part: its other weights are drawn.
    Drawn,
    /// It has none of its own.
    Elsewhere,
}

fn place(kind: ModelKind) -> TestedIn {
    match kind {
        ModelKind::Softmax
        | ModelKind::MnistMlp
        | ModelKind::Lenet
        | ModelKind::CifarCnn
        | ModelKind::Resnet20
        | ModelKind::Resnet18
        | ModelKind::Resnet50
        | ModelKind::Vgg19
        | ModelKind::VggCifar
        | ModelKind::Cifar100Cnn
        | ModelKind::AlexnetCifar
        | ModelKind::VggSplitbrain => TestedIn::Images,
        ModelKind::Alexnet | ModelKind::Googlenet => TestedIn::Pictures,
        ModelKind::Gpt | ModelKind::TextCnn => TestedIn::Texts,
        ModelKind::Cifar100Convex => TestedIn::Drawn,
        ModelKind::Sequential | ModelKind::Torchscript => TestedIn::Elsewhere,
    }
}

#[test]
fn each_model_has_its_numbers() {
    let with_numbers: Vec<ModelKind> = NUMBERS.iter().map(|numbers| numbers.kind).collect();
    let wanted = ModelKind::ALL.iter().copied().filter(|kind| place(*kind) == TestedIn::Images);
    assert_eq!(with_numbers, wanted.collect::<Vec<_>>());
}

/// Images of 10 classes.
fn images(folder: &Path, count: u32) -> ArrayProfile {
    let values: Vec<u8> =
        hashed(count as usize * 3 * 32 * 32, 1000).flat_map(|value| (value as f32).to_le_bytes()).collect();
    let labels: Vec<u8> =
        [9_i64, 3, 0, 1].iter().cycle().take(count as usize).flat_map(|label| label.to_le_bytes()).collect();
    for name in ["train", "test"] {
        fs::write(
            folder.join(format!("{name}_x.npy")),
            npy("<f4", &format!("({count}, 3, 32, 32)"), &values),
        )
        .unwrap();
        fs::write(folder.join(format!("{name}_y.npy")), npy("<i8", &format!("({count},)"), &labels)).unwrap();
    }
    arrays::describe(folder).unwrap()
}

/// A model over examples that `write` puts into a folder.
fn on(kind: ModelKind, write: impl Fn(&Path) -> ArrayProfile) -> (LayeredModel, Arc<DataSet>) {
    let folder = tempfile::tempdir().unwrap();
    let arrays = write(folder.path());
    let source = Source::Npy { path: folder.path().to_owned(), arrays };
    (named_on(kind, Some(arrays)), Arc::new(DataSet::load(&described(source)).unwrap()))
}

/// As in `models.py`: what only scales is near 1.
fn fixed(model: &LayeredModel) -> Vector {
    let layers = model.weighted_layers();
    let tensors = layers.iter().flat_map(|layer| layer.parameters);
    let mut weights: Vec<f32> = Vec::new();
    for (number, tensor) in (0..).zip(tensors) {
        let scale = tensor.matrix().map_or(0.1, |matrix| (6.0 / matrix.columns as f64).sqrt());
        let scales = tensor.name.contains("batch-norm") && tensor.name.ends_with("weight");
        let about = if scales { 1.0 } else { 0.0 };
        weights.extend(hashed(tensor.size(), number).map(|value| about + (value * scale) as f32));
    }
    Vector::from(weights)
}

/// How far 32 bits bring a layer's gradient, in its lengths. Behind 49 batch norms PyTorch's own products of 32 and of 64 bits lie up to
/// 0.017 lengths apart, elsewhere up to 1e-4.
fn exactness(kind: ModelKind) -> f64 {
    if kind == ModelKind::Resnet50 { 0.05 } else { 5e-4 }
}

fn of_values(values: &[f32]) -> OfLayer {
    let squares: f64 = values.iter().map(|value| f64::from(*value).powi(2)).sum();
    let product = values.iter().zip(hashed(values.len(), 7)).map(|(a, b)| f64::from(*a) * b).sum();
    (squares.sqrt(), product)
}

#[test]
fn scores_loss_and_gradient_are_those_of_pytorch() {
    for Numbers { kind, images: count, loss, scores, gradient: parts } in NUMBERS {
        let (mut model, data) = on(*kind, |folder| images(folder, *count));
        without_dropout(&mut model.layers);
        let mut learner = TorchLearner::new(model.clone(), data, 3).unwrap();
        let weights = fixed(&model);
        let near = |own: f64, theirs: f64, within: f64, what: &str| {
            assert!((own - theirs).abs() <= within, "{kind}, {what}: {own} and {theirs}");
        };
        let near_both = |own: OfLayer, theirs: OfLayer, exact: f64, what: &str| {
            near(own.0, theirs.0, exact * theirs.0, what);
            near(own.1, theirs.1, exact * theirs.0, what);
        };
        learner.load(&batch(0..*count)).unwrap();
        let layers = learner.layout().layers().to_vec();
        (0..layers.len()).for_each(|layer| learner.forward(&weights, layer).unwrap());
        near_both(of_values(&learner.take_activations().unwrap().values), *scores, 1e-4, "scores");
        let (own, gradient) = gradient(&mut learner, &weights, &batch(0..*count));
        near(f64::from(own), *loss, 1e-4 * loss, "loss");
        assert_eq!(layers.len(), parts.len(), "{kind}");
        for (layer, theirs) in layers.iter().zip(*parts) {
            near_both(of_values(&gradient[layer.span.clone()]), *theirs, exactness(*kind), &layer.name);
        }
    }
}

/// `cifar100-convex` is `cifar100-cnn`, whose lower layers have the weights that were drawn.
#[test]
fn the_last_layer_of_the_convex_model_has_the_scores_and_the_gradient_of_the_whole() {
    let (convex, data) = on(ModelKind::Cifar100Convex, |folder| images(folder, 4));
    let (whole, _) = on(ModelKind::Cifar100Cnn, |folder| images(folder, 4));
    let mut last = TorchLearner::new(convex.clone(), data.clone(), 3).unwrap();
    let mut all = TorchLearner::new(whole, data, 3).unwrap();
    let top = fixed(&convex);
    let weights = Vector::from([&last.frozen_weights()[..], &top[..]].concat());
    let (loss, own) = gradient(&mut last, &top, &batch(0..4));
    let (expected, theirs) = gradient(&mut all, &weights, &batch(0..4));
    assert_eq!(loss.to_bits(), expected.to_bits());
    assert_eq!(own[..], theirs[theirs.len() - own.len()..]);
}

/// The mean of the gradients that p workers have of their parts of a batch is that of the batch, dropout included.
/// Batch norm is the exception that its documentation names.
#[test]
fn halves_of_a_batch_have_the_gradient_of_the_whole() {
    for kind in ModelKind::ALL {
        let (model, data) = match place(*kind) {
            TestedIn::Images | TestedIn::Drawn => on(*kind, |folder| images(folder, 4)),
            TestedIn::Pictures => on(*kind, pictures),
            TestedIn::Texts | TestedIn::Elsewhere => continue,
        };
        if model.layers.iter().any(recipe::PlacedLayer::looks_across_batch) {
            continue;
        }
        let weights = fixed(&model);
        let mut learner = TorchLearner::new(model, data, 3).unwrap();
        let mut of = |examples: &[u32]| {
            gradient(&mut learner, &weights, &Batch { epoch: 1, examples: examples.to_vec() }).1
        };
        let whole = of(&[0, 1]);
        let first = of(&[0]);
        let second = of(&[1]);
        let mean: Vec<f32> = first.iter().zip(second.iter()).map(|(a, b)| f32::midpoint(*a, *b)).collect();
        // Of one picture libtorch chooses other kernels than of two, and some rectifiers of GoogLeNet choose otherwise.
        let exact = if *kind == ModelKind::Googlenet { 3e-4 } else { 1e-4 };
        close(&mean, &whole, exact, kind.name());
    }
}
