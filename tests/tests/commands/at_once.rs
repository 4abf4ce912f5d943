//! Several runs of a sweep at once, on hosts that they do not share: they overlap in time, and their numbers are those of one after another.

use e2e::{Desk, Lab, Sketch};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_mins(4);

/// One arm with two repeats, of some seconds each.
fn recipe(nodes: &str) -> String {
    let sketch = Sketch { name: "at-once", steps: 100, evaluate: 100, ..Sketch::default() };
    let text = sketch.to_string().replace("use = [\"local*2\"]", &format!("{nodes}\nthreads = 1"));
    text.replace("count = 1", "count = 2") + "[compute]\nstep-time = \"20ms\"\n"
}

#[test]
fn runs_on_hosts_of_their_own_overlap_and_end_with_the_same_weights() {
    if !Lab::is_possible() {
        return;
    }
    let lab = Lab::start().unwrap();
    let trained = |arguments: &[&str]| {
        let desk = Desk::new().unwrap();
        desk.write("recipe.toml", &recipe("use = [\"lab1*2\", \"lab2*2\"]\nworkers = 2")).unwrap();
        let ended = lab.run(&desk, arguments).unwrap().end(PATIENCE).unwrap().with_code(0).unwrap();
        // The beginnings and ends of runs, in their order.
        let words = ended.stderr.lines().filter_map(|line| line.split_once("] "));
        let words: Vec<String> =
            words.map(|(_, rest)| rest.split(':').next().unwrap_or_default().to_owned()).collect();
        (desk, words, ended.stderr)
    };
    let (one_by_one, words, _) = trained(&["run", "recipe.toml"]);
    assert_eq!(words, ["started", "done", "started", "done"]);
    let (at_once, words, said) = trained(&["run", "recipe.toml", "--jobs", "2"]);
    assert_eq!(words, ["started", "started", "done", "done"], "{said}");
    assert!(said.contains("this machine, lab1 and lab2 call themselves"), "{said}");
    let found = one_by_one.weights().unwrap();
    assert_eq!((found.len(), at_once.weights().unwrap()), (2, found));
    let host = |repeat: usize| {
        let line = &at_once.json(["list", "last", "--format", "json"]).unwrap()[repeat];
        let shown = at_once.json(["show", line["id"].as_str().unwrap(), "--format", "json"]).unwrap();
        let rank = &shown["run"]["attempt"]["ranks"][0];
        let node = &shown["nodes"][rank["node"].as_u64().unwrap() as usize];
        (line["repeat"].as_u64().unwrap(), node["name"].as_str().unwrap().to_owned())
    };
    let one = host(0);
    let other = host(1);
    assert!(one.0 != other.0 && one.1 != other.1, "{one:?} {other:?}");
    // A run is the same run on the other host: nothing is trained again.
    let again =
        lab.run(&at_once, ["run", "recipe.toml"]).unwrap().end(PATIENCE).unwrap().with_code(0).unwrap();
    assert!(again.stderr.contains("2 finished before and reused"), "{}", again.stderr);
}

#[test]
fn runs_that_would_disturb_each_other_are_refused() {
    let desk = Desk::new().unwrap();
    desk.write("recipe.toml", &recipe("use = [\"local*2\"]")).unwrap();
    let ended = desk.run(["run", "recipe.toml", "--jobs", "2"]).unwrap().with_code(2).unwrap();
    assert!(
        ended.stderr.contains("no two runs can be made at once") && ended.stderr.contains("cure:"),
        "{}",
        ended.stderr
    );
    assert!(!desk.at(".bakeoff").exists());
    desk.run(["run", "recipe.toml", "--jobs", "1"]).unwrap().with_code(0).unwrap();
}
