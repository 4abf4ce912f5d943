//! The keys of the recipe itself, and of the model.

use crate::keys::key::{Key, Kind, Range, Usual};
use crate::spec::family::Family;
use crate::{Init, LayerKind, ModelKind};

pub(crate) const KEYS: &[Key] = &[
    Key::new("schema", Kind::Whole(1, 1), "Version of the recipe format.").example("1").sweep(),
    Key::new("name", Kind::Text, "Names the sweep in lists and reports; by default the file's name.")
        .example("\"first-steps\"")
        .sweep(),
    Key::new("question", Kind::Text, "The question that the sweep is to settle; the report's headline.")
        .default("\"\"")
        .example("\"Which strategy trains faster on this machine?\"")
        .sweep(),
    Key::new(
        "extends",
        Kind::TextList,
        "Recipes to start from, relative to this file, laid over each other from left to right; tables are \
         merged deep, arrays replaced.",
    )
    .example("[\"base.toml\"]")
    .sweep(),
    Key::new("model", Kind::Table, "The model to train. The loss is the mean cross-entropy of the classes, or of the next tokens of a text."),
    Key::new("model.kind", Kind::Choice(ModelKind::CHOICES), "Which model.").default("\"mnist-mlp\""),
    Key::new(
        "model.init",
        Kind::Choice(Init::CHOICES),
        "How the initial weights and biases are drawn, from the run's seed.",
    )
    .of(ModelKind::OF_LAYERS)
    .default("\"pytorch\"")
    .usual(&[Usual { kind: ModelKind::Gpt.name(), toml: "\"gpt2\"" }]),
    Key::new("model.depth", Kind::Whole(1, 1024), "Blocks of a `gpt`, each of attention and a hidden layer.")
        .of(&[ModelKind::Gpt.name()])
        .default("2"),
    Key::new("model.heads", Kind::Whole(1, 1024), "Heads of each attention of a `gpt`; they divide the width.")
        .of(&[ModelKind::Gpt.name()])
        .default("4"),
    Key::new(
        "model.width",
        Kind::Whole(1, 1 << 16),
        "Values at each position of a `gpt`, whose hidden layers have four times as many, or of a word's vector in a `text-cnn`.",
    )
    .of(&[ModelKind::Gpt.name(), ModelKind::TextCnn.name()])
    .default("64")
    .usual(&[Usual { kind: ModelKind::TextCnn.name(), toml: "300" }]),
    Key::new(
        "model.file",
        Kind::Path,
        "The TorchScript file of a model; relative to the recipe (on the command line: to the current folder). Its methods `stage0`, \
         `stage1` and so on are its layers, else the modules of an `nn.Sequential`, else `forward` is one layer. The weights in the file are the initial weights of all repeats, and \
         weights without `requires_grad` stay as they are.",
    )
    .of(&[ModelKind::Torchscript.name()])
    .example("\"model.pt\""),
    Key::new(
        "model.dropout",
        Kind::Number(Range::BELOW_ONE),
        "Probability that a `gpt` in training sets a value to zero: behind the embedding, each attention and each hidden layer; of a \
         `text-cnn` before its linear layer.",
    )
    .of(&[ModelKind::Gpt.name(), ModelKind::TextCnn.name()])
    .default("0.0")
    .usual(&[Usual { kind: ModelKind::TextCnn.name(), toml: "0.5" }]),
    Key::new("model.layers", Kind::Layers, "The layers of a sequential model, from the input to the classes.")
        .of(&[ModelKind::Sequential.name()])
        .example("[{ kind = \"flatten\" }, { kind = \"linear\", outputs = 10 }]"),
    Key::new("model.layers.kind", Kind::Choice(LayerKind::CHOICES), "The kind of layer.").example("\"linear\"").sweep(),
    Key::new("model.layers.outputs", Kind::Whole(1, 1 << 20), "Width, or channels, of the layer's result.")
        .of(&[LayerKind::Linear.name(), LayerKind::Conv.name(), LayerKind::TextConv.name()])
        .example("500")
        .sweep(),
    Key::new("model.layers.kernel", Kind::Whole(1, 1024), "Side of the square window; of `text-conv` its positions.")
        .of(&[
        LayerKind::Conv.name(),
        LayerKind::MaxPool.name(),
        LayerKind::AvgPool.name(),
        LayerKind::TextConv.name(),
    ])
        .example("5")
        .sweep(),
    Key::new(
        "model.layers.stride",
        Kind::Whole(1, 1024),
        "Step of the window; by default 1 for `conv` and `text-conv`, and the kernel's side for pools.",
    )
    .of(&[
        LayerKind::Conv.name(),
        LayerKind::MaxPool.name(),
        LayerKind::AvgPool.name(),
        LayerKind::TextConv.name(),
    ])
    .example("2")
    .sweep(),
    Key::new(
        "model.layers.padding",
        Kind::Whole(0, 1024),
        "Values put on each side of the image: zeros for `conv`, `avg-pool` and (at both ends of the text) `text-conv`, for `max-pool` values that are never the \
         largest; of pools at most half of the window.",
    )
    .of(&[
        LayerKind::Conv.name(),
        LayerKind::MaxPool.name(),
        LayerKind::AvgPool.name(),
        LayerKind::TextConv.name(),
    ])
    .default("0")
    .example("2")
    .sweep(),
    Key::new(
        "model.layers.ceil",
        Kind::Flag,
        "Whether a last window reaches over the end of the image where the stride leaves a remainder, as in Caffe; a mean \
         is then one over the part of the window that lies in the image and its padding.",
    )
    .of(&[LayerKind::MaxPool.name(), LayerKind::AvgPool.name()])
    .default("false")
    .example("true")
    .sweep(),
    Key::new(
        "model.layers.groups",
        Kind::Whole(1, 1 << 20),
        "Groups of channels: each group of outputs sees the same group of inputs only. It divides both numbers of channels.",
    )
    .of(&[LayerKind::Conv.name()])
    .default("1")
    .example("2")
    .sweep(),
    Key::new("model.layers.size", Kind::Whole(1, 1 << 20), "Neighbouring channels whose squares are summed.")
        .of(&[LayerKind::LocalResponseNorm.name()])
        .default("5")
        .sweep(),
    Key::new(
        "model.layers.alpha",
        Kind::Number(Range::AT_LEAST_ZERO),
        "The sum of squares, divided by `size`, is multiplied by this.",
    )
    .of(&[LayerKind::LocalResponseNorm.name()])
    .default("0.0001")
    .sweep(),
    Key::new("model.layers.beta", Kind::Number(Range::AT_LEAST_ZERO), "The exponent of the divisor.")
        .of(&[LayerKind::LocalResponseNorm.name()])
        .default("0.75")
        .sweep(),
    Key::new("model.layers.k", Kind::Number(Range::POSITIVE), "The constant that is added to the sum, 1 in Caffe and 2 in the paper of AlexNet.")
        .of(&[LayerKind::LocalResponseNorm.name()])
        .default("1.0")
        .sweep(),
    Key::new(
        "model.layers.bias",
        Kind::Flag,
        "Whether each channel of a convolution has a bias; before a `batch-norm`, which has one, it would do nothing.",
    )
    .of(&[LayerKind::Conv.name()])
    .default("true")
    .example("false")
    .sweep(),
    Key::new(
        "model.layers.branch",
        Kind::Layers,
        "The layers whose result a residual block adds to its shortcut; no other block.",
    )
    .of(&[LayerKind::Residual.name()])
    .example("[{ kind = \"conv\", outputs = 16, kernel = 3, padding = 1, bias = false }, \"batch-norm\"]")
    .sweep(),
    Key::new(
        "model.layers.shortcut",
        Kind::Layers,
        "The layers that a residual block's input takes beside the branch, where its shape changes there; without \
         them the input itself is added.",
    )
    .of(&[LayerKind::Residual.name()])
    .example("[{ kind = \"conv\", outputs = 16, kernel = 1, stride = 2, bias = false }, \"batch-norm\"]")
    .sweep(),
    Key::new("model.layers.width", Kind::Whole(1, 1 << 16), "Values of an embedding's vector for a token.")
        .of(&[LayerKind::Embedding.name()])
        .example("64")
        .sweep(),
    Key::new(
        "model.layers.positions",
        Kind::Flag,
        "Whether an embedding adds a vector for the position, which attention needs to tell positions apart.",
    )
    .of(&[LayerKind::Embedding.name()])
    .default("true")
    .example("false")
    .sweep(),
    Key::new("model.layers.heads", Kind::Whole(1, 1024), "Parts of the width that attend by themselves; they divide it.")
        .of(&[LayerKind::Attention.name()])
        .example("4")
        .sweep(),
    Key::new(
        "model.layers.layers",
        Kind::Layers,
        "The layers of a block, frozen layers or an auxiliary head; residual blocks may be among them, but no other block of layers.",
    )
    .of(&[LayerKind::Block.name(), LayerKind::Frozen.name(), LayerKind::AuxiliaryHead.name()])
    .example("[{ kind = \"residual\", branch = [\"layer-norm\", { kind = \"attention\", heads = 4 }] }]")
    .sweep(),
    Key::new("model.layers.weight", Kind::Number(Range::POSITIVE), "Factor of an auxiliary head's cross-entropy in the loss.")
        .of(&[LayerKind::AuxiliaryHead.name()])
        .default("0.3")
        .sweep(),
    Key::new(
        "model.layers.branches",
        Kind::LayerRows,
        "The rows of layers over the same input whose channels are put one behind the other; all give images of the same \
         sides, or all give flat vectors. An empty row passes the input on. No dropout and no other block in them.",
    )
    .of(&[LayerKind::Branches.name()])
    .example("[[{ kind = \"conv\", outputs = 16, kernel = 1 }], [{ kind = \"conv\", outputs = 16, kernel = 3, padding = 1 }]]")
    .sweep(),
    Key::new(
        "model.layers.rate",
        Kind::Number(Range::BELOW_ONE),
        "Probability that a value is set to zero while training.",
    )
    .of(&[LayerKind::Dropout.name()])
    .default("0.5")
    .sweep(),
];
