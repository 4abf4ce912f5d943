//! Three convolutions and two linear layers in the manner of AlexNet, as Pipe-SGD (Li et al., NeurIPS 2018, section 4) trains them on
//! CIFAR-100. The paper refers to another for the widths; these are those of Caffe's quick CIFAR-10 model
//! (`cifar10_quick_train_test.prototxt`), with its pools that round up and no rectifier between the linear layers.
//!
//! `cifar-cnn` has pools that round down, and a rectifier there.

use crate::Layer;

pub(super) fn layers(classes: usize) -> Vec<Layer> {
    let convolution =
        |outputs| Layer::Conv { outputs, kernel: 5, stride: 1, padding: 2, bias: true, groups: 1 };
    let mean = Layer::AvgPool { kernel: 3, stride: 2, padding: 0, ceil: true };
    vec![
        convolution(32),
        Layer::MaxPool { kernel: 3, stride: 2, padding: 0, ceil: true },
        Layer::Relu,
        convolution(32),
        Layer::Relu,
        mean.clone(),
        convolution(64),
        Layer::Relu,
        mean,
        Layer::Flatten,
        Layer::Linear { outputs: 64 },
        Layer::Linear { outputs: classes },
    ]
}
