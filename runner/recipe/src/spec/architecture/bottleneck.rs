//! The building block of residual networks with 50 and more layers: a convolution of 1 that narrows, one of 3, and one of 1 that
//! widens again, each followed by batch norm, with rectifiers between them and behind the sum.
//!
//! Source: He, Zhang, Ren and Sun, "Deep Residual Learning for Image Recognition", 2016 (arXiv 1512.03385), section 4.1 and
//! figure 5, right, with the projections of equation 2 where the width changes (option B).
//!
//! Departure: where a block halves the sides, the convolution of 3 has the stride, as in the code for Torch that AD-PSGD trained
//! with and in PyTorch; the authors' own has it in the first convolution of 1.

use super::basic_block::{convolution, projection};
use crate::Layer;

/// A block's result is this many times as wide as its convolution of 3.
const EXPANSION: usize = 4;

/// Groups of blocks whose convolutions of 3 have these widths, as many blocks as are named: `channels` come in, and each group
/// but the first halves the sides.
pub(super) fn groups(channels: usize, widths: &[usize], blocks: &[usize]) -> Vec<Layer> {
    let mut layers = Vec::new();
    let mut inputs = channels;
    for (group, (width, blocks)) in widths.iter().zip(blocks).enumerate() {
        for block in 0..*blocks {
            let stride = if group > 0 && block == 0 { 2 } else { 1 };
            layers.extend([bottleneck(inputs, *width, stride), Layer::Relu]);
            inputs = EXPANSION * width;
        }
    }
    layers
}

fn bottleneck(inputs: usize, width: usize, stride: usize) -> Layer {
    let outputs = EXPANSION * width;
    let mut branch = convolution(width, 1, 1);
    branch.push(Layer::Relu);
    branch.extend(convolution(width, 3, stride));
    branch.push(Layer::Relu);
    branch.extend(convolution(outputs, 1, 1));
    Layer::Residual { branch, shortcut: projection(inputs, outputs, stride) }
}
