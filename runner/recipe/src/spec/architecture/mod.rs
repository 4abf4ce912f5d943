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
mod softmax;
mod text_cnn;
mod vgg19;
mod vgg_cifar;
mod vgg_splitbrain;
mod window;

pub(crate) use gpt::{DropoutRate, GptSizes, layers as gpt_layers};
pub(crate) use place::{MOST_WEIGHTS, Misfit, place};
pub(crate) use text_cnn::{TextCnnSizes, layers as text_cnn_layers};

use crate::{Layer, ModelKind};

/// The layers of a named model; `None` for those that bring their own, or that have sizes in the recipe.
pub(crate) fn layers(kind: ModelKind, classes: usize) -> Option<Vec<Layer>> {
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
        ModelKind::Gpt | ModelKind::TextCnn | ModelKind::Sequential | ModelKind::Torchscript => return None,
    })
}
