//! The models that have a name, a file for each, and how layers are put in place.

mod alexnet;
mod alexnet_cifar;
mod basic_block;
mod bottleneck;
mod cifar100_cnn;
mod cifar100_convex;
mod cifar_cnn;
mod googlenet;
mod gpt;
mod lenet;
mod mnist_mlp;
mod place;
mod resnet18;
mod resnet20;
mod resnet50;
mod sequence;
mod size;
mod softmax;
mod text_cnn;
mod vgg19;
mod vgg_cifar;
mod vgg_splitbrain;
mod window;

pub(crate) use gpt::{DropoutRate, GptSizes};
pub(crate) use place::{Misfit, place};
pub(crate) use text_cnn::TextCnnSizes;

use crate::{Layer, ModelKind};

/// Sizes of the models that have some in the recipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Sizes {
    pub(crate) gpt: GptSizes,
    pub(crate) text_cnn: TextCnnSizes,
}

#[cfg(test)]
impl Sizes {
    /// For tests that are about other models.
    pub(crate) const SMALL: Self = Self {
        gpt: GptSizes { depth: 1, heads: 1, width: 1, dropout: DropoutRate::new(0.0) },
        text_cnn: TextCnnSizes { width: 1, dropout: DropoutRate::new(0.0) },
    };
}

/// The layers of a named model; `None` for those that bring their own.
pub(crate) fn layers(kind: ModelKind, sizes: Sizes, classes: usize) -> Option<Vec<Layer>> {
    Some(match kind {
        ModelKind::Softmax => softmax::layers(classes),
        ModelKind::MnistMlp => mnist_mlp::layers(classes),
        ModelKind::Lenet => lenet::layers(classes),
        ModelKind::CifarCnn => cifar_cnn::layers(classes),
        ModelKind::Resnet20 => resnet20::layers(classes),
        ModelKind::Resnet18 => resnet18::layers(classes),
        ModelKind::Resnet50 => resnet50::layers(classes),
        ModelKind::Vgg19 => vgg19::layers(classes),
        ModelKind::VggCifar => vgg_cifar::layers(classes),
        ModelKind::Cifar100Cnn => cifar100_cnn::layers(classes),
        ModelKind::Cifar100Convex => cifar100_convex::layers(classes),
        ModelKind::Alexnet => alexnet::layers(classes),
        ModelKind::AlexnetCifar => alexnet_cifar::layers(classes),
        ModelKind::Googlenet => googlenet::layers(classes),
        ModelKind::VggSplitbrain => vgg_splitbrain::layers(classes),
        ModelKind::Gpt => gpt::layers(sizes.gpt),
        ModelKind::TextCnn => text_cnn::layers(sizes.text_cnn, classes),
        ModelKind::Sequential | ModelKind::Torchscript => return None,
    })
}
