//! Models and data sets for the tests of this package.

use recipe::{
    ArrayProblem, ArrayProfile, Dataset, FileProblem, Files, Layer, LayeredModel, Machine, ModelKind,
    Parameter, Partition, Paths, PlacedLayer, PlanRequest, Shape, Source,
};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use worker::data::DataSet;

/// The drawn data set.
pub(crate) fn drawn(train: u32, test: u32, validation: f64) -> Arc<DataSet> {
    let source = Source::Synthetic { train, test, seed: 1 };
    Arc::new(
        DataSet::load(&Dataset {
            source,
            sampling: recipe::Sampling::Permutation,
            augment: recipe::Augmentation::NONE,
            partition: Partition::Shared,
            validation,
        })
        .unwrap(),
    )
}

/// CIFAR-10 of `train` and `test` random records, written to a folder and read again.
pub(crate) fn coloured(train: usize, test: usize) -> Arc<DataSet> {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("data_batch_1.bin"), records(train, 1)).unwrap();
    fs::write(folder.path().join("test_batch.bin"), records(test, 2)).unwrap();
    Arc::new(cifar_10(folder.path()))
}

/// CIFAR-10 from a folder.
pub(crate) fn cifar_10(folder: &Path) -> DataSet {
    DataSet::load(&described(Source::Cifar10 { path: folder.to_owned() })).unwrap()
}

/// A source with nothing held out.
pub(crate) fn described(source: Source) -> Dataset {
    Dataset {
        source,
        sampling: recipe::Sampling::Permutation,
        partition: Partition::Shared,
        validation: 0.0,
        augment: recipe::Augmentation::NONE,
    }
}

fn records(count: usize, mut state: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    for number in 0..count {
        bytes.push((number % 10) as u8);
        bytes.extend((0..3072).map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        }));
    }
    bytes
}

pub(crate) const GREY: Shape = Shape::Image(1, 28, 28);
pub(crate) const COLOUR: Shape = Shape::Image(3, 32, 32);

pub(crate) fn linear(outputs: usize) -> Layer {
    Layer::Linear { outputs }
}

pub(crate) fn conv(outputs: usize, kernel: usize, stride: usize, padding: usize) -> Layer {
    Layer::Conv { outputs, kernel, stride, padding, bias: true, groups: 1 }
}

/// A convolution of 3 that keeps the sides at a stride of 1, without a bias.
pub(crate) fn bare_conv(outputs: usize, stride: usize) -> Layer {
    Layer::Conv { outputs, kernel: 3, stride, padding: 1, bias: false, groups: 1 }
}

pub(crate) fn max_pool(kernel: usize, stride: usize) -> Layer {
    Layer::MaxPool { kernel, stride, padding: 0, ceil: false }
}

pub(crate) fn avg_pool(kernel: usize, stride: usize) -> Layer {
    Layer::AvgPool { kernel, stride, padding: 0, ceil: false }
}

/// Softmax regression: one linear layer.
pub(crate) fn softmax() -> LayeredModel {
    place(ModelKind::Softmax, GREY, &[Layer::Flatten, linear(10)])
}

/// Three linear layers with 500, 500 and 10 outputs, and rectifiers between them.
pub(crate) fn mnist_mlp() -> LayeredModel {
    let layers = [Layer::Flatten, linear(500), Layer::Relu, linear(500), Layer::Relu, linear(10)];
    place(ModelKind::MnistMlp, GREY, &layers)
}

/// Two convolutions with max pooling, three linear layers.
pub(crate) fn lenet() -> LayeredModel {
    let layers = [
        conv(6, 5, 1, 2),
        Layer::Relu,
        max_pool(2, 2),
        conv(16, 5, 1, 0),
        Layer::Relu,
        max_pool(2, 2),
        Layer::Flatten,
        linear(120),
        Layer::Relu,
        linear(84),
        Layer::Relu,
        linear(10),
    ];
    place(ModelKind::Lenet, GREY, &layers)
}

