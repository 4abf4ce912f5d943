//! `cifar100-cnn` with only its last layer trained, which makes the loss convex (Li et al., "Pipe-SGD", NeurIPS 2018, section 4:
//! "training only the last fully connected layer while fixing the parameters of all previous layers"). The paper does not say
//! where the fixed weights come from; here they are drawn, as all initial weights are.

use super::cifar100_cnn;
use crate::Layer;

pub(super) fn layers(classes: usize) -> Vec<Layer> {
    let mut features = cifar100_cnn::layers(classes);
    let last = features.pop();
    [Layer::Frozen { layers: features }].into_iter().chain(last).collect()
}
