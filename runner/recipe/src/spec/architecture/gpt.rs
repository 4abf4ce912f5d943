//! A small decoder-only transformer in the form of GPT-2.
//!
//! Source: Radford, Wu, Child, Luan, Amodei and Sutskever, "Language Models are Unsupervised Multitask Learners", 2019, section
//! 2.3: layer norm in front of each sub-block and one behind the last block, learned positions, a hidden layer of four times the
//! width. The head shares the matrix of the embedding, as in the first GPT (Radford et al., 2018) and its code. With V tokens, T
//! positions, L blocks and width C it has V C + T C + L (12 C^2 + 13 C) + 2 C weights.
//!
//! Departures: GELU by the error function, where the authors' code approximates it by a hyperbolic tangent; no dropout.

use crate::Layer;

/// The sizes that a recipe gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct GptSizes {
    /// L, the blocks of attention and hidden layer.
    pub(crate) depth: usize,
    /// Heads of each attention, which divide the width.
    pub(crate) heads: usize,
    /// C, the values at each position.
    pub(crate) width: usize,
}

pub(crate) fn layers(sizes: GptSizes) -> Vec<Layer> {
    let GptSizes { depth, heads, width } = sizes;
    let mut layers = vec![Layer::Embedding { width }];
    layers.extend((0..depth).map(|_| block(heads, width)));
    layers.extend([Layer::LayerNorm, Layer::TiedHead]);
    layers
}

fn block(heads: usize, width: usize) -> Layer {
    let attention = vec![Layer::LayerNorm, Layer::Attention { heads }];
    let hidden = vec![
        Layer::LayerNorm,
        Layer::Linear { outputs: 4 * width },
        Layer::Gelu,
        Layer::Linear { outputs: width },
    ];
    let residual = |branch| Layer::Residual { branch, shortcut: Vec::new() };
    Layer::Block { layers: vec![residual(attention), residual(hidden)] }
}
