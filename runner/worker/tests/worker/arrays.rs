//! A user's own arrays beside the public data sets that hold the same images.

use crate::support::{described, linear, npy, place};
use recipe::{ArrayProfile, ArrayValues, Layer, LayeredModel, ModelKind, Shape, Source};
use sha2::{Digest, Sha256};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use strategies::{Batch, Learner, Vector};
use worker::data::{DataSet, Split};
use worker::model::TorchLearner;

const ROWS: usize = 6;
const COLUMNS: usize = 5;
const IMAGE: usize = ROWS * COLUMNS;

/// Pixels and labels of `count` images, of no particular kind.
fn drawn(count: usize, mut state: u32) -> (Vec<u8>, Vec<u8>) {
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    let pixels = (0..count * IMAGE).map(|_| next()).collect();
    (pixels, (0..count).map(|_| next() % 10).collect())
}

/// The same images as IDX files and as arrays.
fn write_both(folder: &Path) {
    for (idx, name, count) in [("train", "train", 90), ("t10k", "test", 30)] {
        let (pixels, mut labels) = drawn(count, count as u32);
        labels[0] = 9;
        let head: Vec<u8> = [2051, count as u32, ROWS as u32, COLUMNS as u32]
            .into_iter()
            .flat_map(u32::to_be_bytes)
            .collect();
        fs::write(folder.join(format!("{idx}-images-idx3-ubyte")), [head, pixels.clone()].concat()).unwrap();
        let head: Vec<u8> = [2049, count as u32].into_iter().flat_map(u32::to_be_bytes).collect();
        fs::write(folder.join(format!("{idx}-labels-idx1-ubyte")), [head, labels.clone()].concat()).unwrap();
        let shape = format!("({count}, 1, {ROWS}, {COLUMNS})");
        fs::write(folder.join(format!("{name}_x.npy")), npy("|u1", &shape, &pixels)).unwrap();
        let wide: Vec<u8> = labels.iter().flat_map(|label| i64::from(*label).to_le_bytes()).collect();
        fs::write(folder.join(format!("{name}_y.npy")), npy("<i8", &format!("({count},)"), &wide)).unwrap();
    }
}

fn own(folder: &Path) -> Source {
    Source::Npy { path: folder.to_owned(), arrays: arrays::describe(folder).unwrap() }
}

fn loaded(source: Source) -> Arc<DataSet> {
    Arc::new(DataSet::load(&described(source)).unwrap())
}

/// The weights after some steps of plain gradient descent.
fn trained(data: &Arc<DataSet>) -> Vector {
    worker::threads::compute_with(1);
    let Shape::Image(..) = data.shape() else { panic!("images") };
    let layers = [Layer::Flatten, linear(16), Layer::Relu, linear(10)];
    let model: LayeredModel = place(ModelKind::Sequential, data.shape(), &layers);
    let mut learner = TorchLearner::new(model, data.clone(), 1).unwrap();
    let mut weights = learner.initial();
    let layout = learner.layout().clone();
    let mut gradient = Vector::zeros(weights.len());
    for examples in data.training_ids().chunks(9) {
        let batch = Batch { epoch: 0, examples: examples.to_vec() };
        learner.load(&batch).unwrap();
        for layer in 0..layout.layers().len() {
            learner.forward(&weights, layer).unwrap();
        }
        learner.loss(&batch).unwrap();
        for (layer, described) in layout.layers().iter().enumerate().rev() {
            learner.backward(&weights, layer, &mut gradient[described.span.clone()]).unwrap();
        }
        for (weight, slope) in weights.iter_mut().zip(gradient.iter()) {
            *weight -= 0.1 * slope;
        }
    }
    weights
}

#[test]
fn the_images_of_mnist_as_arrays_of_bytes_are_mnist_bit_for_bit() {
    let folder = tempfile::tempdir().unwrap();
    write_both(folder.path());
    let mnist = loaded(Source::Mnist { path: folder.path().to_owned() });
    let own = loaded(own(folder.path()));
    assert_eq!((own.shape(), own.classes()), (mnist.shape(), mnist.classes()));
    assert_eq!((own.labels(), own.normal()), (mnist.labels(), mnist.normal()));
    for split in [Split::Training, Split::Test] {
        let all = mnist.positions(split);
        let bits = |set: &DataSet| -> Vec<u32> {
            set.values(split, all).unwrap().into_iter().map(f32::to_bits).collect()
        };
        assert_eq!(bits(&own), bits(&mnist));
        assert_eq!(own.labels_at(split, all).unwrap(), mnist.labels_at(split, all).unwrap());
    }
    let one = trained(&own);
    let other = trained(&mnist);
    assert_eq!(one.sha256(), other.sha256());
    assert!(one.iter().all(|weight| weight.is_finite()));
}

