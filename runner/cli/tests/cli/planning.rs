//! `check` and `plan`.

use crate::kitchen::{HAPLESS, Kitchen};
use serde_json::{Value, json};
use std::fmt::Write;
use std::time::Instant;

#[test]
fn a_sound_recipe_is_ok() {
    let told = Kitchen::new().run(&["check", "small.toml"]).code(0);
    assert!(told.out.starts_with(
        "ok  small.toml: 2 arms, 4 cells, 1 excluded, 6 runs\nevidence: 2 repeats settle nothing"
    ));
    assert_eq!(told.err, "");
}

#[test]
fn every_problem_is_told_at_once() {
    let told = Kitchen::new().run(&["check", "broken.toml", "small.toml"]).code(2);
    insta::assert_snapshot!("check_broken", told.both());
}

#[test]
fn problems_come_as_json_too() {
    let told = Kitchen::new().run(&["check", "broken.toml", "small.toml", "--format", "json"]).code(2);
    assert_eq!(told.err, "");
    let json = told.json();
    assert_eq!((json[0]["valid"].as_bool(), json[1]["valid"].as_bool()), (Some(false), Some(true)));
    assert_eq!(json[1]["plan"], serde_json::json!({ "arms": 2, "cells": 4, "runs": 6 }));
    let unknown =
        json[0]["problems"].as_array().unwrap().iter().find(|problem| problem["code"] == "R012").unwrap();
    assert_eq!((&unknown["suggestion"], &unknown["places"][0]["line"]), (&"optimizer".into(), &6.into()));
}

#[test]
fn a_recipe_that_cannot_be_read_is_told_with_its_name() {
    let told = Kitchen::new().run(&["check", "nowhere.toml"]).code(2);
    assert!(told.err.contains("nowhere.toml") && told.err.contains("no such file"), "{}", told.err);
}

#[test]
fn a_plan_is_a_table() {
    let kitchen = Kitchen::new();
    let plan = kitchen.run(&["plan", "small.toml"]).code(0).out;
    assert!(plan.contains("\nthreads: 1 per worker, "), "{plan}");
    insta::assert_snapshot!("plan", anywhere(&plan));
    insta::assert_snapshot!("plan_csv", kitchen.run(&["plan", "small.toml", "--format", "csv"]).code(0).out);
    let full = kitchen.run(&["plan", "small.toml", "--full"]).code(0).out;
    insta::assert_snapshot!("plan_full", anywhere(&full));
}

/// Arms of lenet, which has four layers of 520, 25,050, 400,500 and 5,010 weights.
const EXCHANGES: &str = r#"
schema = 1
name = "exchanges"
model = { kind = "lenet" }
dataset = { kind = "synthetic", train = 2000, test = 500 }
train = { global-batch = 40, epochs = 1 }
nodes = { use = ["local*2"] }
repeats = { count = 1 }
[[strategy]]
kind = "d-sync"
[[strategy]]
name = "buckets"
kind = "d-sync"
communication = { schedule = { kind = "fixed", size = "100KiB" } }
[[strategy]]
name = "merged"
kind = "d-sync"
communication = { schedule = "merged-exact" }
[[strategy]]
name = "powersgd"
kind = "d-sync"
compression = { kind = "powersgd", rank = 2, error-feedback = true }
[[strategy]]
name = "coded layers"
kind = "d-sync"
compression = "quantize8"
communication = { schedule = "per-layer" }
[[strategy]]
name = "gathered"
kind = "d-sync"
compression = { kind = "top-k", ratio = 0.01, error-feedback = true }
communication = { collective = "all-gather" }
[[strategy]]
name = "pieces"
kind = "pipe-sgd"
gradient-segments = 3
compression = "quantize8"
[[strategy]]
kind = "ps-sync"
servers = 2
compression = { kind = "fp16", parameters = true }
communication = { schedule = "per-layer" }
[[strategy]]
kind = "async-sgd"
[[strategy]]
kind = "local-sgd"
[[strategy]]
kind = "sgp"
[[strategy]]
kind = "ad-psgd"
[[strategy]]
kind = "easgd-sync"
communication = { schedule = "per-layer" }
[[strategy]]
kind = "easgd-async"
period = 4
[[strategy]]
kind = "gmp"
mp = 1
"#;

