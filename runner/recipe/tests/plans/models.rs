//! The models of a recipe: their sizes, layers and arithmetic.

use crate::desk::Desk;
use crate::expansion::{plan, planned};
use crate::problems::recipe;
use recipe::{ArrayProfile, ArrayValues, Layer, Model, PlacedLayer, Shape};
use std::collections::BTreeSet;

fn model(kind: &str, dataset: &str) -> Model {
    let dataset = format!(
        "[dataset]\nkind = \"{dataset}\"{}",
        if dataset == "synthetic" { "" } else { "\npath = \"data\"" }
    );
    plan(&[&dataset, &format!("[model]\nkind = \"{kind}\"")]).cells[0].spec.model.clone()
}

#[test]
fn models_have_the_published_sizes() {
    for (kind, dataset, parameters) in [
        ("softmax", "synthetic", 7_850),
        // Pipe-SGD: 784-500-500-10.
        ("mnist-mlp", "mnist", 648_010),
        // Caffe's LeNet.
        ("lenet", "mnist", 431_080),
        // SplitBrain, Table 1: 6,987,456 without biases.
        ("vgg-splitbrain", "cifar10", 6_990_666),
        ("cifar-cnn", "cifar10", 116_906),
        // He et al., 2016, table 6: 0.27 M; with projections where the paper pads with zeros. Grey images: 288 fewer.
        ("resnet20", "cifar10", 272_474),
        ("resnet20", "synthetic", 272_186),
        ("resnet20", "cifar100", 272_474 + 90 * 65),
        ("resnet18", "cifar10", 11_689_512 - 990 * 513),
        ("cifar-cnn", "cifar100", 122_756),
        // Caffe's `cifar10_quick`.
        ("cifar100-cnn", "cifar10", 145_578),
        ("cifar100-cnn", "cifar100", 145_578 + 90 * 65),
        // Of these the last layer.
        ("cifar100-convex", "cifar100", 100 * 65),
        // Convolutions 3.7 M, linear layers 1024-4096-4096-10.
        (
            "alexnet-cifar",
            "cifar10",
            7_296 + 614_656 + 885_120 + 1_327_488 + 884_992 + 4_198_400 + 16_781_312 + 40_970,
        ),
        // Zagoruyko's `vgg_bn_drop`: 59.97 MB.
        ("vgg-cifar", "cifar10", 14_991_946),
        ("resnet50", "cifar10", 25_557_032 - 990 * 2049),
        // On images of 32 x 32 the first linear layer has 512 inputs in place of 25,088.
        ("vgg19", "cifar10", 143_667_240 - 4096 * (25_088 - 512) - 990 * 4097),
    ] {
        assert_eq!(model(kind, dataset).parameter_count(), parameters, "{kind}");
    }
}

/// Two convolutions are split in two, so that AlexNet has fewer weights than without groups (62,378,344).
#[test]
fn alexnet_as_layers_has_its_published_size() {
    let response = r#"{ kind = "local-response-norm", size = 5, alpha = 5e-4, k = 2.0 }, { kind = "max-pool", kernel = 3, stride = 2 }"#;
    let linear = r#""relu", { kind = "dropout" }, { kind = "linear", outputs ="#;
    let model = format!(
        r#"[model]
kind = "sequential"
layers = [
  {{ kind = "conv", outputs = 96, kernel = 11, stride = 4, padding = 2 }}, "relu", {response},
  {{ kind = "conv", outputs = 256, kernel = 5, padding = 2, groups = 2 }}, "relu", {response},
  {{ kind = "conv", outputs = 384, kernel = 3, padding = 1 }}, "relu",
  {{ kind = "conv", outputs = 384, kernel = 3, padding = 1, groups = 2 }}, "relu",
  {{ kind = "conv", outputs = 256, kernel = 3, padding = 1, groups = 2 }}, "relu",
  {{ kind = "max-pool", kernel = 3, stride = 2 }}, "flatten",
  {{ kind = "linear", outputs = 4096 }}, {linear} 4096 }}, {linear} 1000 }},
]"#
    );
    let own = &on_imagenet(&model);
    let model = &on_imagenet("[model]\nkind = \"alexnet\"");
    let layers = |model: &Model| model.layered().unwrap().layers.clone();
    assert_eq!(layers(own), layers(model), "the name stands for these layers");
    assert_eq!(model.parameter_count(), 60_965_224);
    // Sze et al., "Efficient Processing of Deep Neural Networks", 2017 (arXiv 1703.09039), table 2: 724 million multiply-adds.
    assert_eq!(multiply_adds(model) / 1_000_000, 724);
}