/// Three convolutions with pooling on colour images.
pub(crate) fn cifar_cnn() -> LayeredModel {
    let layers = [
        conv(32, 5, 1, 2),
        max_pool(3, 2),
        Layer::Relu,
        conv(32, 5, 1, 2),
        Layer::Relu,
        avg_pool(3, 2),
        conv(64, 5, 1, 2),
        Layer::Relu,
        avg_pool(3, 2),
        Layer::Flatten,
        linear(10),
    ];
    place(ModelKind::CifarCnn, COLOUR, &layers)
}

/// An array as NumPy writes it.
pub(crate) fn npy(element: &str, shape: &str, elements: &[u8]) -> Vec<u8> {
    let mut header = format!("{{'descr': '{element}', 'fortran_order': False, 'shape': {shape}, }}");
    header += &" ".repeat(63 - (10 + header.len()) % 64);
    header.push('\n');
    [b"\x93NUMPY\x01\x00", &(header.len() as u16).to_le_bytes()[..], header.as_bytes(), elements].concat()
}

/// A named model for the drawn data set, as a recipe has it.
pub(crate) fn named(kind: ModelKind) -> LayeredModel {
    named_on(kind, None)
}

/// The same for arrays.
pub(crate) fn named_on(kind: ModelKind, arrays: Option<ArrayProfile>) -> LayeredModel {
    struct Recipe(String, Option<ArrayProfile>);
    impl Files for Recipe {
        fn read(&self, _: &Path) -> Result<String, FileProblem> {
            Ok(self.0.clone())
        }
        fn exists(&self, _: &Path) -> bool {
            false
        }
        fn arrays(&self, _: &Path) -> Result<ArrayProfile, Vec<ArrayProblem>> {
            self.1.ok_or_else(Vec::new)
        }
        fn current_directory(&self) -> PathBuf {
            PathBuf::from("/")
        }
    }
    let data = if arrays.is_some() { "[dataset]\nkind = \"npy\"\npath = \"own\"\n" } else { "" };
    let text = format!(
        "schema = 1\nmodel = \"{kind}\"\n{data}[train]\nglobal-batch = 2\nsteps = 1\n[[strategy]]\nkind = \"d-sync\"\n"
    );
    let request = PlanRequest::new(Path::new("/recipe.toml"));
    let plan = recipe::plan(&Recipe(text, arrays), &request, &Machine::new(1)).unwrap();
    plan.cells[0].spec.model.layered().unwrap().clone()
}

/// Puts layers into their places.
pub(crate) fn place(kind: ModelKind, input: Shape, layers: &[Layer]) -> LayeredModel {
    let placed = row(input, layers, "");
    let classes = placed.last().map_or(input, |last| last.output).size();
    LayeredModel { kind, input, classes, layers: placed, init: recipe::Init::Pytorch }
}

