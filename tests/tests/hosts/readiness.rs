//! Hosts before a run: those that cannot train are named with the cure, and the others are checked.

use crate::{APART, HOSTS, PATIENCE, recipe, says};
use e2e::{Desk, Lab};
use std::fs;
use std::path::Path;

/// Standard error of `bakeoff run` on a lab that was changed by `spoil`, with exit code 4.
fn refused(nodes: &str, spoil: impl FnOnce(&Lab)) -> String {
    let lab = Lab::start().unwrap();
    spoil(&lab);
    let desk = Desk::new().unwrap();
    desk.write("recipe.toml", &recipe("d-sync", nodes, 5)).unwrap();
    let ended = lab.run(&desk, ["run", "recipe.toml"]).unwrap().end(PATIENCE).unwrap();
    let ended = ended.with_code(4).unwrap();
    assert!(!desk.at(".bakeoff/runs").exists(), "nothing was started");
    ended.stderr
}

#[test]
fn a_host_that_cannot_be_reached_is_named_with_the_cure() {
    if !Lab::is_possible() {
        return;
    }
    let edit = |lab: &Lab, from: &str, to: &str| {
        let config = fs::read_to_string(lab.at("config")).unwrap();
        fs::write(lab.at("config"), config.replace(from, to)).unwrap();
    };
    let said = refused(HOSTS, |lab| edit(lab, "/user", "/stranger"));
    says(
        &said,
        &["error: lab1: it cannot be reached", "Permission denied", "error: lab2: ", "ssh-copy-id lab1"],
    );
    let said = refused(HOSTS, |lab| fs::write(lab.at("known"), "").unwrap());
    says(&said, &["Host key verification failed", "connect once by hand with `ssh lab1`"]);
    let said = refused("use = [\"lab3*4\"]", |_| ());
    says(&said, &["error: lab3: ", "refused", "check that it is on and that sshd runs there"]);
    let said = refused("use = [\"nowhere.invalid*4\"]", |_| ());
    says(&said, &["error: nowhere.invalid: ", "Could not resolve hostname", "alias"]);
}

/// Two hosts that are one machine: its card is loopback's, and its wall clock is right.
#[test]
fn hosts_are_checked_and_the_ways_between_them_measured() {
    if !Lab::is_possible() {
        return;
    }
    let lab = Lab::start().unwrap();
    let desk = Desk::new().unwrap();
    desk.write("recipe.toml", &recipe("d-sync", HOSTS, 5)).unwrap();
    let nodes = |words: &[&str]| {
        let words = [&["nodes"], words].concat();
        lab.run(&desk, words).unwrap().end(PATIENCE).unwrap().with_code(0).unwrap().stdout
    };
    says(&nodes(&["check", "recipe.toml"]), &["lab1", "lab2", " lo ", "wall clock"]);
    let found: serde_json::Value = serde_json::from_str(&nodes(&["check", "recipe.toml", "--json"])).unwrap();
    for host in found["machines"].as_array().unwrap() {
        assert!(host["ready"] == true && host["network"]["interface"]["name"] == "lo", "{host}");
        assert!(host["wall_clock_ahead_ns"].as_i64().unwrap().abs() < 1_000_000_000, "{host}");
        assert!(host["network"]["receive_buffer"].as_u64().unwrap() > 0, "{host}");
    }
    assert!(!desk.at(".bakeoff/nodes.jsonl").exists(), "nothing was measured");
    says(&nodes(&["bench", "recipe.toml"]), &["lab1", "lab2", "1 / b", "ring", "halving and doubling"]);
    let kept = fs::read_to_string(desk.at(".bakeoff/nodes.jsonl")).unwrap();
    let kept: serde_json::Value = serde_json::from_str(kept.trim()).unwrap();
    let ways = kept["ways"].as_array().unwrap();
    assert_eq!(ways.len(), 2, "{kept}");
    for way in ways {
        assert!(
            way["line"]["b"].as_f64().unwrap() > 0.0 && way["round_trip"].as_f64().unwrap() > 0.0,
            "{way}"
        );
        assert_eq!(way["messages"].as_array().unwrap().len(), 5, "{way}");
    }
}

