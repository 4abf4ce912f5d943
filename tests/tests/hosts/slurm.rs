//! Runs inside an allocation of a real Slurm: agents through `srun`, the same numbers as on one machine.

use e2e::{Desk, DriverProcess, Sketch, SlurmLab};
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
