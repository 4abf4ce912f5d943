//! Runs on hosts that are reached through a real `sshd`: the same numbers as on one machine, and what goes wrong there.
#![expect(clippy::unwrap_used, reason = "in a test, a failure is a panic")]

mod accidents;
mod numbers;
mod readiness;
mod slurm;
mod slurm_jobs;
mod strangers;

use e2e::{CLEAN, Desk, Lab, Sketch, WorkerProcess, gone, wait_until};
use record::{Event, Nanos, Rank};
use std::collections::BTreeMap;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_mins(4);

/// A recipe of four workers on these machines.
fn recipe(strategy: &'static str, nodes: &str, steps: u32) -> String {
    let sketch = Sketch { strategy, steps, evaluate: steps, ..Sketch::default() };
    let communication = if strategy == "d-sync" { "[communication]\nreduce-order = \"rank\"\n" } else { "" };
    sketch.to_string().replace("use = [\"local*2\"]", nodes) + communication
}

const HOSTS: &str = "use = [\"lab1*2\", \"lab2*2\"]";
const ENDLESS: u32 = 1_000_000;

/// The last digest of each rank's weights, by strategy.
fn weights(desk: &Desk) -> BTreeMap<Rank, String> {
    let hash = |event| match event {
        Event::WeightHash(hash) => Some((hash.rank, hash.sha256)),
        _ => None,
    };
    desk.events().into_iter().filter_map(hash).collect()
}

fn trained(lab: Option<&Lab>, strategy: &'static str, nodes: &str) -> BTreeMap<Rank, String> {
    weights(&desk_of(lab, strategy, nodes))
}

/// The desk of a finished run.
fn desk_of(lab: Option<&Lab>, strategy: &'static str, nodes: &str) -> Desk {
    let desk = Desk::new().unwrap();
    desk.write("recipe.toml", &recipe(strategy, nodes, 20)).unwrap();
    let driver = match lab {
        Some(lab) => lab.run(&desk, ["run", "recipe.toml"]).unwrap(),
        None => desk.start(["run", "recipe.toml"]).unwrap(),
    };
    driver.end(PATIENCE).unwrap().with_code(0).unwrap();
    desk
}

/// Three hosts in network namespaces, four ranks; of one thread, because sums depend on their number.
const APART: &str = "use = [\"lab1*2\", \"lab2*1\", \"lab3*1\"]\nthreads = 1";

#[track_caller]
fn says(said: &str, words: &[&str]) {
    for word in words {
        assert!(said.contains(word), "`{word}` is not in:\n{said}");
    }
}

/// A run without an end on two hosts, its workers by rank, and the agents.
struct Training {
    lab: Lab,
    desk: Desk,
    driver: e2e::DriverProcess,
    workers: Vec<WorkerProcess>,
    agents: Vec<WorkerProcess>,
}

fn training(nodes: &str) -> Training {
    training_of(&recipe("d-sync", nodes, ENDLESS))
}

fn training_of(recipe: &str) -> Training {
    let scene = training_in(Lab::start().unwrap(), recipe);
    assert_eq!(scene.agents.len(), 2, "an agent for each host");
    scene
}

fn training_in(lab: Lab, recipe: &str) -> Training {
    let desk = Desk::new().unwrap();
    desk.write("recipe.toml", recipe).unwrap();
    let mut driver = lab.run(&desk, ["-v", "run", "recipe.toml"]).unwrap();
    let workers: Vec<_> = (0..4).map(|rank| driver.worker(rank).unwrap()).collect();
    // Long enough for heartbeats to tell where ranks are.
    let trains = |event: &Event| matches!(event, Event::Step(step) if step.begin > Nanos(1_500_000_000));
    wait_until(Duration::from_mins(1), || Ok(desk.events().iter().any(trains))).unwrap();
    let mut agents: Vec<WorkerProcess> = workers.iter().map(|worker| worker.starter().unwrap()).collect();
    agents.dedup();
    Training { lab, desk, driver, workers, agents }
}

/// No process is left on any host, and nothing in the cache's folder of attempts.
fn cleaned(scene: &Training) {
    gone(&scene.workers, CLEAN).unwrap();
    gone(&scene.agents, CLEAN).unwrap();
}
