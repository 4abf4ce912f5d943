//! A user's own NumPy arrays in real processes: the arrays of `examples/own-data`, and the same with a value that is none.
#![expect(clippy::unwrap_used, reason = "in a test, a failure is a panic")]

use e2e::{Desk, train, wait_until};
use recipe::Metric;
use record::Event;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_mins(1);

fn spirals() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/own-data").canonicalize().unwrap()
}

fn recipe(folder: &Path, more: &str) -> String {
    format!(
        r#"
schema = 1
name = "own-data"
[model]
kind = "sequential"
layers = [
  {{ kind = "linear", outputs = 64 }}, {{ kind = "relu" }},
  {{ kind = "linear", outputs = 64 }}, {{ kind = "relu" }},
  {{ kind = "linear", outputs = 3 }},
]
[dataset]
kind = "npy"
path = "{}"
validation = 0.1
{more}
[train]
global-batch = 30
epochs = 20
optimizer = {{ kind = "sgd", lr = 0.2, momentum = 0.5 }}
evaluate = "10 epochs"
[nodes]
use = ["local*2"]
[[strategy]]
kind = "d-sync"
[repeats]
count = 1
"#,
        folder.display()
    )
}

#[test]
fn two_workers_learn_from_arrays_of_floats() {
    for more in ["", "partition = { kind = \"dirichlet\", alpha = 0.5 }\nsampling = \"with-replacement\""] {
        let trained = train(&recipe(&spirals(), more)).unwrap().done().unwrap();
        trained.common_digests().unwrap();
        let of = |metric: Metric| -> Vec<f64> {
            trained.metrics().filter(|found| found.metric == metric).map(|found| found.value).collect()
        };
        // A linear model of three spirals gets about half of them right.
        assert!(of(Metric::TestAccuracy).last().unwrap() > &0.85, "{:?}", of(Metric::TestAccuracy));
        assert_eq!(of(Metric::ValidationAccuracy).len(), of(Metric::TestAccuracy).len());
        // 1350 of the 1500 samples are trained on: 45 steps in each of the 20 epochs.
        let steps = trained.steps().filter(|step| !step.drain).map(|step| step.step).max();
        assert_eq!(steps, Some(900));
        assert!(trained.events.iter().any(|event| matches!(event, Event::Snapshot(_))));
    }
}

#[test]
fn the_same_data_as_safetensors_ends_with_the_same_weights() {
    let npy = recipe(&spirals(), "").replace("epochs = 20", "epochs = 2").replace("10 epochs", "1 epoch");
    let tensors = npy.replace("kind = \"npy\"", "kind = \"safetensors\"");
    assert_ne!(npy, tensors);
    let digests = |text: &str| train(text).unwrap().done().unwrap().common_digests().unwrap();
    assert_eq!(digests(&npy), digests(&tensors));
}

/// A desk with a copy of the arrays.
fn desk() -> Desk {
    let desk = Desk::new().unwrap();
    fs::create_dir(desk.at("mine")).unwrap();
    for name in ["train_x.npy", "train_y.npy", "test_x.npy", "test_y.npy"] {
        fs::copy(spirals().join(name), desk.at("mine").join(name)).unwrap();
    }
    let short = recipe(Path::new("mine"), "").replace("epochs = 20", "epochs = 1");
    desk.write("recipe.toml", &short.replace("10 epochs", "1 epoch")).unwrap();
    desk
}

/// Replaces the last bytes of a file.
fn spoil(path: &Path, end: &[u8]) {
    let mut bytes = fs::read(path).unwrap();
    let from = bytes.len() - end.len();
    bytes[from..].copy_from_slice(end);
    fs::write(path, bytes).unwrap();
}

#[test]
fn a_sweep_of_own_data_ends_with_a_page_and_is_not_trained_twice() {
    let desk = desk();
    let ended = desk.run(["run", "recipe.toml"]).unwrap().with_code(0).unwrap();
    assert!(desk.at(ended.page().unwrap()).is_file());
    let trained = |desk: &Desk| desk.attempts().filter(|attempt| attempt.is_dir()).count();
    assert_eq!(trained(&desk), 1);
    desk.run(["run", "recipe.toml"]).unwrap().with_code(0).unwrap();
    assert_eq!(trained(&desk), 1, "the same arrays are the same run");
    // One feature of one sample: shapes, classes and numbers stay the same.
    spoil(&desk.at("mine/train_x.npy"), &0.5_f32.to_le_bytes());
    desk.run(["run", "recipe.toml"]).unwrap().with_code(0).unwrap();
    assert_eq!(trained(&desk), 2, "other arrays are another run");
}

/// A label of the test set changes while ranks train; the evaluator reads it later.
#[test]
fn a_run_whose_data_changes_fails_and_is_trained_again() {
    let desk = desk();
    let slow = "[compute]\nstep-time = \"40ms\"\n[repeats]";
    let text = fs::read_to_string(desk.at("recipe.toml")).unwrap().replace("[repeats]", slow);
    desk.write("recipe.toml", &text).unwrap();
    let whole = fs::read(desk.at("mine/test_y.npy")).unwrap();
    let driver = desk.start(["run", "recipe.toml"]).unwrap();
    wait_until(PATIENCE, || Ok(desk.attempts().any(|attempt| attempt.is_dir()))).unwrap();
    let mut other = whole.clone();
    // The first of 600 labels of a byte: 1 in place of 0.
    other[whole.len() - 600] ^= 1;
    fs::write(desk.at("mine/test_y.npy"), &other).unwrap();
    let ended = driver.end(PATIENCE).unwrap().with_code(5).unwrap();
    let said = format!("{}{}", ended.stdout, ended.stderr);
    assert!(said.contains("changed since the sweep was planned"), "{said}");
    fs::write(desk.at("mine/test_y.npy"), &whole).unwrap();
    let again = desk.said(["plan", "recipe.toml", "--why"]).unwrap();
    assert!(!again.contains("reuse"), "{again}");
}

#[test]
fn bad_arrays_end_with_what_to_do() {
    let desk = desk();
    spoil(&desk.at("mine/train_x.npy"), &f32::NAN.to_le_bytes());
    // Features are read by workers only.
    desk.run(["check", "recipe.toml"]).unwrap().with_code(0).unwrap();
    let ended = desk.run(["run", "recipe.toml"]).unwrap().with_code(5).unwrap();
    let said = format!("{}{}", ended.stdout, ended.stderr);
    assert!(said.contains("train_x.npy has NaN at [1499, 1], which is no finite 32-bit number"), "{said}");
    assert!(said.contains("np.nan_to_num(x, "), "{said}");

    spoil(&desk.at("mine/test_y.npy"), &[0xf0, 3]);
    fs::write(desk.at("mine/train_y.npy"), "text").unwrap();
    for verb in ["check", "run"] {
        let said = desk.run([verb, "recipe.toml"]).unwrap().with_code(2).unwrap();
        let said = format!("{}{}", said.stdout, said.stderr);
        assert!(said.contains("error[R023]") && said.contains("train_y.npy is no NPY file"), "{said}");
        assert!(said.contains("np.save(FILE, ARRAY)") && !said.contains("R109"), "{said}");
    }
}
