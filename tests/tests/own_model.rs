//! A model of one's own, from a TorchScript file: from its recipe to its page and to the weights that PyTorch reads again.

#![expect(clippy::unwrap_used, reason = "in a test, a failure is a panic")]

use e2e::Desk;
use record::{Event, StepRecord};
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

/// PyTorch 2.11 in Python: 20 steps of `torch.optim.SGD(lr=0.1, momentum=0.9)` over the example's model with all of the 40 samples of
/// [`forty_samples`]; in 32 and in 64 bits the same to six decimals.
const LOSSES: [f64; 20] = [
    2.307_538, 2.302_147, 2.295_946, 2.290_247, 2.282_982, 2.275_131, 2.262_914, 2.250_179, 2.233_192,
    2.210_169, 2.181_426, 2.143_997, 2.096_901, 2.032_167, 1.955_513, 1.860_845, 1.745_187, 1.609_406,
    1.478_394, 1.378_999,
];

/// Forty images of one channel and 28 x 28 values in [0, 1), `(i * 2654435761 mod 2^32 >> 8) / 2^24` for value number i, of the classes 7 n
/// mod 10, as NumPy stores them.
fn forty_samples(folder: &Path) {
    let array = |element: &str, shape: &str, elements: Vec<u8>| {
        let header = format!("{{'descr': '{element}', 'fortran_order': False, 'shape': {shape}, }}");
        let header = format!("{header:<117}\n");
        [b"\x93NUMPY\x01\x00", &118_u16.to_le_bytes()[..], header.as_bytes(), &elements].concat()
    };
    let value = |place: u32| (place.wrapping_mul(2_654_435_761) >> 8) as f32 / 16_777_216.0;
    let pixels = (0..40 * 784).flat_map(|place| value(place).to_le_bytes()).collect();
    let labels = (0..40_u32).map(|number| (number * 7 % 10) as u8).collect();
    let [x, y] = [array("<f4", "(40, 1, 28, 28)", pixels), array("|u1", "(40,)", labels)];
    for half in ["train", "test"] {
        fs::write(folder.join(format!("{half}_x.npy")), &x).unwrap();
        fs::write(folder.join(format!("{half}_y.npy")), &y).unwrap();
    }
}

/// The loss of each step of a run, over the samples of all workers, which have the same number each.
fn losses(attempt: &Path) -> Vec<f64> {
    let mut steps: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for event in store::EventLog::read(attempt).unwrap_or_default() {
        if let Event::Step(StepRecord { step, loss: Some(loss), .. }) = event {
            steps.entry(step).or_default().push(loss.into());
        }
    }
    steps.into_values().map(|losses| losses.iter().sum::<f64>() / losses.len() as f64).collect()
}

#[test]
fn twenty_steps_of_two_workers_have_the_losses_of_pytorch() {
    let desk = Desk::new().unwrap();
    fs::create_dir(desk.at("forty")).unwrap();
    forty_samples(&desk.at("forty"));
    let text = format!(
        r#"
schema = 1
name = "own-model"
model = {{ kind = "torchscript", file = "{FOLDER}/model.pt" }}
dataset = {{ kind = "npy", path = "forty" }}
nodes = {{ use = ["local*2"] }}
repeats = {{ count = 1 }}
[train]
global-batch = 40
steps = 20
evaluate = "20 steps"
optimizer = {{ kind = "sgd", lr = 0.1, momentum = 0.9 }}
[[strategy]]
kind = "d-sync"
[[strategy]]
name = "layer by layer"
kind = "d-sync"
communication.schedule = "per-layer"
[[strategy]]
kind = "ps-sync"
"#
    );
    desk.write("own.toml", &text).unwrap();
    desk.run(["run", "own.toml"]).unwrap().with_code(0).unwrap();
    let runs: Vec<Vec<f64>> =
        desk.attempts().map(|attempt| losses(&attempt)).filter(|losses| !losses.is_empty()).collect();
    assert_eq!(runs.len(), 3);
    for losses in runs {
        let close = losses.iter().zip(LOSSES).all(|(loss, expected)| (loss - expected).abs() < 1e-4);
        assert!(close && losses.len() == LOSSES.len(), "{losses:?}");
    }
}