fn row(input: Shape, layers: &[Layer], prefix: &str) -> Vec<PlacedLayer> {
    let mut counts = BTreeMap::new();
    let mut shape = input;
    let mut placed = Vec::new();
    for layer in layers {
        let stem = match layer {
            Layer::Linear { .. } => "linear",
            Layer::Conv { .. } => "conv",
            Layer::MaxPool { .. } => "max-pool",
            Layer::AvgPool { .. } => "avg-pool",
            Layer::GlobalAvgPool => "global-avg-pool",
            Layer::GlobalMaxPool => "global-max-pool",
            Layer::TextConv { .. } => "text-conv",
            Layer::BatchNorm => "batch-norm",
            Layer::LocalResponseNorm { .. } => "local-response-norm",
            Layer::Residual { .. } => "residual",
            Layer::Branches { .. } => "branches",
            Layer::Relu => "relu",
            Layer::Embedding { .. } => "embedding",
            Layer::LayerNorm => "layer-norm",
            Layer::Attention { .. } => "attention",
            Layer::Gelu => "gelu",
            Layer::Block { .. } => "block",
            Layer::Frozen { .. } => "frozen",
            Layer::AuxiliaryHead { .. } => "auxiliary-head",
            Layer::TiedHead => "tied-head",
            Layer::Dropout { .. } => "dropout",
            Layer::Flatten => "flatten",
        };
        let count = counts.entry(stem).or_insert(0);
        *count += 1;
        let name = format!("{prefix}{stem}{count}");
        let paths = match layer {
            Layer::Residual { branch, shortcut } => Paths {
                branch: row(shape, branch, &format!("{name}.")),
                shortcut: row(shape, shortcut, &format!("{name}.shortcut.")),
                rows: vec![],
            },
            Layer::Branches { branches } => {
                let rows = branches.iter().zip(1..);
                let rows =
                    rows.map(|(layers, number)| row(shape, layers, &format!("{name}.{number}."))).collect();
                Paths { rows, ..Paths::default() }
            }
            Layer::Block { layers } | Layer::Frozen { layers } | Layer::AuxiliaryHead { layers, .. } => {
                Paths { branch: row(shape, layers, &format!("{name}.")), ..Paths::default() }
            }
            _ => Paths::default(),
        };
        let (output, mut parameters) = result(layer, &name, shape);
        let passes_on = matches!(layer, Layer::AuxiliaryHead { .. });
        let output = paths.branch.last().filter(|_| !passes_on).map_or(output, |last| last.output);
        let ends = paths.rows.iter().map(|row| row.last().map_or(shape, |last| last.output));
        let output = ends.reduce(beside).unwrap_or(output);
        let trained = paths.layers().filter(|_| !matches!(layer, Layer::Frozen { .. }));
        parameters.extend(trained.flat_map(|inner| inner.parameters.clone()));
        let layer = layer.clone();
        placed.push(PlacedLayer { name, layer, input: shape, output, parameters, flops: 0, paths });
        shape = output;
    }
    placed
}

/// The channels of both.
fn beside(one: Shape, other: Shape) -> Shape {
    match (one, other) {
        (Shape::Image(a, rows, columns), Shape::Image(b, ..)) => Shape::Image(a + b, rows, columns),
        _ => unreachable!("images"),
    }
}

fn result(layer: &Layer, name: &str, input: Shape) -> (Shape, Vec<Parameter>) {
    let parameter =
        |role: &str, shape: &[usize]| Parameter { name: format!("{name}.{role}"), shape: shape.to_vec() };
    let with =
        |outputs: usize, shape: &[usize]| vec![parameter("weight", shape), parameter("bias", &[outputs])];
    match (layer, input) {
        (Layer::Linear { outputs }, _) => (Shape::Flat(*outputs), with(*outputs, &[*outputs, input.size()])),
        (
            Layer::Conv { outputs, kernel, stride, padding, bias, groups },
            Shape::Image(channels, rows, columns),
        ) => {
            let side = |side: usize| (side + 2 * padding - kernel) / stride + 1;
            let output = Shape::Image(*outputs, side(rows), side(columns));
            let mut parameters = with(*outputs, &[*outputs, channels / groups, *kernel, *kernel]);
            parameters.truncate(1 + usize::from(*bias));
            (output, parameters)
        }
        (
            Layer::MaxPool { kernel, stride, padding, ceil }
            | Layer::AvgPool { kernel, stride, padding, ceil },
            Shape::Image(channels, rows, columns),
        ) => {
            // Windows are counted one by one.
            let side = |side: usize| {
                let end = side + 2 * padding;
                let whole = |begin: &usize| begin + kernel <= end || (*ceil && begin - stride + kernel < end);
                (0..side + padding).step_by(*stride).take_while(whole).count()
            };
            (Shape::Image(channels, side(rows), side(columns)), vec![])
        }
        (Layer::GlobalAvgPool | Layer::GlobalMaxPool, Shape::Image(channels, ..)) => {
            (Shape::Flat(channels), vec![])
        }
        (Layer::BatchNorm, Shape::Image(channels, ..) | Shape::Flat(channels)) => {
            (input, with(channels, &[channels]))
        }
        (Layer::Flatten, _) => (Shape::Flat(input.size()), vec![]),
        _ => (input, vec![]),
    }
}