/// A safetensors file with these pixels and labels of 64 bits, labels first.
fn tensors(pixels: &[u8], labels: &[u8], count: usize) -> Vec<u8> {
    let end = labels.len() + pixels.len();
    let mut header = format!(
        "{{\"x\":{{\"dtype\":\"U8\",\"shape\":[{count},1,{ROWS},{COLUMNS}],\"data_offsets\":[{},{end}]}},\
         \"y\":{{\"dtype\":\"I64\",\"shape\":[{count}],\"data_offsets\":[0,{}]}}}}",
        labels.len(),
        labels.len()
    );
    header += &" ".repeat(7 - (header.len() + 7) % 8);
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), labels, pixels].concat()
}

#[test]
fn the_same_data_as_safetensors_trains_the_same_bits() {
    let folder = tempfile::tempdir().unwrap();
    write_both(folder.path());
    for (name, count) in [("train", 90), ("test", 30)] {
        let elements = |array: &str, bytes: usize| {
            let whole = fs::read(folder.path().join(format!("{name}_{array}.npy"))).unwrap();
            whole[whole.len() - bytes..].to_vec()
        };
        let pixels = elements("x", count * IMAGE);
        let labels = elements("y", count * 8);
        let path = folder.path().join(format!("{name}.safetensors"));
        fs::write(path, tensors(&pixels, &labels, count)).unwrap();
    }
    let arrays = arrays::describe_safetensors(folder.path()).unwrap();
    assert_eq!(arrays, arrays::describe(folder.path()).unwrap());
    let path = folder.path().to_owned();
    let own = loaded(own(folder.path()));
    let tensors = loaded(Source::Safetensors { path, arrays });
    assert_eq!(
        (own.shape(), own.labels(), own.normal()),
        (tensors.shape(), tensors.labels(), tensors.normal())
    );
    assert_eq!(trained(&own).sha256(), trained(&tensors).sha256());
    assert_ne!(own.digest(), tensors.digest(), "other files are other data");
}

#[test]
fn the_digest_is_over_names_lengths_and_contents() {
    let folder = tempfile::tempdir().unwrap();
    write_both(folder.path());
    let mut expected = Sha256::new();
    for name in ["train_x.npy", "train_y.npy", "test_x.npy", "test_y.npy"] {
        let bytes = fs::read(folder.path().join(name)).unwrap();
        expected.update((name.len() as u64).to_le_bytes());
        expected.update(name);
        expected.update((bytes.len() as u64).to_le_bytes());
        expected.update(bytes);
    }
    assert_eq!(loaded(own(folder.path())).digest(), recipe::hex(&expected.finalize()));
}

#[test]
fn floats_go_to_the_model_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    write_both(folder.path());
    let rows = |count: usize| -> Vec<f32> { (0..count * 3).map(|place| place as f32 * 0.25 - 7.0).collect() };
    for (name, count) in [("train", 90), ("test", 30)] {
        let bytes: Vec<u8> = rows(count).into_iter().flat_map(f32::to_le_bytes).collect();
        fs::write(folder.path().join(format!("{name}_x.npy")), npy("<f4", &format!("({count}, 3)"), &bytes))
            .unwrap();
    }
    let set = loaded(own(folder.path()));
    assert_eq!(set.shape(), Shape::Flat(3));
    assert_eq!(set.values(Split::Training, set.positions(Split::Training)).unwrap(), rows(90));
    let inputs = set.inputs(Split::Test, &[2, 0]).unwrap();
    assert_eq!(inputs.size(), [2, 3]);
    let values: Vec<f32> = Vec::try_from(inputs.reshape([6])).unwrap();
    assert_eq!(values, [&rows(30)[6..9], &rows(30)[..3]].concat());
}

#[test]
fn arrays_that_changed_since_the_recipe_was_checked_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    write_both(folder.path());
    let Source::Npy { path, arrays } = own(folder.path()) else { panic!("arrays") };
    let load = |arrays: ArrayProfile| {
        DataSet::load(&described(Source::Npy { path: path.clone(), arrays })).unwrap_err().to_string()
    };
    for changed in [
        ArrayProfile { classes: 11, ..arrays },
        ArrayProfile { train: 91, ..arrays },
        ArrayProfile { values: ArrayValues::Floats, ..arrays },
        ArrayProfile { shape: Shape::Flat(30), ..arrays },
    ] {
        let said = load(changed);
        assert!(said.contains("have changed since the recipe was checked"), "{said}");
        assert!(
            said.ends_with("now 90 and 30 samples of [1, 6, 5], bytes, 10 classes; run the recipe again"),
            "{said}"
        );
    }
    fs::write(path.join("train_y.npy"), npy("<i8", "(90,)", &[255; 720])).unwrap();
    let said = load(arrays);
    assert!(said.contains("train_y.npy has label -1 at [0]") && said.contains("np.unique"), "{said}");
}
