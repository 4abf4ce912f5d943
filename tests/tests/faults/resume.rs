//! A run that ended early continues from its last checkpoint, with the numbers of a run without interruption.
#![expect(clippy::unwrap_used, reason = "in a test, a failure is a panic")]

use e2e::repeated_kills::{self, KilledSweep};
use e2e::{Desk, DriverProcess, Lab, Sketch, gone, is_whole, numbers, wait_until};
use record::Event;
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;
use store::EventLog;

const PATIENCE: Duration = Duration::from_mins(4);
/// For the first checkpoints of a run.
const START_UP: Duration = Duration::from_mins(1);
const STEPS: u32 = 300;
/// Steps from one checkpoint to the next.
const PERIOD: u64 = 50;
/// Checkpoints of a run that is ended: a third of what it would have had.
const ENOUGH: u64 = 2;

/// A model with several layers, momentum, and models at several points; `more` is about the strategy.
fn recipe(strategy: &'static str, more: &str) -> String {
    let layers = "[{ kind = \"flatten\" }, { kind = \"linear\", outputs = 40 }, { kind = \"relu\" }, \
                  { kind = \"linear\", outputs = 10 }]";
    recipe_of(&format!("kind = \"sequential\"\nlayers = {layers}"), strategy, more)
}

/// Steps that say that they compute, so that there is time to end a run while cores are free for others.
fn recipe_of(model: &str, strategy: &'static str, more: &str) -> String {
    let sketch = Sketch { evaluate: 75, ..Sketch::perceptron("small", strategy, STEPS) };
    let text = sketch.to_string().replace("kind = \"mnist-mlp\"", model);
    let text = text.replace("lr = 0.01", "lr = 0.01, momentum = 0.9");
    let recorded = format!("checkpoint = \"{PERIOD} steps\"\n[measure]\nsteps = \"all\"\n[nodes]");
    text.replace("[nodes]", &recorded) + more + "[compute]\nstep-time = \"8ms\"\n"
}

/// The events of the attempt whose ranks all reached the end.
fn finished(desk: &Desk) -> Vec<Event> {
    let second = |attempt: PathBuf| [attempt.with_file_name("2"), attempt];
    let logs = desk.attempts().flat_map(second).filter_map(|attempt| EventLog::read(&attempt).ok());
    logs.into_iter().find(|events| is_whole(events)).unwrap()
}

/// The folders of the complete checkpoints of all attempts.
fn complete(desk: &Desk) -> Vec<PathBuf> {
    desk.attempts().flat_map(|attempt| complete_in(&attempt)).collect()
}

fn complete_in(attempt: &Path) -> Vec<PathBuf> {
    let events = EventLog::read(attempt).unwrap_or_default();
    let ranks = events.iter().filter(|event| matches!(event, Event::Prepared(_))).count();
    let mut parts: BTreeMap<u64, usize> = BTreeMap::new();
    for event in events {
        if let Event::Checkpoint(record) = event {
            *parts.entry(record.number).or_default() += 1;
        }
    }
    let whole = parts.into_iter().filter(|(_, parts)| *parts == ranks);
    let folders = whole.map(|(number, _)| attempt.join("checkpoints").join(number.to_string()));
    folders.filter(|folder| folder.exists()).collect()
}

/// The number of the last complete checkpoint; 0 if there is none.
fn newest(desk: &Desk) -> u64 {
    complete(desk).iter().map(|folder| number(folder)).max().unwrap_or(0)
}

/// A run that `end` ends when it has some checkpoints.
fn ended_early(text: &str, end: impl FnOnce(&DriverProcess)) -> Desk {
    let desk = Desk::new().unwrap();
    desk.write("recipe.toml", text).unwrap();
    let driver = desk.start(["run", "recipe.toml"]).unwrap();
    // Behind several models, which are evaluated after the ranks where cores are few.
    wait_until(START_UP, || Ok(newest(&desk) >= ENOUGH)).unwrap();
    let workers = driver.workers().unwrap();
    end(&driver);
    driver.end(PATIENCE).unwrap();
    gone(&workers, Duration::from_secs(10)).unwrap();
    desk
}

/// A run that ends early.
struct Scene {
    strategy: &'static str,
    more: &'static str,
    end: fn(&DriverProcess),
}

