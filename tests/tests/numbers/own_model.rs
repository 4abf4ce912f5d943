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
    // Text that a script prints is no part of its layout.
    let talks = ["plan", recipe.to_str().unwrap(), "--set", "model.file=talking.pt"];
    desk.run(talks).unwrap().with_code(0).unwrap();
    for (setting, words) in [
        ("model.file=none.pt", "none.pt cannot be read: No such file"),
        ("model.file=counting.pt", "changes more in training than its weights"),
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

/// PyTorch 2.11 in Python, in 64 bits, by `own_model.py`: the mean loss of two workers in 20 steps over the example's model, of which each has half
/// of the 40 samples of [`forty_samples`] in each step. With `torch.optim.SGD(lr=0.1, momentum=0.9)`:
const LOSSES: [f64; 20] = [
    2.307_538, 2.302_147, 2.295_946, 2.290_247, 2.282_982, 2.275_131, 2.262_914, 2.250_179, 2.233_192,
    2.210_169, 2.181_426, 2.143_997, 2.096_901, 2.032_167, 1.955_513, 1.860_845, 1.745_187, 1.609_406,
    1.478_394, 1.378_999,
];

/// With Sync EASGD, a rate of 0.1 and a moving rate of 0.25.
const ELASTIC: [f64; 20] = [
    2.307_538, 2.282_651, 2.273_957, 2.265_908, 2.260_747, 2.255_930, 2.252_432, 2.247_288, 2.244_218,
    2.241_786, 2.235_656, 2.233_353, 2.231_059, 2.225_483, 2.221_392, 2.218_931, 2.214_007, 2.209_990,
    2.205_140, 2.200_737,
];
/// With D-PSGD and a rate of 0.1.
const GOSSIP: [f64; 20] = [
    2.307_538, 2.282_651, 2.285_702, 2.277_826, 2.279_322, 2.272_727, 2.269_804, 2.270_133, 2.263_681,
    2.259_470, 2.258_182, 2.254_278, 2.250_525, 2.245_625, 2.244_467, 2.238_369, 2.235_435, 2.228_749,
    2.225_330, 2.220_287,
];
/// As `LOSSES`, of a model with a batch norm: each worker normalises its own half.
const NORMED: [f64; 20] = [
    2.329_007, 2.302_582, 2.256_955, 2.196_509, 2.131_984, 2.071_225, 2.011_974, 1.955_489, 1.898_776,
    1.839_983, 1.778_150, 1.713_019, 1.645_583, 1.576_316, 1.504_711, 1.433_505, 1.363_737, 1.297_096,
    1.233_096, 1.172_514,
];
/// The loss of that model at the end, with the moments of all samples by `update_bn`.
const NORMED_JUDGED: f64 = 1.138_098;
/// The same of sequences in a sequence, with a frozen norm below that of training, which has a momentum.
const NESTED: [f64; 20] = [
    2.354_420, 2.311_421, 2.235_204, 2.140_972, 2.055_823, 1.991_206, 1.934_772, 1.874_735, 1.811_274,
    1.743_254, 1.672_259, 1.598_561, 1.519_508, 1.439_144, 1.358_002, 1.280_009, 1.207_328, 1.138_520,
    1.072_509, 1.008_267,
];
const NESTED_JUDGED: f64 = 0.992_146;

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

/// Runs arms of two workers on the forty samples, of which each has the same half in each step.
fn on_halves(file: &Path, optimizer: &str, strategies: &str) -> Desk {
    let desk = Desk::new().unwrap();
    fs::create_dir(desk.at("forty")).unwrap();
    forty_samples(&desk.at("forty"));
    let text = format!(
        r#"
schema = 1
name = "own-model"
model = {{ kind = "torchscript", file = "{}" }}
dataset = {{ kind = "npy", path = "forty", partition = "sharded" }}
nodes = {{ use = ["local*2"] }}
repeats = {{ count = 1 }}
[train]
global-batch = 40
steps = 20
evaluate = "20 steps"
optimizer = {optimizer}
{strategies}"#,
        file.display()
    );
    desk.write("own.toml", &text).unwrap();
    desk.run(["run", "own.toml"]).unwrap().with_code(0).unwrap();
    desk
}

/// Of each run that trained.
fn all_losses(desk: &Desk) -> Vec<Vec<f64>> {
    desk.attempts().map(|attempt| losses(&attempt)).filter(|losses| !losses.is_empty()).collect()
}

fn check(losses: &[f64], expected: &[f64]) {
    let close = losses.iter().zip(expected).all(|(loss, expected)| (loss - expected).abs() < 1e-4);
    assert!(close && losses.len() == expected.len(), "{losses:?}");
}

const MOMENTUM: &str = "{ kind = \"sgd\", lr = 0.1, momentum = 0.9 }";
const PLAIN: &str = "{ kind = \"sgd\", lr = 0.1 }";

fn example() -> PathBuf {
    Path::new(FOLDER).join("model.pt")
}

#[test]
fn twenty_steps_of_two_workers_have_the_losses_of_pytorch() {
    let strategies = r#"
[[strategy]]
kind = "d-sync"
[[strategy]]
name = "layer by layer"
kind = "d-sync"
communication.schedule = "per-layer"
[[strategy]]
kind = "ps-sync"
"#;
    let runs = all_losses(&on_halves(&example(), MOMENTUM, strategies));
    assert_eq!(runs.len(), 3);
    for losses in runs {
        check(&losses, &LOSSES);
    }
}

#[test]
fn elastic_and_gossip_strategies_have_the_losses_of_pytorch() {
    let elastic = "[[strategy]]\nkind = \"easgd-sync\"\nmoving-rate = 0.25\n";
    for (strategy, expected) in [(elastic, ELASTIC), ("[[strategy]]\nkind = \"d-psgd\"\n", GOSSIP)] {
        let runs = all_losses(&on_halves(&example(), PLAIN, strategy));
        assert_eq!(runs.len(), 1);
        check(&runs[0], &expected);
    }
}

#[test]
fn a_batch_norm_of_a_script_normalises_the_batch_of_each_worker_and_is_judged_by_all_samples() {
    for (name, losses, expected) in [("sequence", NORMED, NORMED_JUDGED), ("nested", NESTED, NESTED_JUDGED)] {
        let file = Path::new(FOLDER).join(format!("../../runner/worker/tests/scripts/{name}.pt"));
        let desk = on_halves(&file, MOMENTUM, "[[strategy]]\nkind = \"d-sync\"\n");
        check(&all_losses(&desk)[0], &losses);
        let judged = desk.events().into_iter().filter_map(|event| match event {
            Event::Metric(metric) if metric.judged && metric.metric == recipe::Metric::TestLoss => {
                Some(metric.value)
            }
            _ => None,
        });
        let judged = judged.collect::<Vec<f64>>().pop().unwrap();
        assert!((judged - expected).abs() < 1e-4, "{name}: {judged}");
    }
}
