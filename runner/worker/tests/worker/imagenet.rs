//! The models of ImageNet at its size, on fixed weights and pictures, against the numbers of PyTorch 2.11 in 64 bits that `imagenet.py`
//! prints.

use crate::gradients::{batch, gradient};
use crate::support::{described, named_on, npy};
use recipe::{ArrayProfile, Layer, LayeredModel, ModelKind, PlacedLayer, Source};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use strategies::{Learner, Vector};
use worker::data::{DataSet, Split};
use worker::model::{TorchLearner, TrainedModel};

const IMAGES: usize = 2;
const VALUES: usize = IMAGES * 3 * 224 * 224;
const LABELS: [i64; IMAGES] = [999, 3];

/// The length of a layer's gradient, and its product with `hashed` of number 7.
pub(crate) type OfLayer = (f64, f64);

const GOOGLENET: &[OfLayer] = &[
    (3.904_719, -1.861_590),
    (11.793_485, -8.464_765),
    (37.351_295, 34.584_236),
    (41.369_347, -9.029_540),
    (46.327_669, -26.395_115),
    (47.390_924, -31.273_046),
    (34.664_061, 7.266_970),
    (42.194_164, 4.735_861),
    (39.930_062, -33.195_841),
    (45.380_124, -29.630_693),
    (23.543_811, 3.165_083),
    (39.979_404, 4.563_924),
    (47.187_272, 12.570_718),
    (53.703_390, 18.358_800),
    (48.500_501, 16.757_628),
];
const ALEXNET: &[OfLayer] = &[
    (4.719_105, -0.596_341),
    (14.240_885, -1.067_924),
    (24.229_053, -8.331_526),
    (20.334_589, -6.967_959),
    (19.879_653, 38.446_313),
    (51.426_404, 13.240_652),
    (33.834_391, -24.239_461),
    (32.322_878, -0.496_294),
];

/// The `hashed` of `imagenet.py`: numbers from -1 to 1, the same in each run.
pub(crate) fn hashed(count: usize, number: u64) -> impl Iterator<Item = f64> {
    (1..=count as u64).map(move |place| {
        let mixed = (place.wrapping_mul(2_654_435_761) + number * 40_503) & 0xffff_ffff;
        let mixed = ((mixed >> 15) ^ mixed).wrapping_mul(2_246_822_519) & 0xffff_ffff;
        mixed as f64 / 2.0_f64.powi(31) - 1.0
    })
}

fn fixed(model: &LayeredModel) -> Vector {
    let layers = model.weighted_layers();
    let tensors = layers.iter().flat_map(|layer| layer.parameters);
    let mut weights: Vec<f32> = Vec::new();
    for (number, tensor) in (0..).zip(tensors) {
        let scale = tensor.matrix().map_or(0.1, |matrix| (6.0 / matrix.columns as f64).sqrt());
        weights.extend(hashed(tensor.size(), number).map(|value| (value * scale) as f32));
    }
    Vector::from(weights)
}

/// Two pictures of a thousand classes, for training and for testing.
pub(crate) fn pictures(folder: &Path) -> ArrayProfile {
    let values: Vec<u8> = hashed(VALUES, 1000).flat_map(|value| (value as f32).to_le_bytes()).collect();
    let labels: Vec<u8> = LABELS.iter().flat_map(|label| label.to_le_bytes()).collect();
    for name in ["train", "test"] {
        fs::write(folder.join(format!("{name}_x.npy")), npy("<f4", "(2, 3, 224, 224)", &values)).unwrap();
        fs::write(folder.join(format!("{name}_y.npy")), npy("<i8", "(2,)", &labels)).unwrap();
    }
    arrays::describe(folder).unwrap()
}

/// Masks are the worker's own.
pub(crate) fn without_dropout(layers: &mut [PlacedLayer]) {
    for placed in layers {
        if let Layer::Dropout { rate } = &mut placed.layer {
            *rate = 0.0;
        }
        without_dropout(&mut placed.paths.branch);
    }
}

fn compare(kind: ModelKind, evaluated: f64, loss: f64, of_layers: &[OfLayer]) {
    let folder = tempfile::tempdir().unwrap();
    let arrays = pictures(folder.path());
    let source = Source::Npy { path: folder.path().to_owned(), arrays };
    let data = Arc::new(DataSet::load(&described(source)).unwrap());
    let mut model = named_on(kind, Some(arrays));
    without_dropout(&mut model.layers);
    let mut learner = TorchLearner::new(model.clone(), data, 3).unwrap();
    let weights = fixed(&model);
    // In 32 bits some rectifiers and pools among millions choose otherwise, others on each kind of processor: without AVX-512
    // the products of PyTorch's own gradients of 32 bits lie up to 6.5e-4 lengths away for GoogLeNet, and its lengths 1.6e-4.
    let exact = if kind == ModelKind::Googlenet { 3e-4 } else { 1e-4 };
    let near = |own: f64, theirs: f64, of: f64, what: &str| {
        assert!((own - theirs).abs() <= exact * of, "{kind}, {what}: {own} and {theirs}");
    };
    let found = learner.evaluate(&weights, Split::Test).unwrap().unwrap();
    near(found.loss, evaluated, evaluated, "evaluated");
    let (own, gradient) = gradient(&mut learner, &weights, &batch(0..IMAGES as u32));
    near(f64::from(own), loss, loss, "loss");
    let layers = learner.layout().layers();
    assert_eq!(layers.len(), of_layers.len());
    for (layer, (length, along)) in layers.iter().zip(of_layers) {
        let own = &gradient[layer.span.clone()];
        let squares: f64 = own.iter().map(|value| f64::from(*value).powi(2)).sum();
        near(squares.sqrt(), *length, *length, &layer.name);
        let product: f64 = own.iter().zip(hashed(own.len(), 7)).map(|(a, b)| f64::from(*a) * b).sum();
        near(product, *along, 10.0 * length, &layer.name);
    }
}

#[test]
fn googlenet_is_that_of_pytorch() {
    compare(ModelKind::Googlenet, 11.561_816, 18.639_027, GOOGLENET);
}

#[test]
fn alexnet_is_that_of_pytorch() {
    compare(ModelKind::Alexnet, 7.324_231, 7.324_231, ALEXNET);
}