#[test]
fn what_a_worker_exchanges_is_counted_to_the_byte() {
    const WHOLE: u64 = 4 * 431_080;
    let kitchen = Kitchen::new();
    kitchen.write("exchanges.toml", EXCHANGES);
    let plan = kitchen.run(&["plan", "exchanges.toml", "--full", "--format", "json"]).code(0).out;
    let plan: Value = serde_json::from_str(&plan).unwrap();
    let exchange =
        |what: &str, parts: Option<u64>, bytes: u64| json!({ "what": what, "parts": parts, "bytes": bytes });
    let expected = [
        vec![exchange("gradients all-reduced", Some(1), WHOLE)],
        // The last two layers, and the first two.
        vec![exchange("gradients all-reduced", Some(2), WHOLE)],
        vec![exchange("gradients all-reduced", None, WHOLE)],
        // Two columns of 20 + 25, 50 + 500, 500 + 800 and 10 + 500 elements, and the biases.
        vec![exchange("gradients all-reduced", Some(2), 4 * (2 * (45 + 550 + 1300 + 510) + 580))],
        vec![exchange("gradients all-reduced", Some(4), 431_080 + 4 * 4)],
        vec![exchange("gradients to all others", Some(1), 4 + 8 * 4311)],
        vec![exchange("gradients all-reduced", Some(3), 431_080 + 3 * 4)],
        vec![
            exchange("gradients to 2 servers, which share them", Some(4), WHOLE / 2),
            exchange("weights from 2 servers, which share them", Some(4), WHOLE / 2),
        ],
        vec![
            exchange("gradients to the server", Some(1), WHOLE),
            exchange("weights from the server", Some(1), WHOLE),
        ],
        vec![exchange("weights all-reduced, each 8 steps", Some(1), WHOLE)],
        vec![exchange("weights to the neighbour of the step", Some(1), WHOLE)],
        vec![exchange("weights to each neighbour that it averages with", Some(1), WHOLE)],
        vec![
            exchange("weights of the centre, down a tree of the workers", Some(4), WHOLE),
            exchange("weights summed up the same tree", Some(4), WHOLE),
        ],
        vec![exchange("weights with the centre, each way, each 4 steps", Some(1), WHOLE)],
        vec![exchange("gradients all-reduced", Some(1), WHOLE)],
    ];
    for (cell, expected) in plan["cells"].as_array().unwrap().iter().zip(expected) {
        assert_eq!(cell["exchanges"], json!(expected), "{}", cell["arm"]);
    }
    let table = kitchen.run(&["plan", "exchanges.toml", "--full"]).code(0).out;
    let comments: Vec<&str> = table.lines().filter(|line| line.starts_with('#')).collect();
    assert!(comments.contains(&"# d-sync; gmp"), "{comments:?}");
    assert!(comments.iter().all(|line| line.chars().count() <= 80), "{comments:?}");
}

/// A plan without what depends on the cores of the machine.
fn anywhere(plan: &str) -> String {
    plan.split_inclusive('\n').filter(|line| !line.starts_with("threads")).collect()
}

#[test]
fn the_full_recipe_plans_to_the_same_runs() {
    let kitchen = Kitchen::new();
    kitchen.write("full.toml", &kitchen.run(&["plan", "small.toml", "--full"]).out);
    let csv = |recipe: &str| kitchen.run(&["plan", recipe, "--format", "csv"]).code(0).out;
    assert_eq!(csv("full.toml"), csv("small.toml"));
}

#[test]
fn tables_fit_the_terminal() {
    let kitchen = Kitchen::new().with_worker(HAPLESS);
    for columns in ["60", "80", "120"] {
        for arguments in [
            &["plan", "small.toml"][..],
            &["plan", "small.toml", "--why"],
            &["check", "broken.toml"],
            &PREDICT,
        ] {
            let output = kitchen.command(arguments).env("COLUMNS", columns).output().unwrap();
            let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
            let widest = text.lines().map(|line| line.chars().count()).max().unwrap();
            // Sentences about the recipe are not broken; tables are.
            let limit = if arguments[0] == "check" { 160 } else { columns.parse().unwrap() };
            assert!(widest <= limit, "{arguments:?} at {columns}: {widest} columns\n{text}");
        }
    }
}

