//! AlexNet on CIFAR, as You, Buluc and Demmel train it (SC17, section 4.2: five convolutions and three linear layers). They do not
//! say how it fits 32 x 32 images; their 249 MB are the weights of AlexNet without groups on ImageNet. Here the first kernel is 5 with a
//! stride of 2 in place of 11 with 4, windows of pools are 2, and there is no response norm.

use super::alexnet;
use crate::Layer;

const POOL: Layer = Layer::MaxPool { kernel: 2, stride: 2, padding: 0, ceil: false };

pub(super) fn layers(classes: usize) -> Vec<Layer> {
    let convolution = |outputs, kernel, stride| {
        let padding = kernel / 2;
        [Layer::Conv { outputs, kernel, stride, padding, bias: true, groups: 1 }, Layer::Relu]
    };
    let mut layers = Vec::new();
    layers.extend(convolution(96, 5, 2));
    layers.push(POOL);
    layers.extend(convolution(256, 5, 1));
    layers.push(POOL);
    for outputs in [384, 384, 256] {
        layers.extend(convolution(outputs, 3, 1));
    }
    layers.extend([POOL, Layer::Flatten]);
    layers.extend(alexnet::classifier(classes));
    layers
}
