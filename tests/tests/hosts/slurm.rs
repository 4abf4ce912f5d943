//! Runs inside an allocation of a real Slurm: agents through `srun`, the same numbers as on one machine.

use e2e::{Desk, DriverProcess, Sketch, SlurmLab, wait_until};
use record::{Event, Rank};
use std::collections::BTreeMap;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_mins(4);

/// Three workers, one on each node; of one thread, because sums depend on their number.
fn recipe(strategy: &'static str, nodes: &str) -> String {
    let sketch = Sketch { strategy, batch: 30, samples: 300, ..Sketch::default() };
    let communication = if strategy == "d-sync" { "[communication]\nreduce-order = \"rank\"\n" } else { "" };
    sketch.to_string().replace("use = [\"local*2\"]", nodes) + communication
}

fn weights(desk: &Desk) -> BTreeMap<Rank, String> {
    let hash = |event| match event {
        Event::WeightHash(hash) => Some((hash.rank, hash.sha256)),
        _ => None,
    };
    desk.events().into_iter().filter_map(hash).collect()
}

#[test]
fn ranks_on_the_nodes_of_an_allocation_end_with_the_weights_of_one_machine() {
    if !SlurmLab::is_possible() {
        return;
    }
    let lab = SlurmLab::start().unwrap();
    let cache = e2e::binary("bakeoff").unwrap().with_file_name("hosts-cache");
    for strategy in ["d-sync", "ps-sync"] {
        let here = Desk::new().unwrap();
        here.write("recipe.toml", &recipe(strategy, "use = [\"local*3\"]\nthreads = 1")).unwrap();
        here.run(["run", "recipe.toml"]).unwrap().with_code(0).unwrap();
        let there = Desk::new().unwrap();
        there.write("recipe.toml", &recipe(strategy, "use = [\"slurm*1\"]\nthreads = 1")).unwrap();
        let mut command = there.command(["run", "recipe.toml"]).unwrap();
        command.env("BAKEOFF_CACHE", &cache);
        let driver = DriverProcess::start(lab.allocated(&command)).unwrap();
        driver.end(PATIENCE).unwrap().with_code(0).unwrap();
        assert!(!weights(&here).is_empty());
        assert_eq!(weights(&there), weights(&here), "{strategy}");
    }
    let left = lab.slurm("squeue").args(["-h", "-s"]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&left.stdout).trim(), "", "no step of the allocation is left");
}

#[test]
fn the_end_of_an_allocation_is_no_fault_of_its_runs() {
    if !SlurmLab::is_possible() {
        return;
    }
    let lab = SlurmLab::start().unwrap();
    let desk = Desk::new().unwrap();
    let text = recipe("d-sync", "use = [\"slurm*1\"]\nthreads = 1\n[compute]\nstep-time = \"50ms\"");
    let text = text.replace("steps = 10", "steps = 2000").replace("count = 1", "count = 3");
    desk.write("recipe.toml", &text.replace("evaluate = \"10", "evaluate = \"2000")).unwrap();
    let mut command = desk.command(["run", "recipe.toml"]).unwrap();
    command.env("BAKEOFF_CACHE", e2e::binary("bakeoff").unwrap().with_file_name("hosts-cache"));
    let driver = DriverProcess::start(lab.allocated(&command)).unwrap();
    let trains = |event: &Event| matches!(event, Event::Step(_));
    wait_until(PATIENCE, || Ok(desk.events().iter().any(trains))).unwrap();
    assert!(lab.slurm("scancel").arg("1").status().unwrap().success());
    let ended = driver.end(PATIENCE).unwrap();
    let words = "the allocation 1 has ended; the same command in another one continues";
    assert!(ended.stderr.contains(words), "{}", ended.stderr);
    let runs = desk.json(["list", "--format", "json"]).unwrap();
    let states: Vec<&str> =
        runs.as_array().unwrap().iter().map(|run| run["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["interrupted", "pending", "pending"], "{}", ended.stderr);
}