#[test]
fn hosts_in_network_namespaces_are_ready_and_their_cards_are_named() {
    if !Lab::is_possible_in_namespaces() {
        return;
    }
    let lab = Lab::in_namespaces().unwrap();
    let desk = Desk::new().unwrap();
    desk.write("recipe.toml", &recipe("d-sync", APART, 5)).unwrap();
    let check = lab.run(&desk, ["nodes", "check", "recipe.toml", "--json"]).unwrap();
    let found = check.end(PATIENCE).unwrap().with_code(0).unwrap().stdout;
    let found: serde_json::Value = serde_json::from_str(&found).unwrap();
    let hosts = found["machines"].as_array().unwrap();
    assert_eq!(hosts.len(), 3, "{found}");
    for host in hosts {
        assert!(host["ready"] == true && host["network"]["interface"]["name"] == "eth0", "{host}");
    }
    let ways = found["ways"].as_array().unwrap();
    assert!(ways.len() == 6 && ways.iter().all(|way| way["round_trip"].as_f64() > Some(0.0)), "{found}");
}

#[test]
fn a_host_whose_cache_cannot_be_written_is_named_with_the_cure() {
    if !Lab::is_possible() {
        return;
    }
    let lab = Lab::with_cache(Path::new("/proc/nowhere")).unwrap();
    let desk = Desk::new().unwrap();
    desk.write("recipe.toml", &recipe("d-sync", HOSTS, 5)).unwrap();
    let ended = lab.run(&desk, ["run", "recipe.toml"]).unwrap().end(PATIENCE).unwrap();
    says(&ended.with_code(4).unwrap().stderr, &["lab1: its cache cannot be written", "BAKEOFF_CACHE"]);
}

#[test]
fn a_host_without_data_is_named_and_gets_a_copy_on_wish() {
    if !Lab::is_possible() {
        return;
    }
    let lab = Lab::start().unwrap();
    let desk = Desk::new().unwrap();
    let data = desk.at("mnist");
    mnist(&data);
    let inventory = |folder: &str| format!("[lab1]\n[lab2]\ndata = \"{}\"\n", desk.at(folder).display());
    desk.write("nodes.toml", &inventory("none")).unwrap();
    let text = |copy: bool| {
        let nodes = format!("{HOSTS}\ninventory = \"nodes.toml\"\ncopy-data = {copy}");
        let dataset = format!("kind = \"mnist\"\npath = \"{}\"", data.display());
        recipe("d-sync", &nodes, 5).replace("kind = \"synthetic\"\ntrain = 200\ntest = 100", &dataset)
    };
    desk.write("recipe.toml", &text(false)).unwrap();
    let ended = lab.run(&desk, ["run", "recipe.toml"]).unwrap().end(PATIENCE).unwrap();
    says(
        &ended.with_code(4).unwrap().stderr,
        &["lab2: ", "none/mnist has neither", "nodes.copy-data = true"],
    );
    desk.write("recipe.toml", &text(true)).unwrap();
    let ended = lab.run(&desk, ["run", "recipe.toml"]).unwrap().end(PATIENCE).unwrap();
    ended.with_code(0).unwrap();
}

/// A data set in the format of MNIST: 60,000 and 10,000 images would be too many, so that there are 100 and 20.
fn mnist(folder: &Path) {
    fs::create_dir_all(folder).unwrap();
    for (name, count) in [("train", 100_u32), ("t10k", 20)] {
        let mut images = [2051_u32, count, 28, 28].map(u32::to_be_bytes).concat();
        images.extend((0..count * 784).map(|pixel| (pixel % 251) as u8));
        fs::write(folder.join(format!("{name}-images-idx3-ubyte")), images).unwrap();
        let mut labels = [2049_u32, count].map(u32::to_be_bytes).concat();
        labels.extend((0..count).map(|label| (label % 10) as u8));
        fs::write(folder.join(format!("{name}-labels-idx1-ubyte")), labels).unwrap();
    }
}
