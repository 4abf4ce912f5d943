//! Labelled texts in real processes: those of `examples/own-texts`, learned by several strategies, and files that change or are spoilt.
#![expect(clippy::unwrap_used, reason = "in a test, a failure is a panic")]

use e2e::{Desk, Trained, train, wait_until};
use recipe::Metric;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_mins(1);

fn notes() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/own-texts").canonicalize().unwrap()
}

fn recipe(folder: &Path, strategy: &str, workers: u32, more: &str) -> String {
    format!(
        r#"
schema = 1
name = "labelled-texts"
[model]
kind = "text-cnn"
width = 8
dropout = 0.25
[dataset]
kind = "text"
path = "{}"
header = true
context = 12
validation = 0.1
{more}
[train]
global-batch = 20
epochs = 3
optimizer = {{ kind = "sgd", lr = 0.1, momentum = 0.5 }}
evaluate = "1 epoch"
[nodes]
use = ["local*{workers}"]
[[strategy]]
{strategy}
[communication]
reduce-order = "rank"
[repeats]
count = 1
"#,
        folder.display()
    )
}

fn run(strategy: &str, workers: u32, more: &str) -> Trained {
    train(&recipe(&notes(), strategy, workers, more)).unwrap().done().unwrap()
}

fn values(trained: &Trained, metric: Metric) -> Vec<f64> {
    trained.metrics().filter(|found| found.metric == metric).map(|found| found.value).collect()
}

#[test]
fn workers_and_a_server_end_with_the_same_weights_and_learn_as_one_process() {
    let workers = run("kind = \"d-sync\"", 2, "");
    let digests = workers.common_digests().unwrap();
    let served = run("kind = \"ps-sync\"", 2, "");
    assert_eq!(served.common_digests().unwrap(), digests);
    let accuracy = values(&workers, Metric::TestAccuracy);
    assert!(accuracy.last().unwrap() > &0.95, "{accuracy:?}");
    let one = run("kind = \"d-sync\"", 1, "");
    let two = values(&workers, Metric::TestLoss);
    for (one, two) in values(&one, Metric::TestLoss).iter().zip(&two) {
        assert!((one - two).abs() < 1e-4 * one.max(0.1), "{one} and {two}");
    }
}

#[test]
fn classes_can_be_spread_unevenly() {
    let uneven =
        run("kind = \"local-sgd\"\nperiod = 4", 2, "partition = { kind = \"dirichlet\", alpha = 0.1 }");
    let even = run("kind = \"local-sgd\"\nperiod = 4", 2, "partition = \"sharded\"");
    assert_ne!(values(&uneven, Metric::TestLoss), values(&even, Metric::TestLoss));
}

/// A desk with a copy of the texts.
fn desk() -> Desk {
    let desk = Desk::new().unwrap();
    fs::create_dir(desk.at("mine")).unwrap();
    for name in ["train.csv", "test.csv"] {
        fs::copy(notes().join(name), desk.at("mine").join(name)).unwrap();
    }
    let text = recipe(Path::new("mine"), "kind = \"d-sync\"", 2, "").replace("epochs = 3", "epochs = 1");
    desk.write("recipe.toml", &text).unwrap();
    desk
}

#[test]
fn other_texts_are_another_run() {
    let desk = desk();
    let trained = |desk: &Desk| desk.attempts().filter(|attempt| attempt.is_dir()).count();
    for expected in [1, 1] {
        desk.run(["run", "recipe.toml"]).unwrap().with_code(0).unwrap();
        assert_eq!(trained(&desk), expected, "the same texts are the same run");
    }
    // A word less: sizes and classes stay the same.
    let test = fs::read_to_string(desk.at("mine/test.csv")).unwrap();
    fs::write(desk.at("mine/test.csv"), test.replacen(" again", "", 1)).unwrap();
    desk.run(["run", "recipe.toml"]).unwrap().with_code(0).unwrap();
    assert_eq!(trained(&desk), 2, "other texts are another run");
}

#[test]
fn a_run_whose_texts_change_fails() {
    let desk = desk();
    let slow = "[compute]\nstep-time = \"40ms\"\n[repeats]";
    let text = fs::read_to_string(desk.at("recipe.toml")).unwrap().replace("[repeats]", slow);
    desk.write("recipe.toml", &text).unwrap();
    let whole = fs::read_to_string(desk.at("mine/test.csv")).unwrap();
    let driver = desk.start(["run", "recipe.toml"]).unwrap();
    wait_until(PATIENCE, || Ok(desk.attempts().any(|attempt| attempt.is_dir()))).unwrap();
    fs::write(desk.at("mine/test.csv"), whole.replacen(" again", " agaim", 1)).unwrap();
    let ended = driver.end(PATIENCE).unwrap().with_code(5).unwrap();
    let said = format!("{}{}", ended.stdout, ended.stderr);
    assert!(said.contains("changed since the sweep was planned"), "{said}");
}

#[test]
fn bad_texts_are_said_when_the_recipe_is_checked() {
    let desk = desk();
    let train = fs::read_to_string(desk.at("mine/train.csv")).unwrap();
    fs::write(desk.at("mine/train.csv"), train.replacen("sport,", "sport,\"", 1)).unwrap();
    for verb in ["check", "run"] {
        let said = desk.run([verb, "recipe.toml"]).unwrap().with_code(2).unwrap();
        let said = format!("{}{}", said.stdout, said.stderr);
        assert!(said.contains("error[R184]") && said.contains("train.csv"), "{said}");
        assert!(!said.contains("R109"), "{said}");
    }
    fs::write(desk.at("mine/train.csv"), train).unwrap();
    desk.run(["check", "recipe.toml"]).unwrap().with_code(0).unwrap();
    let test = fs::read_to_string(desk.at("mine/test.csv")).unwrap();
    fs::write(desk.at("mine/test.csv"), test.replacen("market,", "markets,", 1)).unwrap();
    let said = desk.run(["check", "recipe.toml"]).unwrap().with_code(2).unwrap();
    let said = format!("{}{}", said.stdout, said.stderr);
    assert!(
        said.contains("test.csv has the label \"markets\" in line 4, which train.csv does not have"),
        "{said}"
    );
}
