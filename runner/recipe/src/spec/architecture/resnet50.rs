//! The residual network for ImageNet with 50 layers. It takes images of any size from 1 x 1 on.
//!
//! Source: He, Zhang, Ren and Sun, "Deep Residual Learning for Image Recognition", 2016 (arXiv 1512.03385), table 1; its blocks,
//! and where they depart from it, are in `bottleneck.rs`.

use super::bottleneck::groups;
use crate::Layer;

pub(super) fn layers(classes: usize) -> Vec<Layer> {
    let mut layers = vec![
        Layer::Conv { outputs: 64, kernel: 7, stride: 2, padding: 3, bias: false, groups: 1 },
        Layer::BatchNorm,
        Layer::Relu,
        Layer::MaxPool { kernel: 3, stride: 2, padding: 1, ceil: false },
    ];
    layers.extend(groups(64, &[64, 128, 256, 512], &[3, 4, 6, 3]));
    layers.extend([Layer::GlobalAvgPool, Layer::Linear { outputs: classes }]);
    layers
}
