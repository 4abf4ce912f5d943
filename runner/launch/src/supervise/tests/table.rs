//! The table of (state, event) -> actions.

use super::*;
use std::collections::BTreeSet;
use std::fmt::Write;

/// How each state is reached, and by which rules.
const STATES: [(&str, &str); 17] = [
    ("starting", "prepared 0"),
    ("unsure", "prepared 0, accuses 0 1"),
    ("running", "prepared 0, prepared 1, beat 0, beat 1"),
    ("doubting", "prepared 0, prepared 1, beat 0, beat 1, accuses 1 0"),
    ("faulty", "prepared 0, prepared 1, beat 0, beat 1, failed 1"),
    ("diverged", "prepared 0, prepared 1, beat 0, beat 1, snapshot 0 3, diverged 1"),
    ("aimed", "prepared 0, prepared 1, beat 0, beat 1, snapshot 0 3, metric 95"),
    ("late", "prepared 0, prepared 1, beat 0, beat 1, run 600"),
    ("halting", "prepared 0, prepared 1, beat 0, beat 1, stop"),
    ("killing", "prepared 0, prepared 1, beat 0, beat 1, stop-now"),
    ("felling", "prepared 0, prepared 1, beat 0, beat 1, failed 1, wait 21"),
    (
        "evaluating",
        "prepared 0, prepared 1, snapshot 0 3, finished 0, goodbye 0, exit 0 0, finished 1, goodbye 1, exit 1 0",
    ),
    ("leaving", "prepared 0, prepared 1, finished 0, goodbye 0, exit 0 0, finished 1, goodbye 1, exit 1 0"),
    (
        "over",
        "prepared 0, prepared 1, finished 0, goodbye 0, exit 0 0, finished 1, goodbye 1, exit 1 0, E-goodbye, E-exit 0",
    ),
    ("sparing", "prepared 0, prepared 1, prepared 2, beat 0, beat 1, beat 2"),
    ("missing", "prepared 0, prepared 1, prepared 2, beat 0, beat 1, beat 2, misses 2 0"),
    ("degraded", "prepared 0, prepared 1, prepared 2, beat 0, beat 1, beat 2, signal 1, wait 3"),
];

/// The last states are of a run that can spare one of its two workers.
fn rules_of(state: &str) -> Rules {
    if ["sparing", "missing", "degraded"].contains(&state) { sparing(2) } else { rules() }
}

/// Events of the table, by their names in [`Play::play`].
const EVENTS: [&str; 35] = [
    "prepared 1",
    "differs 1",
    "beat 0",
    "beat 9",
    "report 0",
    "copy 1 6",
    "snapshot 0 6",
    "finished 0",
    "stopped 0 6",
    "diverged 0",
    "failed 0",
    "accuses 0 1",
    "accuses 0 9",
    "misses 2 0",
    "misses 1 0",
    "struck 0",
    "goodbye 0",
    "evaluated-by 0",
    "exit 0 0",
    "exit 0 1",
    "exit 9 1",
    "signal 0",
    "metric 95",
    "metric 85",
    "E-beat",
    "evaluated",
    "unevaluated",
    "E-goodbye",
    "E-exit 0",
    "E-exit 1",
    "stop",
    "stop-now",
    "tick",
    "wait 35",
    "run 600",
];

/// A change of `table.txt` is a change of what the supervisor does: the new table is printed, to be looked at.
#[test]
fn every_event_in_every_state() {
    let mut table = "state      | event         | stage after| conclusion  | actions\n".to_owned();
    for (state, way) in STATES {
        for event in EVENTS {
            let mut play = Play::new(rules_of(state)).play(way);
            play.said();
            let mut play = play.play(event);
            let said = shortened(&play.said());
            let stage = play.stage();
            let conclusion = play.conclusion();
            writeln!(table, "{state:<11}| {event:<14}| {stage:<11}| {conclusion:<12}| {said}").unwrap();
        }
    }
    let expected = include_str!("../table.txt");
    if let Some((line, (new, old))) =
        table.lines().zip(expected.lines()).enumerate().find(|(_, (new, old))| new != old)
    {
        println!("{table}");
        panic!("line {}:\n  {new}\nwas\n  {old}", line + 1);
    }
    assert_eq!(table.lines().count(), expected.lines().count(), "{table}");
}

