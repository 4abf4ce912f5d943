//! Softmax regression: one linear layer.

use crate::Layer;

pub(super) fn layers(classes: usize) -> Vec<Layer> {
    vec![Layer::Flatten, Layer::Linear { outputs: classes }]
}