#[test]
fn the_command_line_changes_the_recipe() {
    let kitchen = Kitchen::new();
    let json = |more: &[&str]| {
        let arguments = [&["plan", "small.toml", "--format", "json"], more].concat();
        kitchen.run(&arguments).code(0).json()
    };
    let plan = json(&[]);
    assert_eq!((plan["cells"].as_array().unwrap().len(), plan["runs"].as_array().unwrap().len()), (4, 6));
    assert_eq!(plan["cells"][2]["excluded"], "known to diverge");
    assert!(plan["cells"][0]["spec"].is_null() && plan["expanded"].is_null());
    assert_eq!(json(&["--repeats", "5"])["runs"].as_array().unwrap().len(), 15);
    assert_eq!(json(&["--only", "strategy.name == 'd-sync'"])["runs"].as_array().unwrap().len(), 4);
    let full = json(&["--full", "--set", "train.global-batch=40"]);
    assert_eq!(full["cells"][0]["spec"]["train"]["global_batch"], 40);
    let swept = json(&["--sweep", "nodes.workers=1,2"]);
    assert_eq!(swept["cells"].as_array().unwrap().len(), 8);
}

#[test]
fn a_selection_of_nothing_is_3() {
    let told = Kitchen::new().run(&["plan", "small.toml", "--only", "train.optimizer.lr == 7"]).code(3);
    assert!(told.err.contains("--only train.optimizer.lr == 7"), "{}", told.err);
}

#[test]
fn what_is_wrong_on_the_command_line_is_shown_there() {
    let told = Kitchen::new().run(&["plan", "small.toml", "--set", "train.epoch=3"]).code(2);
    assert!(
        told.err.contains("did you mean `epochs`?") && told.err.contains("train.epoch=3"),
        "{}",
        told.err
    );
}

#[test]
fn why_needs_a_worker_to_know_what_is_the_same() {
    let told = Kitchen::new().run(&["plan", "small.toml", "--why"]).code(4);
    assert!(told.err.contains("/nowhere/bakeoff-worker"), "{}", told.err);
    let told = Kitchen::new().with_worker(HAPLESS).run(&["plan", "small.toml", "--why"]).code(0);
    insta::assert_snapshot!("plan_why", anywhere(&told.out));
}

#[test]
fn a_plan_writes_nothing() {
    let kitchen = Kitchen::new().with_worker(HAPLESS);
    kitchen.run(&["plan", "small.toml", "--why"]).code(0);
    assert!(!kitchen.path(".bakeoff").exists());
}

#[test]
fn a_step_is_predicted() {
    let kitchen = Kitchen::new();
    insta::assert_snapshot!("predict", kitchen.run(&PREDICT).code(0).out);
    kitchen.write("emulated.toml", EMULATED);
    insta::assert_snapshot!("predict_emulated", kitchen.run(&["predict", "emulated.toml"]).code(0).out);
    let json = kitchen.run(&["predict", "emulated.toml", "--format", "json"]).code(0).json();
    assert_eq!(json["cells"].as_array().unwrap().len(), 18);
    // Nothing says how the 60 ms are divided: a third and two thirds.
    let [forward, backward, update] =
        ["forward", "backward", "update"].map(|pass| json["cells"][0][pass].as_f64().unwrap());
    assert!((forward - 0.02).abs() < 1e-9 && (backward - 0.04).abs() < 1e-9 && update == 0.0);
    assert!(!kitchen.path(".bakeoff").exists());
}

const PREDICT: [&str; 6] = ["predict", "small.toml", "--network", "10gbe", "--compute", "2ms"];

