//! The perceptron of Pipe-SGD (Li et al., NeurIPS 2018, section 4): 784-500-500-10.

use crate::Layer;

pub(super) fn layers(classes: usize) -> Vec<Layer> {
    vec![
        Layer::Flatten,
        Layer::Linear { outputs: 500 },
        Layer::Relu,
        Layer::Linear { outputs: 500 },
        Layer::Relu,
        Layer::Linear { outputs: classes },
    ]
}
