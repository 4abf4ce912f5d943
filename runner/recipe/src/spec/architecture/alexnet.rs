//! AlexNet (Krizhevsky, Sutskever and Hinton, "ImageNet Classification with Deep Convolutional Neural Networks", 2012, section
//! 3.5 and figure 2), in one tower whose second, fourth and fifth convolution have two groups of channels, as the two cards of
//! the paper had. The norms have the paper's settings (section 3.3), and come before the pools, which overlap (section 3.4).
//! The paper's images of 224 give 55 places to the first kernels only with a padding of 2.

use crate::Layer;

/// Section 3.3: k = 2, n = 5, alpha = 1e-4 for the sum of squares, which here is for their mean, and beta = 0.75.
const NORM: Layer = Layer::LocalResponseNorm { size: 5, alpha: 5e-4, beta: 0.75, k: 2.0 };
const POOL: Layer = Layer::MaxPool { kernel: 3, stride: 2, padding: 0, ceil: false };

pub(super) fn layers(classes: usize) -> Vec<Layer> {
    let convolution = |outputs, kernel, groups| Layer::Conv {
        outputs,
        kernel,
        stride: 1,
        padding: kernel / 2,
        bias: true,
        groups,
    };
    let first = Layer::Conv { outputs: 96, kernel: 11, stride: 4, padding: 2, bias: true, groups: 1 };
    let mut layers = vec![first, Layer::Relu, NORM, POOL];
    layers.extend([convolution(256, 5, 2), Layer::Relu, NORM, POOL]);
    layers.extend([convolution(384, 3, 1), Layer::Relu]);
    layers.extend([convolution(384, 3, 2), Layer::Relu]);
    layers.extend([convolution(256, 3, 2), Layer::Relu, POOL, Layer::Flatten]);
    layers.extend(classifier(classes));
    layers
}

/// Two hidden layers of 4096, each with dropout of 0.5 (section 4.2), and the scores.
pub(super) fn classifier(classes: usize) -> Vec<Layer> {
    let hidden = [Layer::Linear { outputs: 4096 }, Layer::Relu, Layer::Dropout { rate: 0.5 }];
    [&hidden[..], &hidden, &[Layer::Linear { outputs: classes }]].concat()
}