/// The model of a recipe whose data is like ImageNet.
fn on_imagenet(model: &str) -> Model {
    let shape = Shape::Image(3, 224, 224);
    let arrays = ArrayProfile { train: 1000, test: 10, classes: 1000, shape, values: ArrayValues::Bytes };
    let text = recipe(&[model, "[dataset]\nkind = \"npy\"\npath = \"imagenet\""]);
    let desk = Desk::with(&text).with_arrays("imagenet", Ok(arrays));
    planned(&desk).cells[0].spec.model.clone()
}

/// Multiply-adds of convolutions and linear layers, blocks included.
fn multiply_adds(model: &Model) -> u64 {
    fn of(placed: &PlacedLayer) -> u64 {
        match placed.layer {
            Layer::Linear { .. } | Layer::Conv { .. } => placed.flops / 2,
            _ => placed.paths.layers().map(of).sum(),
        }
    }
    model.layered().into_iter().flat_map(|model| &model.layers).map(of).sum()
}

/// At the size of ImageNet.
#[test]
fn large_models_have_the_published_sizes_and_operations() {
    // PyTorch's torchvision lists 19.63 and 4.09 billion multiply-adds.
    // GoogLeNet's heads included, 8.4 million of them; the paper's table 1 has 34 million for the first convolution, which has 118.
    for (kind, parameters, operations) in [
        ("vgg19", 143_667_240, 19.63e9),
        ("resnet50", 25_557_032, 4.09e9),
        // Caffe's `bvlc_googlenet`: 6,998,552, and two heads of 3,188,840 and 3,190,888.
        ("googlenet", 6_998_552 + 3_188_840 + 3_190_888, 1.591e9),
    ] {
        let model = &on_imagenet(&format!("[model]\nkind = \"{kind}\""));
        assert_eq!(model.parameter_count(), parameters, "{kind}");
        let own = multiply_adds(model) as f64;
        assert!((own / operations - 1.0).abs() < 0.01, "{kind}: {own}");
    }
}

/// They are drawn, held and exported, but neither trained nor sent.
#[test]
fn frozen_weights_are_counted_apart() {
    let convex = model("cifar100-convex", "cifar100");
    assert_eq!(
        convex.parameter_count() + convex.frozen_weights(),
        model("cifar100-cnn", "cifar100").parameter_count()
    );
    let layers = convex.weighted_layers();
    assert_eq!(layers.iter().map(|layer| layer.name).collect::<Vec<_>>(), ["linear1"]);
    let tensors = convex.layered().unwrap().frozen_tensors();
    assert_eq!(tensors[0].name, "frozen1.conv1.weight");
    assert_eq!(tensors[7].name, "frozen1.linear1.bias");
    assert_eq!(convex.flops(), model("cifar100-cnn", "cifar100").flops());
    assert_eq!(model("lenet", "mnist").frozen_weights(), 0);
}

#[test]
fn models_name_their_layers_and_count_operations() {
    let lenet = model("lenet", "mnist");
    let names: Vec<&str> = lenet.layered().unwrap().layers.iter().map(|layer| layer.name.as_str()).collect();
    assert_eq!(
        names,
        ["conv1", "max-pool1", "conv2", "max-pool2", "flatten1", "linear1", "relu1", "linear2"]
    );
    let conv2 = &lenet.layered().unwrap().layers[2];
    assert_eq!(conv2.parameters[0].name, "conv2.weight");
    assert_eq!(conv2.parameters[0].shape, [50, 20, 5, 5]);
    assert_eq!(conv2.parameters[1].shape, [50]);
    assert_eq!(conv2.flops, 2 * 20 * 25 * 50 * 64);
    let mlp = model("mnist-mlp", "mnist");
    assert_eq!(mlp.flops(), 2 * (784 * 500 + 500 * 500 + 500 * 10) + 1000);
}

