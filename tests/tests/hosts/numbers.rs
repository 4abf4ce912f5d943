//! Ranks on several hosts end with the weights that they have on one machine, and their clocks are compared.

use crate::{APART, HOSTS, PATIENCE, desk_of, recipe, says, trained};
use e2e::{Desk, Lab, Sketch, binary, wait_until};
use record::Event;
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;

/// Through doors, in a tunnel, and with this machine as one of the hosts.
#[test]
fn ranks_on_several_hosts_end_with_the_weights_of_one_machine() {
    if !Lab::is_possible() {
        return;
    }
    let lab = Lab::start().unwrap();
    let places =
        [HOSTS, "use = [\"lab1*2\", \"lab2*2\"]\ntunnel = \"ssh\"", "use = [\"local*2\", \"lab2*2\"]"];
    for (strategy, places) in [("d-sync", &places[..]), ("ps-sync", &places[..1])] {
        let here = trained(None, strategy, "use = [\"local*4\"]");
        assert!(!here.is_empty());
        for place in places {
            assert_eq!(trained(Some(&lab), strategy, place), here, "{strategy} on {place}");
        }
    }
}

/// Doors at the addresses of the hosts' own cards.
#[test]
fn ranks_in_network_namespaces_end_with_the_weights_of_one_machine() {
    if !Lab::is_possible_in_namespaces() {
        return;
    }
    let lab = Lab::in_namespaces().unwrap();
    for strategy in ["d-sync", "ps-sync"] {
        let here = trained(None, strategy, "use = [\"local*4\"]\nthreads = 1");
        assert!(!here.is_empty());
        assert_eq!(trained(Some(&lab), strategy, APART), here, "{strategy}");
    }
    assert_eq!(lab.processes().unwrap(), [""; 0]);
}

#[test]
fn strategies_that_wait_for_nothing_train_on_several_hosts() {
    if !Lab::is_possible() {
        return;
    }
    let lab = Lab::start().unwrap();
    for strategy in ["ad-psgd", "easgd-async"] {
        assert!(!trained(Some(&lab), strategy, HOSTS).is_empty(), "{strategy}");
    }
}

/// Its models are evaluated when all ranks have ended, those of the part before among them: they lie on this machine alone.
#[test]
fn a_run_on_hosts_that_was_stopped_continues_with_the_weights_of_one_that_was_not() {
    if !Lab::is_possible() {
        return;
    }
    let nodes = "use = [\"lab1\", \"local*2\"]\n[compute]\nstep-time = \"60ms\"";
    let sketch = Sketch { steps: 60, evaluate: 10, batch: 30, ..Sketch::default() };
    let text = |nodes: &str| {
        let text = sketch.to_string().replace("use = [\"local*2\"]", nodes);
        text.replace("[nodes]", "checkpoint = \"10 steps\"\n[nodes]")
            + "[communication]\nreduce-order = \"rank\"\n"
    };
    let here = Desk::new().unwrap();
    here.write("recipe.toml", &text("use = [\"local*3\"]")).unwrap();
    here.run(["run", "recipe.toml"]).unwrap().with_code(0).unwrap();
    let lab = Lab::start().unwrap();
    let desk = Desk::new().unwrap();
    desk.write("recipe.toml", &text(nodes)).unwrap();
    let driver = lab.run(&desk, ["run", "recipe.toml"]).unwrap();
    let saved = |event: &Event| matches!(event, Event::Checkpoint(saved) if saved.number >= 3);
    wait_until(PATIENCE, || Ok(desk.events().iter().filter(|event| saved(event)).count() >= 3)).unwrap();
    driver.signal(Signal::INT).unwrap();
    driver.end(PATIENCE).unwrap().with_code(130).unwrap();
    let ended = lab.run(&desk, ["run", "recipe.toml"]).unwrap().end(PATIENCE).unwrap();
    ended.with_code(0).unwrap();
    let last = |desk: &Desk| {
        let runs = desk.json(["list", "state=done", "--format", "json"]).unwrap();
        let id = runs[0]["id"].as_str().unwrap().to_owned();
        let shown = desk.json(["show", &id, "--format", "json"]).unwrap();
        shown["run"]["attempt"]["weights"].clone()
    };
    assert_eq!(last(&desk), last(&here));
}

/// A worker program of the host's own decides the bits of its sums. It is loaded once for a run.
#[test]
fn a_host_with_another_worker_program_makes_another_run() {
    if !Lab::is_possible() {
        return;
    }
    let lab = Lab::start().unwrap();
    let desk = Desk::new().unwrap();
    let own = desk.at("own-worker");
    let worker = binary("bakeoff-worker").unwrap();
    let starts = desk.at("starts");
    let script =
        format!("#!/bin/sh\necho \"$@\" >> {}\nexec {} \"$@\"\n", starts.display(), worker.display());
    std::fs::write(&own, script).unwrap();
    std::fs::set_permissions(&own, std::fs::Permissions::from_mode(0o755)).unwrap();
    desk.write("nodes.toml", &format!("[lab1]\n[lab2]\nworker = \"{}\"\n", own.display())).unwrap();
    desk.write("recipe.toml", &recipe("d-sync", &format!("{HOSTS}\ninventory = \"nodes.toml\""), 5)).unwrap();
    let again =
        || lab.run(&desk, ["run", "recipe.toml"]).unwrap().end(PATIENCE).unwrap().with_code(0).unwrap();
    again();
    assert_eq!(std::fs::read_to_string(&starts).unwrap(), "--protocol --fork-server\n");
    assert!(again().stderr.contains("1 finished before and reused"));
    std::fs::OpenOptions::new().append(true).open(&own).unwrap().write_all(b"#").unwrap();
    let said = again().stderr;
    says(&said, &["lab2 has another worker program, or another libtorch, than this machine"]);
    assert!(!said.contains("reused"), "{said}");
}

/// All hosts here have the clock of this machine: it lies within the error that is stated.
#[test]
fn the_clocks_of_hosts_are_compared_and_the_page_says_how_exactly() {
    if !Lab::is_possible() {
        return;
    }
    let desk = desk_of(Some(&Lab::start().unwrap()), "d-sync", HOSTS);
    let exported = desk
        .run(["export", "last", "--format", "csv", "--what", "hosts"])
        .unwrap()
        .with_code(0)
        .unwrap()
        .stdout;
    let mut lines = exported.lines().map(|line| line.split(',').map(str::to_owned).collect::<Vec<_>>());
    let head = lines.next().unwrap();
    let column = |name: &str| head.iter().position(|other| other == name).unwrap();
    let node = column("node");
    let error = column("clock_error_ns");
    let read: BTreeMap<String, u64> =
        lines.map(|line| (line[node].clone(), line[error].parse().unwrap())).collect();
    assert_eq!(read.keys().collect::<Vec<_>>(), ["0", "1"], "{exported}");
    assert!(read.values().all(|error| (1..1_000_000_000).contains(error)), "{exported}");
    let page = desk.run(["report", "last", "-o", "page.html"]).unwrap().with_code(0);
    page.unwrap();
    let page = std::fs::read_to_string(desk.at("page.html")).unwrap();
    assert!(page.contains("The clocks of its 2 machines differ by at most "), "no bound on the page");
}
