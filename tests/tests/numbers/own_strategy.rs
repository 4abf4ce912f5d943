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

/// `bakeoff` with these arguments, and this program as the worker.
fn asked(desk: &Desk, arguments: &[&str], worker: &str) -> Ended {
    let mut command = desk.command(arguments).unwrap();
    command.env("BAKEOFF_WORKER", binary(worker).unwrap());
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
    let arguments = ["run", RECIPE, "--report", "page.html"];
    asked(&desk, &arguments, "examples/own_worker").with_code(0).unwrap();
    let steps =
        desk.events().iter().filter(|event| matches!(event, Event::Step(step) if !step.drain)).count();
    assert_eq!(steps, 3 * 2 * 40, "three arms of two workers");
    let page = fs::read_to_string(desk.at("page.html")).unwrap();
    for words in ["lazy-sgd", "powers-of-two", ">lazy<", ">lazy, coded<"] {
        assert!(page.contains(words), "the page does not say `{words}`");
    }
    // The strategy says that its workers end with the same weights, and so they are compared.
    assert!(page.contains("all ranks end with the same bits"));
    assert!(!page.contains("not applicable to lazy"), "its workers are not compared");
    // An all-reduce of two workers: each sends the gradient's length, in four bytes or in one for each weight.
    let all_reduce = 2 * 648_010;
    assert_eq!(sent(&desk), [40 * 4 * all_reduce, 10 * 4 * all_reduce, 10 * all_reduce]);
}

/// A desk with the example's recipe but for one word, and the end of `bakeoff` there with the example's worker.
fn changed(verb: &[&str], from: &str, to: &str) -> (Desk, Ended) {
    let desk = Desk::new().unwrap();
    desk.write("other.toml", &fs::read_to_string(RECIPE).unwrap().replace(from, to)).unwrap();
    let ended = asked(&desk, &[verb, &["other.toml"]].concat(), "examples/own_worker");
    (desk, ended)
}

#[test]
fn what_the_worker_lacks_is_refused_before_anything_starts() {
    for (from, to, words) in [
        ("\"lazy-sgd\"", "\"busy-sgd\"", "no strategy `busy-sgd` (it has: lazy-sgd)"),
        ("\"powers-of-two\"", "\"powers-of-ten\"", "no codec `powers-of-ten` (it has: powers-of-two)"),
    ] {
        for verb in ["check", "plan", "run"] {
            let (desk, ended) = changed(&[verb], from, to);
            assert_eq!(ended.code, Some(4), "{verb}: {}{}", ended.stdout, ended.stderr);
            assert!(
                ended.stderr.contains(words) && ended.stderr.contains("BAKEOFF_WORKER"),
                "{}",
                ended.stderr
            );
            assert_eq!(desk.attempts().count(), 0, "{verb}");
        }
    }
    // The worker of this repository has neither.
    let desk = Desk::new().unwrap();
    let ended = asked(&desk, &["run", RECIPE], "bakeoff-worker");
    assert!(
        ended.code == Some(4) && ended.stderr.contains("no strategy `lazy-sgd` (it has: none)"),
        "{}",
        ended.stderr
    );
    let ended = asked(&desk, &["plan", RECIPE], "examples/own_worker");
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
}

#[test]
fn a_setting_that_a_codec_misses_ends_the_run_at_its_start() {
    let (_desk, ended) = changed(&["run"], "\"least = -40\"", "\"most = 40\"");
    assert_ne!(ended.code, Some(0));
    let said = format!("{}{}", ended.stdout, ended.stderr);
    assert!(said.contains("`compression.settings` has no `least`"), "{said}");
}
