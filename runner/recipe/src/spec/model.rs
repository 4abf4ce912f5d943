//! Models as pure data: a sequence of layers, or a file; nothing that computes.

use crate::spec::family::family;
use crate::spec::layer::{Layer, Shape};
use crate::spec::model_file::ModelFile;
use crate::spec::placed_layer::{Parameter, PlacedLayer};
use crate::spec::weighted_layer::WeightedLayer;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

family! {
    /// The models that a recipe can name.
    #[derive(Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum ModelKind {
        Softmax = "softmax": "One linear layer from the input to the classes: convex.",
        MnistMlp = "mnist-mlp": "Two hidden layers of 500: 784-500-500-10 on 28 x 28 images.",
        Lenet = "lenet": "Two convolutions of 20 and 50 channels, each pooled, and a hidden layer of 500.",
        CifarCnn = "cifar-cnn": "Three convolutions of 32, 32 and 64 channels, each pooled, and two linear \
            layers.",
        Resnet20 = "resnet20": "The residual network of He et al. for CIFAR with 20 layers and 0.27 million weights: \
            three groups of three blocks with 16, 32 and 64 channels, and projections where the width changes.",
        Resnet18 = "resnet18": "The residual network of He et al. for ImageNet with 18 layers and 11.7 million weights \
            for 1000 classes: a 7x7 convolution, a pool, four groups of two blocks with 64 to 512 channels.",
        Resnet50 = "resnet50": "The residual network of He et al. for ImageNet with 50 layers and 25.6 million weights \
            for 1000 classes: four groups of 3, 4, 6 and 3 bottlenecks with 256 to 2048 channels.",
        Vgg19 = "vgg19": "VGG with 19 layers (Simonyan and Zisserman, configuration E): 143.7 million weights for 1000 \
            classes on 224 x 224 images, 123.6 million of them linear; images from 32 x 32 on.",
        VggCifar = "vgg-cifar": "VGG for CIFAR with 13 convolutions, batch norm and dropout: 15 million weights, 60 MB.",
        Cifar100Cnn = "cifar100-cnn": "Caffe's quick CIFAR model, whose pools round up: three convolutions of 32, 32 and 64 \
            channels, each pooled, and two linear layers; 0.15 million weights.",
        Cifar100Convex = "cifar100-convex": "`cifar100-cnn`, of which only the last layer is trained: a convex loss, over features that \
            stay as they were drawn.",
        Alexnet = "alexnet": "The network of Krizhevsky et al., 2012, for ImageNet: five convolutions, the first two each followed by a \
            local response norm, three of them in two groups of channels, and three linear layers; 61 million weights for 1000 \
            classes on 224 x 224 images.",
        AlexnetCifar = "alexnet-cifar": "AlexNet's widths on 32 x 32 images: a first convolution of 5 with a stride of 2, no groups of \
            channels, no local response norm; 24.7 million weights, 99 MB.",
        Googlenet = "googlenet": "The network of Szegedy et al., 2015, for ImageNet: nine inception modules, and two auxiliary heads \
            while training; 13.4 million weights for 1000 classes on 224 x 224 images, 6.4 million of them the heads'.",
        VggSplitbrain = "vgg-splitbrain": "SplitBrain's variant of VGG: seven convolutions of 64 to 256 \
            channels and three linear layers on 32 x 32 images, 7 million weights, most of them linear.",
        Gpt = "gpt": "A decoder-only transformer in the form of GPT-2 for `dataset.kind = \"text-lines\"`, of `depth` blocks of \
            `width` values with `heads` heads; its context is that of the data set.",
        TextCnn = "text-cnn": "Kim's convolutional network for `dataset.kind = \"text\"`: vectors of `width` values, filters over 3, 4 and 5 \
            words with 100 feature maps each, the largest value of each map, dropout, and a linear layer.",
        Sequential = "sequential": "The layers that `model.layers` lists.",
        Torchscript = "torchscript": "A model of your own, which PyTorch exported to `model.file` by \
            `torch.jit.script(model).save(...)`.",
    }
}

