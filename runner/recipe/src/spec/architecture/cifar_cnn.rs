//! The network of Pipe-SGD (Li et al., NeurIPS 2018, section 4): three convolutions and two linear layers in the manner of
//! AlexNet. The widths are those of Caffe's quick CIFAR-10 model, whose pools round up where these round down.

use crate::Layer;

pub(super) fn layers(classes: usize) -> Vec<Layer> {
    vec![
        Layer::Conv { outputs: 32, kernel: 5, stride: 1, padding: 2, bias: true, groups: 1 },
        Layer::MaxPool { kernel: 3, stride: 2, padding: 0, ceil: false },
        Layer::Relu,
        Layer::Conv { outputs: 32, kernel: 5, stride: 1, padding: 2, bias: true, groups: 1 },
        Layer::Relu,
        Layer::AvgPool { kernel: 3, stride: 2, padding: 0, ceil: false },
        Layer::Conv { outputs: 64, kernel: 5, stride: 1, padding: 2, bias: true, groups: 1 },
        Layer::Relu,
        Layer::AvgPool { kernel: 3, stride: 2, padding: 0, ceil: false },
        Layer::Flatten,
        Layer::Linear { outputs: 64 },
        Layer::Relu,
        Layer::Linear { outputs: classes },
    ]
}
