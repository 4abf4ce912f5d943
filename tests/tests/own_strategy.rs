//! The example of a strategy and a codec of one's own in real processes, from its recipe to its page.
//!
//! The worker is that of the example's README, built with this workspace (`runner/worker/examples/own_worker.rs`).
#![expect(clippy::unwrap_used, reason = "in a test, a failure is a panic")]

use e2e::{Desk, DriverProcess, Ended, binary};
use record::Event;
use std::fs;
use std::time::Duration;
use store::EventLog;

const RECIPE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/own-strategy/lazy.toml");
const PATIENCE: Duration = Duration::from_mins(4);

/// `bakeoff run` of a recipe with the example's worker.
fn run(desk: &Desk, recipe: &str) -> Ended {
    let mut command = desk.command(["run", recipe, "--report", "page.html"]).unwrap();
    command.env("BAKEOFF_WORKER", binary("examples/own_worker").unwrap());
    DriverProcess::start(command).unwrap().end(PATIENCE).unwrap()
}

/// Bytes that the workers of each run sent in its steps, most first.
fn sent(desk: &Desk) -> Vec<u64> {
    let bytes = |event: &Event| match event {
        Event::Step(step) => step.bytes_out,
        _ => 0,
    };
    // Beside the runs' folders lies the sweep's journal.
    let runs = desk.attempts().filter_map(|attempt| EventLog::read(&attempt).ok());
    let mut sent: Vec<u64> = runs.map(|events| events.iter().map(bytes).sum()).collect();
    sent.sort_unstable_by(|one, other| other.cmp(one));
    sent
}

#[test]
fn a_strategy_and_a_codec_of_ones_own_train_in_real_processes_and_are_on_the_page() {
    let desk = Desk::new().unwrap();
    run(&desk, RECIPE).with_code(0).unwrap();
    let steps =
        desk.events().iter().filter(|event| matches!(event, Event::Step(step) if !step.drain)).count();
    assert_eq!(steps, 3 * 2 * 40, "three arms of two workers");
    let page = fs::read_to_string(desk.at("page.html")).unwrap();
    for words in ["lazy-sgd", "powers-of-two", ">lazy<", ">lazy, coded<"] {
        assert!(page.contains(words), "the page does not say `{words}`");
    }
    // An all-reduce of two workers: each sends the gradient's length, in four bytes or in one for each weight.
    let all_reduce = 2 * 648_010;
    assert_eq!(sent(&desk), [40 * 4 * all_reduce, 10 * 4 * all_reduce, 10 * all_reduce]);
}

#[test]
fn the_worker_without_them_ends_the_run_at_its_start_and_names_what_it_lacks() {
    for (from, to, words) in [
        ("\"lazy-sgd\"", "\"busy-sgd\"", "no strategy `busy-sgd` (it has: lazy-sgd)"),
        ("\"powers-of-two\"", "\"powers-of-ten\"", "no codec `powers-of-ten` (it has: powers-of-two)"),
        ("\"least = -40\"", "\"most = 40\"", "`compression.settings` has no `least`"),
    ] {
        let desk = Desk::new().unwrap();
        desk.write("other.toml", &fs::read_to_string(RECIPE).unwrap().replace(from, to)).unwrap();
        let ended = run(&desk, "other.toml");
        assert_ne!(ended.code, Some(0), "{words}");
        let said = format!("{}{}", ended.stdout, ended.stderr);
        assert!(said.contains(words), "{said}");
    }
}