/// Heartbeats of a long time in one word.
fn shortened(said: &str) -> String {
    let beats = said.split(' ').filter(|word| *word == "beat").count();
    if beats < 4 {
        return said.to_owned();
    }
    let rest: Vec<&str> = said.split(' ').filter(|word| *word != "beat").collect();
    [vec!["beats"], rest].concat().join(" ")
}

/// The kind of an input; the compiler asks for a name here when there is a new one, and the test for its rows.
fn kind(input: &Input) -> &'static str {
    match input {
        Input::Message(Member::Rank(_), ToDriver::Heartbeat(_)) => "heartbeat",
        Input::Message(Member::Rank(_), ToDriver::Events(events)) => event_kind(&events[0]),
        Input::Message(Member::Rank(_), ToDriver::Evaluated { .. }) => "evaluated by a rank",
        Input::Message(Member::Rank(_), ToDriver::Goodbye) => "goodbye",
        Input::Message(Member::Evaluator, ToDriver::Heartbeat(_)) => "heartbeat of the evaluator",
        Input::Message(Member::Evaluator, ToDriver::Events(_)) => "measured",
        Input::Message(Member::Evaluator, ToDriver::Evaluated { failure: None, .. }) => "evaluated",
        Input::Message(Member::Evaluator, ToDriver::Evaluated { failure: Some(_), .. }) => "not evaluated",
        Input::Message(Member::Evaluator, ToDriver::Goodbye) => "goodbye of the evaluator",
        Input::Exited(Member::Rank(_), ProcessExit::Code(_)) => "exit",
        Input::Exited(Member::Rank(_), ProcessExit::Signal(_) | ProcessExit::HostLost { .. }) => "signal",
        Input::Exited(Member::Evaluator, _) => "exit of the evaluator",
        Input::Stop => "stop",
        Input::StopNow => "stop now",
        Input::Tick => "tick",
    }
}

fn event_kind(event: &Event) -> &'static str {
    match event {
        Event::Prepared(_) => "prepared",
        Event::Snapshot(SnapshotRecord { group: None, .. }) => "snapshot",
        Event::Snapshot(_) => "copy",
        Event::Ended(RankEnded { end: RankEnd::Finished, .. }) => "finished",
        Event::Ended(RankEnded { end: RankEnd::Stopped { .. }, .. }) => "stopped",
        Event::Ended(RankEnded { end: RankEnd::Diverged { .. }, .. }) => "diverged",
        Event::Ended(RankEnded { end: RankEnd::Failed { peer: None, .. }, .. }) => "failed",
        Event::Ended(RankEnded { end: RankEnd::Failed { peer: Some(_), .. }, .. }) => "accused",
        // Events that the supervisor only hands on.
        Event::Step(_)
        | Event::Span(_)
        | Event::Metric(_)
        | Event::WeightHash(_)
        | Event::Link(_)
        | Event::Coding(_)
        | Event::Usage(_)
        | Event::Overhead(_)
        | Event::Emulation(_)
        | Event::Samples(_)
        | Event::Update(_)
        | Event::Gossip(_)
        | Event::Averaged(_)
        | Event::Host(_)
        | Event::Checkpoint(_)
        | Event::Schedule(_) => "report",
        Event::Lost(_) => "missed",
        Event::Struck(_) => "struck",
    }
}

#[test]
fn the_table_has_every_kind_of_event_and_every_stage() {
    let named = EVENTS.iter().filter(|event| !event.starts_with("wait") && !event.starts_with("run"));
    let kinds: BTreeSet<&str> = named.map(|event| kind(&input(event))).collect();
    // As many as there are arms above.
    assert_eq!(kinds.len(), 25, "{kinds:?}");
    let stages: BTreeSet<&str> =
        STATES.iter().map(|(state, way)| Play::new(rules_of(state)).play(way).stage()).collect();
    assert_eq!(stages.len(), 7, "{stages:?}");
    let rows: BTreeSet<(&str, &str)> = include_str!("../table.txt")
        .lines()
        .skip(1)
        .filter_map(|line| line.split_once('|'))
        .map(|(state, rest)| (state.trim(), rest.split('|').next().unwrap_or_default().trim()))
        .collect();
    assert_eq!(rows.len(), STATES.len() * EVENTS.len());
}