impl ModelKind {
    /// The names of those that are layers, whose weights are drawn.
    pub const OF_LAYERS: &'static [&'static str] = &[
        Self::Softmax.name(),
        Self::MnistMlp.name(),
        Self::Lenet.name(),
        Self::CifarCnn.name(),
        Self::Resnet20.name(),
        Self::Resnet18.name(),
        Self::Resnet50.name(),
        Self::Vgg19.name(),
        Self::VggCifar.name(),
        Self::Cifar100Cnn.name(),
        Self::Cifar100Convex.name(),
        Self::Alexnet.name(),
        Self::AlexnetCifar.name(),
        Self::Googlenet.name(),
        Self::VggSplitbrain.name(),
        Self::Gpt.name(),
        Self::TextCnn.name(),
        Self::Sequential.name(),
    ];
}

/// A model to train: from an example to the class scores, or from a text to scores of the next token at each position. The loss is
/// the mean cross-entropy of the softmax of the scores, of all positions alike.
///
/// Untagged, so that plans stored before there were files are read as layers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Model {
    /// A sequence of layers that the worker computes itself.
    Layers(LayeredModel),
    /// A file that describes the computation; the program knows the layout of its weights.
    File(ModelFile),
}

/// A model as layers from the input to the class scores.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LayeredModel {
    /// The name of the model, or `sequential`.
    pub kind: ModelKind,
    /// Shape of one example.
    pub input: Shape,
    /// Number of classes, or of tokens that may come next; the last layer has a score for each.
    pub classes: usize,
    /// The layers in order.
    pub layers: Vec<PlacedLayer>,
    /// How its initial weights are drawn.
    #[serde(default)]
    pub init: Init,
}

family! {
    /// How initial weights and biases are drawn, n being the number of inputs of one output.
    #[derive(Default, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum Init {
        /// The Kaiming uniform of He et al. 2015 (arXiv 1502.01852) with a = sqrt(5): sqrt(6 / ((1 + a^2) n)) = 1/sqrt(n).
        #[default]
        Pytorch = "pytorch": "PyTorch's default: weights and biases uniform between -1 / sqrt(n) and 1 / \
            sqrt(n), n being the inputs of an output; vectors of embeddings normal with deviation 1.",
        /// Caffe's `XavierFiller` with its default, the fan-in: variance 1/n. A layer of Caffe that names no filler for its
        /// biases has zeros.
        Xavier = "xavier": "Caffe's filler of that name: weights uniform between -sqrt(3 / n) and sqrt(3 / \
            n), biases 0; vectors of embeddings as `pytorch` has them.",
        /// For rectifiers: equation 10, weights of variance 2/n.
        Kaiming = "kaiming": "He et al., 2015: weights uniform between -sqrt(6 / n) and sqrt(6 / n), biases 0; vectors of \
            embeddings as `pytorch` has them.",
        /// Radford et al., 2019, section 2.3, for the scale by the number of residual layers; 0.02 is in its code.
        Gpt2 = "gpt2": "All weights and vectors of embeddings normal with deviation 0.02, those of the last map of each residual \
            block divided by the square root of the number of such blocks, biases 0.",
    }
}

/// Most targets that are evaluated at once.
pub const TARGETS_AT_ONCE: usize = 1000;
/// Most values of one result then.
const LARGEST_RESULT: usize = 1 << 26;

impl Model {
    /// Name of the model; `torchscript` for a file.
    pub fn kind(&self) -> ModelKind {
        match self {
            Self::Layers(model) => model.kind,
            Self::File(_) => ModelKind::Torchscript,
        }
    }