#[test]
fn residual_blocks_sum_their_layers() {
    let model = model("resnet20", "cifar10");
    let layers = model.weighted_layers();
    assert_eq!(layers.len(), 2 + 9 + 1);
    let names: Vec<&str> = layers[5].parameters.iter().map(|tensor| tensor.name.as_str()).collect();
    assert_eq!(names[0], "residual4.conv1.weight");
    assert_eq!(
        names[6..],
        [
            "residual4.shortcut.conv1.weight",
            "residual4.shortcut.batch-norm1.weight",
            "residual4.shortcut.batch-norm1.bias",
        ]
    );
    // Two convolutions of 3, two batch norms, a rectifier and a sum on images of 16 x 32 x 32; and the rectifier behind it.
    let size = 16 * 1024;
    let weights = 16 * 9;
    assert_eq!(layers[2].flops, (size * (2 * 2 * weights + 2 * 5 + 1 + 1) + size) as u64);
    // Its convolutions take 40.8 million multiply-adds; the rest is little.
    assert!((82_000_000..86_000_000).contains(&model.flops()), "{}", model.flops());
    let kept: usize = model.layered().unwrap().layers[3].activations(true);
    assert_eq!(kept, 6 * size);
}

/// A run's identity is a digest of its stored form: a field newer than a stored run is left out where it changes nothing.
#[test]
fn models_of_earlier_versions_are_stored_as_they_were() {
    let keys =
        |value: &serde_json::Value| value.as_object().unwrap().keys().cloned().collect::<BTreeSet<_>>();
    let lenet = serde_json::to_value(model("lenet", "mnist")).unwrap();
    let conv = &lenet["layers"][0];
    let pool = &lenet["layers"][1];
    let of = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
    assert_eq!(keys(conv), of(&["name", "layer", "input", "output", "parameters", "flops"]));
    assert_eq!(keys(&conv["layer"]), of(&["kind", "outputs", "kernel", "stride", "padding"]));
    assert_eq!(keys(&pool["layer"]), of(&["kind", "kernel", "stride"]));
    let residual = model("resnet18", "cifar10");
    let stored = serde_json::to_string(&residual).unwrap();
    assert_eq!(serde_json::from_str::<Model>(&stored).unwrap(), residual);
}

#[test]
fn a_sequential_model_is_what_it_lists() {
    let plan = plan(&[
        "[model]\nkind = \"sequential\"\nlayers = [\n  { kind = \"conv\", outputs = 4, kernel = 5, stride = 2, padding = 1 },\n  \"relu\",\n  { kind = \"avg-pool\", kernel = 2 },\n  { kind = \"dropout\", rate = 0.2 },\n  \"flatten\",\n  { kind = \"linear\", outputs = 10 },\n]",
    ]);
    let model = &plan.cells[0].spec.model;
    assert_eq!(model.parameter_count(), 4 * 25 + 4 + 4 * 36 * 10 + 10);
    assert_eq!(model.layered().unwrap().layers.len(), 6);
}

/// Each of four workers takes the mean of a channel over its samples, and over the places of an image.
#[test]
fn a_batch_norm_of_single_values_is_warned_of() {
    let warned = |batch: &str, layers: &str| {
        let train = format!("[train]\nepochs = 1\n{batch}");
        let model = format!(
            "[model]\nkind = \"sequential\"\nlayers = [{layers}, {{ kind = \"linear\", outputs = 10 }}]"
        );
        plan(&[&train, &model]).warnings.iter().any(|warning| warning.code == "R211")
    };
    let flat = "\"flatten\", { kind = \"linear\", outputs = 8 }, \"batch-norm\"";
    let block = "\"flatten\", { kind = \"residual\", branch = [\"batch-norm\"] }";
    for (batch, layers, expected) in [
        ("global-batch = 4", flat, true),
        ("global-batch = 4", block, true),
        ("global-batch = 8", flat, false),
        ("global-batch = 7", flat, true),
        ("global-batch = 15\naccumulate = 2", flat, true),
        ("global-batch = 16\naccumulate = 2", flat, false),
        ("global-batch = 4", "\"batch-norm\", \"flatten\"", false),
        ("global-batch = 4", "\"flatten\"", false),
    ] {
        assert_eq!(warned(batch, layers), expected, "{batch}: {layers}");
    }
}
