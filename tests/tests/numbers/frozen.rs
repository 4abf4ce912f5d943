//! Layers that are not trained and auxiliary heads in real processes: trained, sent, evaluated and exported weights.
#![expect(clippy::unwrap_used, reason = "in a test, a failure is a panic")]

use e2e::Desk;
use record::Event;
use safetensors::SafeTensors;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

const RECIPE: &str = r#"
schema = 1
name = "frozen"
dataset = { kind = "synthetic", train = 2000, test = 400 }
nodes = { use = ["local*2"] }
repeats = { count = 2 }
[model]
kind = "sequential"
init = "kaiming"
layers = [
  { kind = "frozen", layers = [{ kind = "conv", outputs = 8, kernel = 5, stride = 2 }, "relu"] },
  { kind = "conv", outputs = 8, kernel = 3, padding = 1 },
  { kind = "auxiliary-head", layers = ["flatten", { kind = "linear", outputs = 10 }] },
  "relu",
  { kind = "max-pool", kernel = 2 },
  "flatten",
  { kind = "linear", outputs = 10 },
]
[train]
global-batch = 40
epochs = 4
optimizer = { kind = "sgd", lr = 0.01, momentum = 0.9 }
evaluate = "4 epochs"
[communication]
reduce-order = "rank"
[[strategy]]
kind = "d-sync"
[[strategy]]
kind = "ps-sync"
[[strategy]]
kind = "local-sgd"
period = 4
"#;

/// Weights that are trained: a convolution, the head and the last layer.
const TRAINED: usize = 8 * 8 * 9 + 8 + (8 * 144 + 1) * 10 + (8 * 36 + 1) * 10;

fn exported(desk: &Desk, name: &str) -> BTreeMap<PathBuf, BTreeMap<String, Vec<u8>>> {
    desk.run(["export", "last", "--format", "safetensors", "-o", "out"]).unwrap().with_code(0).unwrap();
    let runs = fs::read_dir(desk.at("out")).unwrap().map(|run| run.unwrap().path());
    let tensors = |run: PathBuf| {
        let bytes = fs::read(run.join(name)).unwrap();
        let read = SafeTensors::deserialize(&bytes).unwrap();
        let tensors =
            read.tensors().into_iter().map(|(name, tensor)| (name, tensor.data().to_vec())).collect();
        (run, tensors)
    };
    runs.map(tensors).collect()
}

/// The evaluator draws the same weights as the ranks, from the seed of the run: with others the accuracy would be that of chance.
#[test]
fn what_is_frozen_is_neither_sent_nor_changed_and_each_run_has_its_own() {
    let desk = Desk::new().unwrap();
    desk.write("recipe.toml", RECIPE).unwrap();
    desk.run(["run", "recipe.toml"]).unwrap().with_code(0).unwrap();
    let accuracies: Vec<f64> = desk
        .events()
        .into_iter()
        .filter_map(|event| match event {
            Event::Metric(metric)
                if metric.judged && metric.metric == recipe::Metric::TestAccuracy && metric.step > 0 =>
            {
                Some(metric.value)
            }
            _ => None,
        })
        .collect();
    assert_eq!(accuracies.len(), 6);
    assert!(accuracies.iter().all(|accuracy| *accuracy > 0.6), "{accuracies:?}");
    let [first, last] = ["initial", "final"].map(|name| exported(&desk, &format!("{name}.safetensors")));
    let mut frozen = BTreeMap::<Vec<u8>, usize>::new();
    for (run, tensors) in &last {
        let sizes = tensors.iter().filter(|(name, _)| !name.starts_with("frozen"));
        assert_eq!(sizes.map(|(_, bytes)| bytes.len()).sum::<usize>(), 4 * TRAINED);
        let kept = &tensors["frozen1.conv1.weight"];
        assert_eq!((kept.len(), kept), (4 * 8 * 25, &first[run]["frozen1.conv1.weight"]));
        assert_ne!(tensors["conv1.weight"], first[run]["conv1.weight"]);
        *frozen.entry(kept.clone()).or_default() += 1;
    }
    assert_eq!(frozen.into_values().collect::<Vec<_>>(), [3, 3], "one for each seed, the same in all arms");
}
