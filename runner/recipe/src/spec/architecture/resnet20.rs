//! The residual network for CIFAR with 6 n + 2 = 20 layers (n = 3).
//!
//! Source: He, Zhang, Ren and Sun, "Deep Residual Learning for Image Recognition", 2016 (arXiv 1512.03385), section 4.2.
//!
//! Departure: shortcuts between widths are projections with batch norm (option B), as in much code; the paper takes identities
//! that are padded with zeros (option A), 2,752 weights fewer of 272,474.

use super::basic_block::groups;
use crate::Layer;

pub(super) fn layers(classes: usize) -> Vec<Layer> {
    let mut layers = vec![
        Layer::Conv { outputs: 16, kernel: 3, stride: 1, padding: 1, bias: false, groups: 1 },
        Layer::BatchNorm,
        Layer::Relu,
    ];
    layers.extend(groups(16, &[16, 32, 64], 3));
    layers.extend([Layer::GlobalAvgPool, Layer::Linear { outputs: classes }]);
    layers
}
