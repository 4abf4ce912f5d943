//! A folder of pictures in real processes: the pictures of `examples/own-pictures`, and files that change, go or are none.
#![expect(clippy::unwrap_used, reason = "in a test, a failure is a panic")]

use e2e::{Desk, Trained, train, wait_until};
use recipe::Metric;
use record::{LaneId, Phase};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_mins(1);
const BY_RANK: &str = "[communication]\nreduce-order = \"rank\"\n";
const PICTURES: &str = "kind = \"image-folder\"\nresize = 24\ncrop = 20";

fn shapes() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/own-pictures").canonicalize().unwrap()
}

fn recipe(data: &str, strategy: &str, workers: u32) -> String {
    format!(
        r#"
schema = 1
name = "own-pictures"
[model]
kind = "sequential"
layers = [
  {{ kind = "conv", outputs = 8, kernel = 3, padding = 1 }}, {{ kind = "relu" }}, {{ kind = "max-pool", kernel = 2 }},
  {{ kind = "flatten" }}, {{ kind = "linear", outputs = 10 }},
]
[dataset]
{data}
augment = ["crop", "flip"]
[train]
global-batch = 12
epochs = 2
optimizer = {{ kind = "sgd", lr = 0.02, momentum = 0.9 }}
evaluate = "1 epoch"
[nodes]
use = ["local*{workers}"]
[[strategy]]
{strategy}
[repeats]
count = 1
"#
    )
}

fn of_folder(folder: &Path) -> String {
    format!("{PICTURES}\npath = \"{}\"", folder.display())
}

fn run(data: &str, strategy: &str, workers: u32, more: &str) -> Trained {
    // The last layer has as many outputs as there are classes.
    let outputs = if data.contains("image-folder") { "outputs = 3" } else { "outputs = 10" };
    let text = recipe(data, strategy, workers).replace("outputs = 10", outputs) + more;
    train(&text).unwrap().done().unwrap()
}

#[test]
fn workers_together_see_what_one_process_sees() {
    for data in [of_folder(&shapes()), "kind = \"synthetic\"\ntrain = 72\ntest = 24".to_owned()] {
        let weights = |strategy, workers| run(&data, strategy, workers, BY_RANK).final_weights().unwrap();
        let alone = weights("kind = \"d-sync\"", 1);
        for workers in [2, 3] {
            let together = weights("kind = \"d-sync\"", workers);
            let apart = alone.iter().zip(&together).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(apart <= 1e-5, "{workers} workers end {apart} away from one");
            assert_eq!(weights("kind = \"ps-sync\"", workers), together, "bit for bit");
        }
    }
}

#[test]
fn waiting_for_pictures_is_the_phase_data() {
    let trained = run(&of_folder(&shapes()), "kind = \"d-sync\"", 2, "");
    let steps = trained.steps().filter(|step| step.lane == LaneId::Compute);
    let waited = steps.filter(|step| step.phases[Phase::Data].0 > 0).count();
    assert_eq!(waited, 2 * 12, "72 pictures are 6 steps of each of 2 ranks, twice");
    let accuracies = trained.metrics().filter(|found| found.metric == Metric::TestAccuracy).count();
    assert_eq!(accuracies, 3);
}

/// A desk with a copy of the pictures, and a recipe that takes a while.
fn desk() -> Desk {
    let desk = Desk::new().unwrap();
    for split in ["train", "test"] {
        for class in ["disc", "square", "stripes"] {
            let from = shapes().join(split).join(class);
            let to = desk.at("mine").join(split).join(class);
            fs::create_dir_all(&to).unwrap();
            for entry in fs::read_dir(from).unwrap() {
                let entry = entry.unwrap();
                fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
            }
        }
    }
    let text =
        recipe(&of_folder(Path::new("mine")), "kind = \"d-sync\"", 2).replace("outputs = 10", "outputs = 3");
    desk.write("recipe.toml", &(text + "[compute]\nstep-time = \"40ms\"\n")).unwrap();
    desk
}

#[test]
fn the_same_pictures_are_the_same_run_and_others_are_another() {
    let desk = desk();
    let ended = desk.run(["run", "recipe.toml"]).unwrap().with_code(0).unwrap();
    assert!(desk.at(ended.page().unwrap()).is_file());
    let trained = |desk: &Desk| desk.attempts().filter(|attempt| attempt.is_dir()).count();
    desk.run(["run", "recipe.toml"]).unwrap().with_code(0).unwrap();
    assert_eq!(trained(&desk), 1);
    fs::copy(desk.at("mine/train/disc/01.png"), desk.at("mine/train/disc/03.png")).unwrap();
    desk.run(["run", "recipe.toml"]).unwrap().with_code(0).unwrap();
    assert_eq!(trained(&desk), 2);
    let said = desk.said(["data", "describe", "mine"]).unwrap();
    let words: Vec<&str> = said.split_whitespace().collect();
    let words = words.join(" ");
    assert!(words.contains("training samples 72") && words.contains("test samples 24"), "{said}");
    assert!(words.contains("classes 3"), "{said}");
}

#[test]
fn a_run_whose_pictures_change_fails() {
    let desk = desk();
    let driver = desk.start(["run", "recipe.toml"]).unwrap();
    wait_until(PATIENCE, || Ok(desk.attempts().any(|attempt| attempt.is_dir()))).unwrap();
    fs::copy(desk.at("mine/test/disc/01.png"), desk.at("mine/test/disc/03.png")).unwrap();
    let ended = driver.end(PATIENCE).unwrap().with_code(5).unwrap();
    let said = format!("{}{}", ended.stdout, ended.stderr);
    assert!(said.contains("changed since the sweep was planned"), "{said}");
}

#[test]
fn files_that_are_no_pictures_are_told_with_what_to_do() {
    let told = |spoil: &dyn Fn(&Desk), code: i32, expected: &[&str]| {
        let desk = desk();
        spoil(&desk);
        let ended = desk.run(["run", "recipe.toml"]).unwrap().with_code(code).unwrap();
        let said = format!("{}{}", ended.stdout, ended.stderr);
        let line = said.split_whitespace().collect::<Vec<_>>().join(" ");
        for expected in expected {
            assert!(line.contains(expected), "{expected}: {said}");
        }
    };
    let file = "mine/train/disc/01.png";
    told(
        &|desk| fs::create_dir(desk.at("mine/train/empty")).unwrap(),
        2,
        &["R190", "mine/train/empty has no pictures", "or remove the folder"],
    );
    told(
        &|desk| fs::write(desk.at(file), "<html>").unwrap(),
        4,
        &["01.png is no JPEG or PNG file", "replace or remove this file"],
    );
    told(
        &|desk| {
            let whole = fs::read(desk.at(file)).unwrap();
            fs::write(desk.at(file), &whole[..whole.len() - 20]).unwrap();
        },
        4,
        &["01.png is cut off: a PNG file of", "replace or remove this file"],
    );
    // Its parts are whole: only a decoder sees it.
    told(
        &|desk| {
            let mut damaged = fs::read(desk.at(file)).unwrap();
            let at = damaged.windows(4).position(|name| name == b"IDAT").unwrap();
            damaged[at + 8..at + 16].fill(0xaa);
            fs::write(desk.at(file), damaged).unwrap();
        },
        5,
        &["01.png cannot be decoded", "rank"],
    );
}
