//! VGG with 19 layers, without dropout on convolutions: sixteen convolutions of 3, each with a bias and a rectifier, a pool of 2
//! after each width, and three linear layers with dropout of 0.5 between them.
//!
//! Source: Simonyan and Zisserman, "Very Deep Convolutional Networks for Large-Scale Image Recognition", 2015 (arXiv 1409.1556),
//! table 1, configuration E, and section 3.1.

use crate::Layer;

pub(super) fn layers(classes: usize) -> Vec<Layer> {
    let mut layers = Vec::new();
    for (outputs, convolutions) in [(64, 2), (128, 2), (256, 4), (512, 4), (512, 4)] {
        for _ in 0..convolutions {
            layers.extend([
                Layer::Conv { outputs, kernel: 3, stride: 1, padding: 1, bias: true, groups: 1 },
                Layer::Relu,
            ]);
        }
        layers.push(Layer::MaxPool { kernel: 2, stride: 2, padding: 0, ceil: false });
    }
    layers.push(Layer::Flatten);
    for outputs in [4096, 4096] {
        layers.extend([Layer::Linear { outputs }, Layer::Relu, Layer::Dropout { rate: 0.5 }]);
    }
    layers.push(Layer::Linear { outputs: classes });
    layers
}
