//! The building block of residual networks with fewer than 50 layers: two convolutions of 3, each followed by batch norm, and a
//! rectifier behind the sum.
//!
//! Source: He, Zhang, Ren and Sun, "Deep Residual Learning for Image Recognition", 2016 (arXiv 1512.03385), section 3.2 and
//! figure 5, left. Where the width changes, the shortcut is the projection of equation 2, which the paper calls option B.

use crate::Layer;

/// Groups of `blocks` blocks each, of these widths: `channels` come in, and each group but the first halves the sides.
pub(super) fn groups(channels: usize, widths: &[usize], blocks: usize) -> Vec<Layer> {
    let mut layers = Vec::new();
    let mut inputs = channels;
    for (group, outputs) in widths.iter().copied().enumerate() {
        for block in 0..blocks {
            let stride = if group > 0 && block == 0 { 2 } else { 1 };
            layers.extend([basic_block(inputs, outputs, stride), Layer::Relu]);
            inputs = outputs;
        }
    }
    layers
}

fn basic_block(inputs: usize, outputs: usize, stride: usize) -> Layer {
    let mut branch = convolution(outputs, 3, stride);
    branch.push(Layer::Relu);
    branch.extend(convolution(outputs, 3, 1));
    Layer::Residual { branch, shortcut: projection(inputs, outputs, stride) }
}

/// The shortcut of a block: none where the shape stays.
pub(super) fn projection(inputs: usize, outputs: usize, stride: usize) -> Vec<Layer> {
    let identity = inputs == outputs && stride == 1;
    if identity { Vec::new() } else { convolution(outputs, 1, stride) }
}

/// A convolution that keeps the sides at a stride of 1, without a bias: that of the batch norm behind it takes its place.
pub(super) fn convolution(outputs: usize, kernel: usize, stride: usize) -> Vec<Layer> {
    vec![
        Layer::Conv { outputs, kernel, stride, padding: kernel / 2, bias: false, groups: 1 },
        Layer::BatchNorm,
    ]
}
