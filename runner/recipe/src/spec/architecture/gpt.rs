//! A small decoder-only transformer in the form of GPT-2.
//!
//! Source: Radford, Wu, Child, Luan, Amodei and Sutskever, "Language Models are Unsupervised Multitask Learners", 2019, section
//! 2.3: layer norm in front of each sub-block and one behind the last block, learned positions, a hidden layer of four times the
//! width. The head shares the matrix of the embedding, as in the first GPT (Radford et al., 2018) and its code. With V tokens, T
//! positions, L blocks and width C it has V C + T C + L (12 C^2 + 13 C) + 2 C weights.
//!
//! Departures: GELU by the error function, where the authors' code approximates it by a hyperbolic tangent; no dropout of the weights
//! of attention.

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
    /// Of values behind the embedding and before each sum.
    pub(crate) dropout: DropoutRate,
}

/// A probability below 1, kept as the bits of its 32-bit number, which have an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DropoutRate(u32);

impl DropoutRate {
    pub(crate) const fn new(rate: f64) -> Self {
        Self((rate as f32).to_bits())
    }

    /// The layer that drops; none where nothing is dropped.
    pub(super) fn layer(self) -> Option<Layer> {
        let rate = f32::from_bits(self.0);
        (rate > 0.0).then_some(Layer::Dropout { rate })
    }
}

pub(crate) fn layers(sizes: GptSizes) -> Vec<Layer> {
    let mut layers = vec![Layer::Embedding { width: sizes.width, positions: true }];
    layers.extend(sizes.dropout.layer());
    layers.extend((0..sizes.depth).map(|_| block(sizes)));
    layers.extend([Layer::LayerNorm, Layer::TiedHead]);
    layers
}

fn block(sizes: GptSizes) -> Layer {
    let GptSizes { heads, width, dropout, .. } = sizes;
    let mut attention = vec![Layer::LayerNorm, Layer::Attention { heads }];
    let mut hidden = vec![
        Layer::LayerNorm,
        Layer::Linear { outputs: 4 * width },
        Layer::Gelu,
        Layer::Linear { outputs: width },
    ];
    attention.extend(dropout.layer());
    hidden.extend(dropout.layer());
    let residual = |branch| Layer::Residual { branch, shortcut: Vec::new() };
    Layer::Block { layers: vec![residual(attention), residual(hidden)] }
}
