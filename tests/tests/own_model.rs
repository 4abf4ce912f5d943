//! A model of one's own, from a TorchScript file: from its recipe to its page and to the weights that PyTorch reads again.

use e2e::Desk;
use record::Event;
use safetensors::SafeTensors;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/own-model");

fn recipe() -> PathBuf {
    Path::new(FOLDER).join("recipe.toml")
}

/// The digests of all weights that were reported at the end of runs.
fn last_digests(desk: &Desk) -> BTreeSet<String> {
    let mut last: BTreeMap<(PathBuf, u32), (u64, String)> = BTreeMap::new();
    for attempt in desk.attempts() {
        for event in store::EventLog::read(&attempt).unwrap_or_default() {
            let Event::WeightHash(hash) = event else { continue };
            let place = last.entry((attempt.clone(), hash.rank.0)).or_default();
            *place = (*place).clone().max((hash.step, hash.sha256));
        }
    }
    last.into_values().map(|(_, digest)| digest).collect()
}

#[test]
fn the_example_trains_alike_with_every_synchronous_strategy_and_its_weights_go_back_to_pytorch() {
    let desk = Desk::new().unwrap();
    let recipe = recipe();
    let few = ["--set", "train.epochs=1", "--set", "dataset.train=600", "--set", "repeats.count=1"];
    let mut arguments = vec!["run", recipe.to_str().unwrap(), "--report", "page.html"];
    arguments.extend(few);
    // So few steps reach no target.
    arguments.extend(["--set", "communication.reduce-order=rank", "--set", "train.target.at-least=0.01"]);
    desk.run(&arguments).unwrap().with_code(0).unwrap();
    assert_eq!(last_digests(&desk).len(), 1, "d-sync, layer by layer, and ps-sync end with the same bits");
    let page = fs::read_to_string(desk.at("page.html")).unwrap();
    assert!(page.contains("torchscript") && page.contains("model.pt"), "the page names the model");
    desk.run(["export", "last", "--format", "safetensors", "-o", "out"]).unwrap().with_code(0).unwrap();
    let exported =
        fs::read_dir(desk.at("out")).unwrap().map(|run| run.unwrap().path().join("final.safetensors"));
    let bytes = fs::read(exported.last().unwrap()).unwrap();
    let tensors = SafeTensors::deserialize(&bytes).unwrap();
    let shape = |name: &str| tensors.tensor(name).unwrap().shape().to_vec();
    assert_eq!((shape("features.0.weight"), shape("hidden.1.bias")), (vec![8, 1, 5, 5], vec![24]));
}

#[test]
fn asynchronous_elastic_and_gossip_strategies_train_it_too() {
    let desk = Desk::new().unwrap();
    let text = format!(
        r#"
schema = 1
name = "own-model"
model = {{ kind = "torchscript", file = "{FOLDER}/model.pt" }}
dataset = {{ kind = "synthetic", train = 600, test = 100 }}
train = {{ global-batch = 40, epochs = 2, optimizer = {{ kind = "sgd", lr = 0.05 }} }}
nodes = {{ use = ["local*2"] }}
repeats = {{ count = 1 }}
[[strategy]]
kind = "ad-psgd"
[[strategy]]
kind = "easgd-sync"
[[strategy]]
kind = "async-sgd"
[[strategy]]
kind = "pipe-sgd"
compression = "quantize8"
[[strategy]]
kind = "d-sync"
compression = {{ kind = "powersgd", rank = 2, error-feedback = true }}
"#
    );
    desk.write("own.toml", &text).unwrap();
    desk.run(["run", "own.toml"]).unwrap().with_code(0).unwrap();
    let losses = desk.events().into_iter().filter_map(|event| match event {
        Event::Metric(metric) if metric.judged && metric.metric == recipe::Metric::TestLoss => {
            Some((metric.step, metric.value))
        }
        _ => None,
    });
    let losses: Vec<(u64, f64)> = losses.collect();
    assert_eq!(losses.iter().filter(|(step, _)| *step == 0).count(), 5, "each arm has an initial model");
    let first = losses.iter().filter(|(step, _)| *step == 0).map(|(_, loss)| *loss).fold(0.0, f64::max);
    let rest = losses.iter().filter(|(step, _)| *step > 0).map(|(_, loss)| *loss);
    assert!(rest.clone().count() >= 5 && rest.fold(0.0, f64::max) < first, "{losses:?}");
}

#[test]
fn a_file_that_cannot_be_trained_is_refused_before_anything_starts() {
    let desk = Desk::new().unwrap();
    fs::write(desk.at("cut.pt"), &fs::read(Path::new(FOLDER).join("model.pt")).unwrap()[..9000]).unwrap();
    let scripts = Path::new(FOLDER).join("../../runner/worker/tests/scripts");
    for name in ["counting.pt", "talking.pt"] {
        fs::copy(scripts.join(name), desk.at(name)).unwrap();
    }
    let recipe = recipe();
    // What a script prints is no part of its layout.
    let talks = ["plan", recipe.to_str().unwrap(), "--set", "model.file=talking.pt"];
    desk.run(talks).unwrap().with_code(0).unwrap();
    for (setting, words) in [
        ("model.file=none.pt", "none.pt cannot be read: No such file"),
        ("model.file=counting.pt", "changes more than its weights in training"),
        ("model.file=cut.pt", "cut.pt is no TorchScript file"),
        ("model.file=.", "it is not a regular file"),
        ("dataset={ kind = \"cifar10\" }", "channels"),
        ("model.init=xavier", "model.init"),
    ] {
        for verb in ["plan", "run"] {
            let ended = desk.run([verb, recipe.to_str().unwrap(), "--set", setting]).unwrap();
            assert_eq!(ended.code, Some(2), "{setting}: {}{}", ended.stdout, ended.stderr);
            let said = ended.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(said.contains(words), "{setting}: {}", ended.stderr);
            assert_eq!(desk.attempts().count(), 0);
        }
    }
}
