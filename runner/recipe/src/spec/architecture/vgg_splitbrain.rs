//! SplitBrain's variant of VGG (Lai, Kadav and Kruus, Table 1), which lists the layers with weights. The rest is VGG's
//! (Simonyan and Zisserman, 2014, sections 2.1 and 3.1): kernels of 3, rectifiers, a pool after each width of channels, dropout
//! of 0.5 between linear layers.

use crate::Layer;

pub(super) fn layers(classes: usize) -> Vec<Layer> {
    let mut layers = Vec::new();
    for stack in [&[64, 64][..], &[128, 128], &[256, 256, 256]] {
        for outputs in stack.iter().copied() {
            layers.extend([
                Layer::Conv { outputs, kernel: 3, stride: 1, padding: 1, bias: true, groups: 1 },
                Layer::Relu,
            ]);
        }
        layers.push(Layer::MaxPool { kernel: 2, stride: 2, padding: 0, ceil: false });
    }
    layers.push(Layer::Flatten);
    for outputs in [1024, 1024] {
        layers.extend([Layer::Linear { outputs }, Layer::Relu, Layer::Dropout { rate: 0.5 }]);
    }
    layers.push(Layer::Linear { outputs: classes });
    layers
}
