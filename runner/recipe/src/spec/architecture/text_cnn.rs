//! A convolutional network over the words of a text, for `dataset.kind = "text"`.
//!
//! Source: Kim, "Convolutional Neural Networks for Sentence Classification", EMNLP 2014 (arXiv 1408.5882), section 2 and figure 1,
//! the variant CNN-rand of table 1: a vector for each word, filters over 3, 4 and 5 neighbouring words with 100 feature maps each,
//! a rectifier, the largest value of each feature map over all positions, dropout, and a linear layer to the classes. Sections 3.1 and
//! 3.3 have the sizes: vectors of 300 values, a dropout rate of 0.5. With V tokens, C classes and width D it has
//! V D + 100 (3 + 4 + 5) D + 300 + 300 C + C weights. It is the model that the language experiments of AD-PSGD
//! (arXiv 1710.06952, appendix B) describe: a table of vectors, a convolution, a linear layer.
//!
//! Departures: the vector of padding is learned as all others are, where the author's code keeps it at zero; the rows of the last
//! layer's matrix are not rescaled to a length of 3; vectors are drawn as `model.init` says, not uniformly within 0.25. Texts are
//! padded behind only, where that code puts four zeros before them too, and windows of padding count among the positions.

use super::gpt::DropoutRate;
use crate::Layer;

/// The sizes that a recipe gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TextCnnSizes {
    /// D, the values of a word's vector.
    pub(crate) width: usize,
    /// Of the largest values, before the linear layer.
    pub(crate) dropout: DropoutRate,
}

/// Words that filters look at.
const WINDOWS: [usize; 3] = [3, 4, 5];
/// Feature maps for each window.
const MAPS: usize = 100;

pub(crate) fn layers(sizes: TextCnnSizes, classes: usize) -> Vec<Layer> {
    let filters = |kernel| {
        vec![
            Layer::TextConv { outputs: MAPS, kernel, stride: 1, padding: 0 },
            Layer::Relu,
            Layer::GlobalMaxPool,
        ]
    };
    let mut layers = vec![
        Layer::Embedding { width: sizes.width, positions: false },
        Layer::Branches { branches: WINDOWS.map(filters).into() },
    ];
    layers.extend(sizes.dropout.layer());
    layers.push(Layer::Linear { outputs: classes });
    layers
}
