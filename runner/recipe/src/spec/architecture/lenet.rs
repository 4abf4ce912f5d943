//! Caffe's variant of LeNet-5, which the EASGD paper trains.

use crate::Layer;

pub(super) fn layers(classes: usize) -> Vec<Layer> {
    vec![
        Layer::Conv { outputs: 20, kernel: 5, stride: 1, padding: 0, bias: true, groups: 1 },
        Layer::MaxPool { kernel: 2, stride: 2, padding: 0, ceil: false },
        Layer::Conv { outputs: 50, kernel: 5, stride: 1, padding: 0, bias: true, groups: 1 },
        Layer::MaxPool { kernel: 2, stride: 2, padding: 0, ceil: false },
        Layer::Flatten,
        Layer::Linear { outputs: 500 },
        Layer::Relu,
        Layer::Linear { outputs: classes },
    ]
}