/// 7850 weights are 31400 bytes, which take 31.4 ms on the link; a message starts in 1 ms, and a step computes for 60 ms.
const EMULATED: &str = r#"
schema = 1
name = "emulated"
model.kind = "softmax"
dataset = { kind = "synthetic", train = 1000, test = 200 }
train = { global-batch = 48, steps = 20, optimizer.lr = 0.1 }
nodes.use = ["local*4"]
network = { bandwidth = "8Mbit/s", latency = "1ms" }
compute.step-time = "60ms"
repeats.count = 1
strategy = [
    { kind = "d-sync", baseline = true },
    { name = "doubling", kind = "d-sync", communication.collective.kind = "recursive-doubling" },
    { name = "halves", kind = "d-sync", compression.kind = "bf16" },
    { name = "star", kind = "d-sync", communication.collective.kind = "star" },
    { kind = "ps-sync" },
    { kind = "pipe-sgd" },
    { kind = "local-sgd", period = 4 },
    { kind = "easgd-sync", rho = 0.5, variant = 2 },
    { kind = "d-psgd" },
]
sweep.axes."nodes.workers" = [2, 4]
"#;

#[test]
fn a_prediction_needs_a_network_and_a_time() {
    let kitchen = Kitchen::new();
    let told = kitchen.run(&["predict", "small.toml", "--compute", "2ms"]).code(2);
    assert!(
        told.err.contains("no network is emulated") && told.err.contains("`--network fdr`"),
        "{}",
        told.err
    );
    let told = kitchen.run(&["predict", "small.toml", "--network", "qdr"]).code(2);
    assert!(told.err.contains("`--compute 20ms`"), "{}", told.err);
    let told = kitchen.run(&["predict", "small.toml", "--network", "qdr", "--compute", "20"]).code(2);
    assert!(told.err.contains("a time with its unit"), "{}", told.err);
    let told = kitchen.run(&["predict", "small.toml", "--network", "qdr", "--compute", "0ms"]).code(2);
    assert!(told.err.contains("above zero"), "{}", told.err);
    let told = kitchen.run(&["predict", "small.toml", "--network", "ether", "--compute", "20ms"]).code(2);
    assert!(told.err.contains("fdr, qdr, 10gbe"), "{}", told.err);
}

/// The time is only printed: the test does not depend on the machine's speed.
#[test]
fn ten_thousand_cells_are_planned() {
    let kitchen = Kitchen::new();
    let mut text = std::fs::read_to_string(kitchen.path("small.toml")).unwrap();
    let start = text.find("[sweep.axes]").unwrap();
    text.truncate(start);
    let list =
        |count: usize, value: &dyn Fn(usize) -> String| (0..count).map(value).collect::<Vec<_>>().join(", ");
    let rates = list(100, &|place| format!("{}", (place + 1) as f64 / 1000.0));
    let seeds = list(50, &|place| place.to_string());
    write!(text, "[sweep.axes]\ntrain.optimizer.lr = [{rates}]\ndataset.seed = [{seeds}]\n").unwrap();
    text.push_str("[repeats]\ncount = 1\n[limits]\nmax-runs = 100000\n");
    kitchen.write("large.toml", &text);
    let begun = Instant::now();
    let table = kitchen.run(&["plan", "large.toml"]).code(0).out;
    println!("10,000 cells as a table: {} ms", begun.elapsed().as_millis());
    assert!(table.contains("2 arms x 5,000 conditions = 10,000 cells, 10,000 runs"), "{table}");
    assert!(table.contains("... and 9,940 more; `--format csv` lists them all"), "{table}");
    let begun = Instant::now();
    let csv = kitchen.run(&["plan", "large.toml", "--format", "csv"]).code(0).out;
    println!("10,000 cells as CSV: {} ms", begun.elapsed().as_millis());
    assert_eq!(csv.lines().count(), 10_001);
    // 648,010 weights at the start and at the end of each run.
    let large = ["plan", "large.toml", "--set", "model.kind=mnist-mlp"];
    let kept = "disk: 48.3 GiB of models and sample ids are kept";
    assert!(kitchen.run(&large).code(0).out.contains(kept));
    let none = [large.as_slice(), &["--set", "measure.models=none"]].concat();
    assert!(!kitchen.run(&none).code(0).out.contains("disk: "));
}