    /// The layers that have weights, in the order of the flat vector.
    pub fn weighted_layers(&self) -> Vec<WeightedLayer<'_>> {
        match self {
            Self::Layers(model) => model.weighted_layers(),
            Self::File(file) => file.weighted_layers(),
        }
    }

    /// The tensors of weights, in the order in which they lie in the flat vector.
    pub fn tensors(&self) -> impl Iterator<Item = &Parameter> {
        self.weighted_layers().into_iter().flat_map(|layer| layer.parameters)
    }

    /// Number of weights that are trained.
    pub fn parameter_count(&self) -> usize {
        self.tensors().map(Parameter::size).sum()
    }

    /// Number of weights that are not trained, which a worker holds beside the others.
    pub fn frozen_weights(&self) -> usize {
        match self {
            Self::Layers(_) => self.drawn_frozen_weights(),
            Self::File(file) => file.layout.frozen,
        }
    }

    /// Those of them that are drawn, and lie beside snapshots and in exports; a model file has its own.
    pub fn drawn_frozen_weights(&self) -> usize {
        match self {
            Self::Layers(model) => model.frozen_tensors().iter().map(|tensor| tensor.size()).sum(),
            Self::File(_) => 0,
        }
    }

    /// Values of one example that a forward pass keeps for the backward pass.
    pub fn activations(&self) -> usize {
        match self {
            Self::Layers(model) => model.activations().into_iter().sum(),
            Self::File(file) => {
                file.layout.layers.iter().map(|layer| layer.kept.max(layer.activations)).sum()
            }
        }
    }

    /// Floating-point operations of one example's forward pass.
    pub fn flops(&self) -> u64 {
        match self {
            Self::Layers(model) => model.layers.iter().map(|layer| layer.flops).sum(),
            Self::File(file) => file.layout.layers.iter().map(|layer| layer.flops).sum(),
        }
    }

    /// The layers, if the model is described by layers.
    pub fn layered(&self) -> Option<&LayeredModel> {
        match self {
            Self::Layers(model) => Some(model),
            Self::File(_) => None,
        }
    }
}

impl From<LayeredModel> for Model {
    fn from(model: LayeredModel) -> Self {
        Self::Layers(model)
    }
}

impl LayeredModel {
    /// Whether its training loss includes that of auxiliary heads.
    pub fn has_auxiliary_heads(&self) -> bool {
        self.layers.iter().any(|placed| matches!(placed.layer, Layer::AuxiliaryHead { .. }))
    }

    /// The tensors that are not trained, from the input to the scores.
    pub fn frozen_tensors(&self) -> Vec<&Parameter> {
        self.layers.iter().flat_map(PlacedLayer::frozen_parameters).collect()
    }

    /// Of each layer the values of one example that a forward pass keeps for the backward pass.
    pub fn activations(&self) -> Vec<usize> {
        let mut weights = false;
        let mut kept = |layer: &PlacedLayer| {
            let own = layer.activations(weights);
            weights |= !layer.parameters.is_empty();
            own
        };
        self.layers.iter().map(&mut kept).collect()
    }

    /// Samples of which an evaluation computes the scores at once: up to 1,000, or tokens of a text, and fewer where a result of a layer
    /// would take more than 256 MiB.
    pub fn evaluated_at_once(&self) -> usize {
        let targets = if let Shape::Tokens(length, _) = self.input { length } else { 1 };
        let fitting = LARGEST_RESULT / self.largest_result().max(1);
        fitting.min(TARGETS_AT_ONCE / targets.max(1)).max(1)
    }

    /// Values of one example in its largest result.
    pub fn largest_result(&self) -> usize {
        self.layers.iter().map(PlacedLayer::largest_result).fold(self.input.size(), usize::max)
    }

    /// One for each layer with weights. Layers without weights belong to the one before them; those before the first layer
    /// with weights belong to that.
    pub fn weighted_layers(&self) -> Vec<WeightedLayer<'_>> {
        let mut weighted: Vec<WeightedLayer<'_>> = Vec::new();
        let mut before = 0;
        let mut back_before = 0;
        for PlacedLayer { name, layer, parameters, flops, .. } in &self.layers {
            let back = match layer {
                Layer::Frozen { .. } if weighted.is_empty() => 0,
                Layer::Frozen { .. } => *flops,
                _ => 2 * flops,
            };
            match weighted.last_mut() {
                _ if !parameters.is_empty() => {
                    weighted.push(WeightedLayer {
                        name,
                        parameters,
                        flops: flops + std::mem::take(&mut before),
                        backward_flops: back + std::mem::take(&mut back_before),
                    });
                }
                Some(last) => {
                    last.flops += flops;
                    last.backward_flops += back;
                }
                None => {
                    before += flops;
                    back_before += back;
                }
            }
        }
        weighted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_models_but_files_are_layers() {
        let others = ModelKind::ALL.iter().filter(|kind| **kind != ModelKind::Torchscript);
        assert_eq!(ModelKind::OF_LAYERS, others.map(|kind| kind.name()).collect::<Vec<_>>());
    }
}