fn kill_driver(driver: &DriverProcess) {
    driver.signal(Signal::KILL).unwrap();
}

fn kill_worker(driver: &DriverProcess) {
    driver.workers().unwrap()[0].signal(Signal::KILL).unwrap();
}

fn interrupt(driver: &DriverProcess) {
    driver.signal(Signal::INT).unwrap();
}

#[test]
fn a_run_that_ended_early_ends_with_the_numbers_of_one_that_did_not() {
    let coded = "[compression]\nkind = \"quantize8\"\nerror-feedback = true\n";
    let scenes = [
        Scene { strategy: "d-sync", more: coded, end: kill_driver },
        Scene { strategy: "pipe-sgd", more: coded, end: kill_worker },
        Scene { strategy: "ps-sync", more: "", end: interrupt },
        // Its models are evaluated together.
        Scene { strategy: "local-sgd", more: "", end: kill_driver },
        // Its workers hold parts of a model.
        Scene { strategy: "gmp\"\nmp = 2\nscheme = \"b/k", more: "", end: kill_worker },
    ];
    for Scene { strategy, more, end } in scenes {
        let text = recipe(strategy, more);
        let whole = Desk::new().unwrap();
        whole.write("recipe.toml", &text).unwrap();
        whole.run(["run", "recipe.toml"]).unwrap().with_code(0).unwrap();
        assert_eq!(complete(&whole), Vec::<PathBuf>::new(), "a run that is done needs none");
        let desk = ended_early(&text, end);
        let why = desk.json(["plan", "recipe.toml", "--why", "--format", "json"]).unwrap();
        assert_eq!(why["runs"][0]["action"], "resume", "{strategy}: {why}");
        let words = why["runs"][0]["why"].as_str().unwrap();
        let (_, step) = words.split_once("; it continues after step ").unwrap_or_else(|| panic!("{words}"));
        // The last one may have been complete before all steps up to it were recorded.
        assert!(
            step.parse::<u64>().unwrap() >= (newest(&desk) - 1) * PERIOD,
            "{words}, of {:?}",
            complete(&desk)
        );
        let resumed = desk.run(["run", "recipe.toml"]).unwrap().with_code(0).unwrap();
        assert!(resumed.stderr.contains("it continues from checkpoint "), "{}", resumed.stderr);
        let whole = numbers(&finished(&whole));
        let resumed = numbers(&finished(&desk));
        let differing: Vec<_> =
            whole.iter().zip(&resumed).filter(|(one, other)| one != other).take(5).collect();
        assert!(whole == resumed, "{strategy}: {} and {} numbers, {differing:?}", whole.len(), resumed.len());
    }
}

/// Snapshots hold the trained weights; the rest lies in a file of one attempt.
#[test]
fn a_continued_run_exports_its_frozen_weights() {
    let desk = ended_early(&recipe_of("kind = \"cifar100-convex\"", "d-sync", ""), kill_driver);
    desk.run(["run", "recipe.toml"]).unwrap().with_code(0).unwrap();
    desk.run(["export", "last", "--format", "safetensors", "-o", "out"]).unwrap().with_code(0).unwrap();
    let run = std::fs::read_dir(desk.at("out")).unwrap().next().unwrap().unwrap().path();
    let frozen = ["initial", "final"].map(|model| {
        let bytes = std::fs::read(run.join(format!("{model}.safetensors"))).unwrap();
        let tensors = safetensors::SafeTensors::deserialize(&bytes).unwrap();
        tensors.tensor("frozen1.conv1.weight").unwrap().data().to_vec()
    });
    assert_eq!(frozen[0].len(), 4 * 32 * 25);
    assert_eq!(frozen[0], frozen[1]);
}

#[test]
fn a_run_that_is_tried_again_continues_from_its_last_checkpoint() {
    let text = recipe("d-sync", "[limits]\nretries = 1\n");
    let whole = Desk::new().unwrap();
    whole.write("recipe.toml", &text).unwrap();
    whole.run(["run", "recipe.toml"]).unwrap().with_code(0).unwrap();
    let desk = Desk::new().unwrap();
    desk.write("recipe.toml", &text).unwrap();
    let driver = desk.start(["run", "recipe.toml"]).unwrap();
    wait_until(START_UP, || Ok(newest(&desk) >= ENOUGH)).unwrap();
    kill_worker(&driver);
    let ended = driver.end(PATIENCE).unwrap().with_code(0).unwrap();
    assert!(ended.stderr.contains("it continues from checkpoint "), "{}", ended.stderr);
    assert!(numbers(&finished(&whole)) == numbers(&finished(&desk)), "other numbers");
}

