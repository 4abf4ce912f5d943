//! The models of a recipe: their sizes, layers and arithmetic.

use crate::expansion::plan;
use recipe::Model;

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
        ("cifar-cnn", "cifar100", 122_756),
    ] {
        assert_eq!(model(kind, dataset).parameters(), parameters, "{kind}");
    }
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
fn a_sequential_model_is_what_it_lists() {
    let plan = plan(&[
        "[model]\nkind = \"sequential\"\nlayers = [\n  { kind = \"conv\", outputs = 4, kernel = 5, stride = 2, padding = 1 },\n  \"relu\",\n  { kind = \"avg-pool\", kernel = 2 },\n  { kind = \"dropout\", rate = 0.2 },\n  \"flatten\",\n  { kind = \"linear\", outputs = 10 },\n]",
    ]);
    let model = &plan.cells[0].spec.model;
    assert_eq!(model.parameters(), 4 * 25 + 4 + 4 * 36 * 10 + 10);
    assert_eq!(model.layered().unwrap().layers.len(), 6);
}
