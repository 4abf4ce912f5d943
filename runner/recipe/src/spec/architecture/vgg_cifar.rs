//! VGG for CIFAR: the thirteen convolutions of VGG's configuration D, each with a bias, batch norm and a rectifier, and a classifier
//! of 512. AD-PSGD says of it that it is about 60 MB and trained in Torch with a rate of 1 that is halved every 25 epochs; size and
//! rates are those of Zagoruyko's `vgg_bn_drop` for Torch (2015), whose layers these are.
//!
//! Departure: batch norm adds 1e-5 to variances, where that code adds 1e-3 behind convolutions.

use crate::Layer;

pub(super) fn layers(classes: usize) -> Vec<Layer> {
    let mut layers = Vec::new();
    // Behind all convolutions of a width but the last, values are dropped.
    for (outputs, convolutions, rate) in
        [(64, 2, 0.3), (128, 2, 0.4), (256, 3, 0.4), (512, 3, 0.4), (512, 3, 0.4)]
    {
        for convolution in 1..=convolutions {
            layers.extend([
                Layer::Conv { outputs, kernel: 3, stride: 1, padding: 1, bias: true, groups: 1 },
                Layer::BatchNorm,
                Layer::Relu,
            ]);
            if convolution < convolutions {
                layers.push(Layer::Dropout { rate });
            }
        }
        layers.push(Layer::MaxPool { kernel: 2, stride: 2, padding: 0, ceil: true });
    }
    layers.extend([
        Layer::Flatten,
        Layer::Dropout { rate: 0.5 },
        Layer::Linear { outputs: 512 },
        Layer::BatchNorm,
        Layer::Relu,
        Layer::Dropout { rate: 0.5 },
        Layer::Linear { outputs: classes },
    ]);
    layers
}