/// The states and the models of its ranks come to the driver while it trains, and go to the hosts again.
#[test]
fn a_run_on_hosts_continues_after_one_of_them_was_lost() {
    if !Lab::is_possible() {
        return;
    }
    let cache = tempfile::tempdir().unwrap();
    let lab = Lab::with_filled_cache(cache.path()).unwrap();
    let sketch = Sketch { strategy: "d-sync", steps: 600, evaluate: 140, ..Sketch::default() };
    let text = sketch
        .to_string()
        .replace("[nodes]", "checkpoint = \"50 steps\"\n[measure]\nsteps = \"all\"\n[nodes]");
    let text = text.replace("use = [\"local*2\"]", "use = [\"lab1*2\", \"lab2*2\"]")
        + "[compute]\nstep-time = \"8ms\"\n[compression]\nkind = \"quantize8\"\nerror-feedback = true\n";
    let desk = || {
        let desk = Desk::new().unwrap();
        desk.write("recipe.toml", &text).unwrap();
        desk
    };
    let run = |desk: &Desk| lab.run(desk, ["-v", "run", "recipe.toml"]).unwrap();
    let whole = desk();
    run(&whole).end(PATIENCE).unwrap().with_code(0).unwrap();
    let cached = std::fs::read_dir(cache.path().join("files")).unwrap().count();
    let desk = desk();
    let mut driver = run(&desk);
    let agent = driver.worker(2).unwrap().starter().unwrap();
    wait_until(PATIENCE, || Ok(complete(&desk).len() >= 3)).unwrap();
    agent.signal(Signal::KILL).unwrap();
    driver.end(PATIENCE).unwrap().with_code(5).unwrap();
    let resumed = run(&desk).end(PATIENCE).unwrap().with_code(0).unwrap();
    assert!(resumed.stderr.contains("it continues from checkpoint "), "{}", resumed.stderr);
    assert!(numbers(&finished(&whole)) == numbers(&finished(&desk)), "other numbers");
    assert_eq!(
        std::fs::read_dir(cache.path().join("files")).unwrap().count(),
        cached,
        "states are in the cache"
    );
    assert_eq!(std::fs::read_dir(cache.path().join("attempts")).unwrap().count(), 0);
}

#[test]
fn a_damaged_checkpoint_is_passed_over_and_fresh_begins_anew() {
    let desk = ended_early(&recipe("d-sync", ""), kill_driver);
    let why = |desk: &Desk| {
        let why = desk.json(["plan", "recipe.toml", "--why", "--format", "json"]).unwrap();
        why["runs"][0]["why"].as_str().unwrap().to_owned()
    };
    let before = why(&desk);
    let step: u64 = before.rsplit(' ').next().and_then(|step| step.parse().ok()).unwrap();
    let used = complete(&desk).into_iter().find(|folder| number(folder) == step / PERIOD).unwrap();
    let state = used.join("rank-1.state");
    let mut bytes = std::fs::read(&state).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&state, bytes).unwrap();
    assert_ne!(why(&desk), before);
    for folder in complete(&desk) {
        std::fs::write(folder.join("rank-0.state"), "").unwrap();
    }
    assert!(why(&desk).ends_with("; it begins anew"), "{}", why(&desk));
}

#[test]
fn a_sweep_whose_driver_is_killed_again_and_again_loses_nothing_and_repeats_nothing() {
    let undisturbed = repeated_kills::undisturbed().unwrap();
    let killed = repeated_kills::killed_again_and_again(1, &undisturbed).unwrap();
    let KilledSweep { kills, continued, numbers } = killed;
    assert!(kills > 0 && continued > 0, "{kills} kills, {continued} continued");
    assert!(numbers == undisturbed.numbers, "other numbers after {kills} kills");
}

/// The number of a checkpoint, by its folder.
fn number(folder: &Path) -> u64 {
    folder.file_name().and_then(|name| name.to_str()?.parse().ok()).unwrap_or(0)
}
