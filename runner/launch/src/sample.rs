//! A small run for tests.

use recipe::{Extent, Layer, LayeredModel, Model, ModelKind, Parameter, PlacedLayer, RunSpec, Shape, Source};

/// A linear model on drawn glyphs, trained by this many workers.
pub(crate) fn spec(workers: u32) -> RunSpec {
    let layer = PlacedLayer {
        name: "linear1".into(),
        layer: Layer::Linear { outputs: 10 },
        input: Shape::Flat(784),
        output: Shape::Flat(10),
        parameters: vec![
            Parameter { name: "linear1.weight".into(), shape: vec![10, 784] },
            Parameter { name: "linear1.bias".into(), shape: vec![10] },
        ],
        flops: 2 * 7_840,
        paths: recipe::Paths::default(),
    };
    let mut spec = RunSpec::sample(workers);
    spec.model = Model::Layers(LayeredModel {
        kind: ModelKind::Softmax,
        input: Shape::Image(1, 28, 28),
        classes: 10,
        layers: vec![layer],
        init: recipe::Init::Pytorch,
    });
    spec.dataset.source = Source::Synthetic { train: 1_000, test: 200, seed: 1 };
    spec.train.global_batch = 64;
    spec.train.length = Extent::Steps(6);
    spec.train.optimizer.lr = 0.1;
    spec.train.evaluate = Extent::Steps(3);
    spec
}
