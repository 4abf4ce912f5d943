//! Faults that a recipe plans, in real processes: they happen at the stated step, and no machine is blamed. The cells
//! of the table in `strategies/README.md` for five kinds; the simulator has all of them.
#![expect(clippy::unwrap_used, reason = "in a test, a failure is a panic")]

use e2e::{Desk, Trained, train_again, train_watched};
use launch::{Deadlines, End, FaultOrigin, Outcome, Update};
use recipe::{StepPace, StrategyKind};
use record::{Event, LaneId, Nanos, Phase, Rank, StepRecord};
use serde_json::Value;
use std::time::Duration;

/// Ten of these without a message, and a rank counts as hanging.
const HEARTBEAT: Duration = Duration::from_millis(300);
/// Longer than ten heartbeats.
const LONG: Duration = Duration::from_millis(3500);
const SHORT: Duration = Duration::from_millis(700);
const VICTIM: Rank = Rank(1);

/// One of each way to need the others.
const KINDS: [StrategyKind; 5] = [
    StrategyKind::PsSync,
    StrategyKind::DSync,
    StrategyKind::PipeSgd,
    StrategyKind::EasgdAsync,
    StrategyKind::AdPsgd,
];

fn arm(kind: StrategyKind) -> &'static str {
    match kind {
        StrategyKind::EasgdAsync => "kind = \"easgd-async\"\nmoving-rate = 0.2",
        StrategyKind::PipeSgd => "kind = \"pipe-sgd\"\nwarmup-epochs = 0",
        StrategyKind::PsSync => "kind = \"ps-sync\"",
        StrategyKind::AdPsgd => "kind = \"ad-psgd\"",
        StrategyKind::DSync => "kind = \"d-sync\"",
        other => panic!("{other:?} is not among the kinds"),
    }
}

/// Three workers whose steps take 10 ms, as fast as the machine may be.
fn recipe(arms: &[&str], faults: &[&str]) -> String {
    let each = |head: &str, bodies: &[&str]| -> String {
        bodies.iter().flat_map(|body| [head, "\n", body, "\n"]).collect()
    };
    let strategies = each("[[strategy]]", arms);
    let faults = each("[[faults]]", faults);
    format!(
        r#"
schema = 1
name = "faults"
[model]
kind = "softmax"
[dataset]
kind = "synthetic"
train = 600
test = 100
[train]
global-batch = 60
steps = 120
optimizer = {{ kind = "sgd", lr = 0.05 }}
evaluate = "60 steps"
[nodes]
use = ["local*3"]
{strategies}{faults}[compute]
step-time = "10ms"
split = {{ kind = "given" }}
[repeats]
count = 1
[limits]
retries = 2
"#
    )
}

fn run(kind: StrategyKind, faults: &[&str]) -> Trained {
    let deadlines = Deadlines { heartbeat: HEARTBEAT, peer: Duration::from_secs(20), ..Deadlines::default() };
    train_watched(&recipe(&[arm(kind)], faults), deadlines, |_| ()).unwrap()
}

fn steps(trained: &Trained, rank: Rank) -> Vec<&StepRecord> {
    trained.steps().filter(|step| step.rank == rank && step.lane == LaneId::Compute && !step.drain).collect()
}

/// When it struck, and that it struck once, whom and when it was to.
fn moment(trained: &Trained, step: u64) -> Nanos {
    let struck = trained.events.iter().filter_map(|event| match event {
        Event::Struck(struck) => Some(*struck),
        _ => None,
    });
    let [struck] = struck.collect::<Vec<_>>()[..] else { panic!("{:?}", trained.outcome) };
    assert_eq!((struck.fault.rank, struck.fault.step), (VICTIM.0, step));
    struck.at
}

fn is_alone(kind: StrategyKind) -> bool {
    kind.profile().pace == StepPace::Own
}

#[test]
fn a_killed_or_hanging_rank_ends_what_needs_it_and_nothing_else() {
    let kill = ("kind = \"kill\"\nrank = 1\nstep = 20", "was killed");
    let hang = ("kind = \"pause\"\nrank = 1\nstep = 20", "was paused for good");
    for kind in KINDS {
        for (fault, words) in [kill, hang] {
            let trained = run(kind, &[fault]);
            moment(&trained, 20);
            let outcome = &trained.outcome;
            let told = format!("rank 1 {words} at the beginning of step 20, as the recipe says");
            assert!(outcome.as_ordered, "{kind}: {outcome:?}");
            assert_eq!(steps(&trained, VICTIM).last().map(|step| step.step), Some(19), "{kind}");
            if is_alone(kind) {
                assert_eq!(outcome.end, End::Done, "{kind}: {outcome:?}");
                let [lost] = &outcome.lost_ranks[..] else { panic!("{kind}: {outcome:?}") };
                assert_eq!((lost.rank, lost.reason.as_str()), (VICTIM, told.as_str()), "{kind}");
                assert_eq!(outcome.detail, format!("{told}; the run went on without it"), "{kind}");
            } else {
                let End::Failed { origin: FaultOrigin::Recipe, .. } = outcome.end else {
                    panic!("{kind}: {outcome:?}")
                };
                assert_eq!(
                    (outcome.culprit, outcome.detail.as_str()),
                    (Some(VICTIM), told.as_str()),
                    "{kind}"
                );
            }
        }
    }
}

#[test]
fn a_paused_rank_comes_back_and_is_not_missed() {
    for kind in KINDS {
        // The supervisor would take a rank for lost that is silent for as long, did the recipe not say so.
        let length = if kind == StrategyKind::DSync { LONG } else { SHORT };
        let fault = format!("kind = \"pause\"\nrank = 1\nstep = 20\nfor = \"{}ms\"", length.as_millis());
        let trained = run(kind, &[&fault]).done().unwrap();
        let begin = moment(&trained, 20);
        let length = length.as_nanos() as u64;
        assert_eq!((trained.outcome.lost_ranks.len(), trained.outcome.as_ordered), (0, false), "{kind}");
        let victim = steps(&trained, VICTIM);
        let paused = victim.iter().find(|step| step.step == 20).unwrap();
        assert!(paused.phases[Phase::Other].0 >= length, "{kind}: {paused:?}");
        let meanwhile = |step: &&&StepRecord| {
            let end = step.begin + step.length;
            (begin + Nanos(length / 2)..begin + Nanos(length)).contains(&end)
        };
        let others = steps(&trained, Rank(0));
        let others = others.iter().filter(meanwhile).count();
        assert_eq!(others > 0, is_alone(kind), "{kind}: {others} steps");
        if !is_alone(kind) {
            assert_eq!(trained.final_weights().unwrap(), run(kind, &[]).final_weights().unwrap(), "{kind}");
        }
    }
}

#[test]
fn a_rank_is_slow_from_one_step_to_another() {
    for kind in KINDS {
        let fault = "kind = \"slow\"\nrank = 1\nstep = 20\nuntil = 40\ncompute = 4.0";
        let trained = run(kind, &[fault]).done().unwrap();
        let begin = moment(&trained, 20);
        let victim = steps(&trained, VICTIM);
        let computing = |step: &StepRecord| step.phases[Phase::Forward].0 + step.phases[Phase::Backward].0;
        for step in victim.iter().filter(|step| step.step > 1) {
            // Nine tenths of 10 ms; a machine that is late is made good later.
            let slow = (20..40).contains(&step.step);
            assert_eq!(computing(step) > 25_000_000, slow, "{kind}: {step:?}");
        }
        let end = victim.iter().find(|step| step.step == 40).unwrap().begin;
        let meanwhile = |step: &&&StepRecord| (begin..end).contains(&(step.begin + step.length));
        let others = steps(&trained, Rank(0)).iter().filter(meanwhile).count();
        assert_eq!(others > 30, is_alone(kind), "{kind}: {others} steps");
        if !is_alone(kind) {
            assert_eq!(trained.final_weights().unwrap(), run(kind, &[]).final_weights().unwrap(), "{kind}");
        }
    }
}

/// The workers hear of it a while after the checkpoint.
#[test]
fn a_lost_link_is_lost_in_a_run_that_continues_as_well() {
    let arm = "kind = \"local-sgd\"\nperiod = 20";
    let fault = "kind = \"drop-link\"\nrank = 1\npeer = 0\nstep = 22";
    let text = recipe(&[arm], &[fault]).replace("[nodes]", "checkpoint = \"25 steps\"\n[nodes]");
    let deadlines = Deadlines { peer: WAIT, ..Deadlines::default() };
    let before = train_watched(&text, deadlines, |_| ()).unwrap();
    let told = "lost its link with rank 0 at the beginning of step 22, as the recipe says";
    let of = |outcome: &Outcome| (outcome.as_ordered, outcome.detail.contains(told));
    assert_eq!(of(&before.outcome), (true, true), "{:?}", before.outcome);
    let after = train_again(&text, deadlines, &before).unwrap();
    assert_eq!(of(&after.outcome), (true, true), "{:?}", after.outcome);
    let struck = |events: &[Event]| events.iter().filter(|event| matches!(event, Event::Struck(_))).count();
    assert_eq!([struck(&before.events), struck(&after.events)], [1, 1], "recorded once in each attempt");
}

/// Whether what a rank sent in the step before may still be on its way, and vanish, too.
fn is_behind(kind: StrategyKind) -> bool {
    kind == StrategyKind::PipeSgd
}

/// A wait that ends in the test: nothing is as long that works.
const WAIT: Duration = Duration::from_secs(3);

/// Each kind over the link that it needs most: to its server, or to a neighbour. The table of `strategies/README.md` in real processes.
#[test]
fn a_lost_link_ends_what_needs_it_and_names_who_waited_where() {
    for kind in KINDS {
        for transport in ["zeromq", "shared-memory"] {
            let peer = if matches!(kind, StrategyKind::PsSync | StrategyKind::EasgdAsync) { 3 } else { 2 };
            let fault = format!("kind = \"drop-link\"\nrank = 1\npeer = {peer}\nstep = 20");
            let text =
                format!("{}[communication]\ntransport = \"{transport}\"\n", recipe(&[arm(kind)], &[&fault]));
            let deadlines = Deadlines { peer: WAIT, ..Deadlines::default() };
            let trained = train_watched(&text, deadlines, |_| ()).unwrap();
            moment(&trained, 20);
            let outcome = &trained.outcome;
            let what = format!("{kind} through {transport}: {outcome:?}");
            let told = format!(
                "rank 1 lost its link with rank {peer} at the beginning of step 20, as the recipe says"
            );
            let names = |reason: &str| {
                // A server that is as patient may have trained on to the end and left meanwhile.
                let left = format!("rank {peer} is gone while rank 1 waits");
                let waited = reason.contains("waited 3") || is_alone(kind) && reason.contains(&left);
                waited
                    && reason.contains("phase wait-peer")
                    && (reason.contains("in step 2") || is_behind(kind) && reason.contains("in step 19"))
                    && reason.ends_with(&told)
            };
            match kind {
                StrategyKind::AdPsgd => {
                    assert_eq!((&outcome.end, outcome.lost_ranks.len()), (&End::Done, 0), "{what}");
                    let detail = format!("{told}; both went on, each without the other");
                    assert_eq!(outcome.detail, detail, "{what}");
                    assert!(steps(&trained, VICTIM).last().unwrap().step > 20, "{what}");
                }
                _ if is_alone(kind) => {
                    let [lost] = &outcome.lost_ranks[..] else { panic!("{what}") };
                    assert_eq!(
                        (&outcome.end, outcome.as_ordered, lost.rank),
                        (&End::Done, true, VICTIM),
                        "{what}"
                    );
                    assert!(names(&lost.reason), "{what}");
                }
                _ => {
                    let End::Failed { origin: FaultOrigin::Recipe, .. } = outcome.end else {
                        panic!("{what}")
                    };
                    assert!(outcome.as_ordered && outcome.culprit == Some(VICTIM), "{what}");
                    assert!(names(&outcome.detail), "{what}");
                }
            }
        }
    }
}

/// Arm, state and attempt number of each run in the newest sweep, sorted.
fn known(desk: &Desk) -> Vec<(String, String, u64)> {
    let list = desk.json(["list", "last", "--format", "json"]).unwrap();
    let of = |line: &Value| {
        let shown = desk.json(["show", line["id"].as_str().unwrap(), "--format", "json"]).unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        (text(&line["arm"]), text(&line["state"]), shown["run"]["attempt"]["number"].as_u64().unwrap())
    };
    let mut known: Vec<_> = list.as_array().unwrap().iter().map(of).collect();
    known.sort();
    known
}

#[test]
fn a_sweep_takes_what_its_recipe_orders_for_a_result() {
    let desk = Desk::new().unwrap();
    let arms = ["kind = \"d-sync\"", "kind = \"async-sgd\""];
    desk.write("recipe.toml", &recipe(&arms, &["kind = \"kill\"\nrank = 1\nstep = 20"])).unwrap();
    let plan = desk.said(["plan", "recipe.toml"]).unwrap();
    let words = "fault: rank 1 is killed at the beginning of its step 20, which ends runs of d-sync";
    assert!(plan.contains(words), "{plan}");
    let ended = desk.run(["run", "recipe.toml"]).unwrap().with_code(0).unwrap();
    let told = "rank 1 was killed at the beginning of step 20, as the recipe says";
    assert!(ended.stderr.contains(told) && !ended.stderr.contains("retrying"), "{}", ended.stderr);
    let row = |arm: &str, state: &str| (arm.to_owned(), state.to_owned(), 1);
    let rows = [row("async-sgd", "degraded"), row("d-sync", "failed")];
    assert_eq!(known(&desk), rows, "no retry, though two are allowed");
    let page = std::fs::read_to_string(desk.at(ended.page().unwrap())).unwrap();
    for words in ["failed as ordered", "degraded as ordered", told, "1 failed as the recipe lets them"] {
        assert!(page.contains(words), "{words}");
    }
    for blame in ["out-of-memory", "SIGKILL"] {
        assert!(!page.contains(blame), "{blame}");
    }
    let why = desk.said(["plan", "recipe.toml", "--why"]).unwrap();
    assert!(why.contains("failed as ") && why.contains("degraded as "), "{why}");
    let again = desk.run(["run", "recipe.toml"]).unwrap().with_code(0).unwrap();
    assert!(!again.stderr.contains("the run continues without it"), "{}", again.stderr);
    assert_eq!(known(&desk), rows);
    desk.said(["db", "rebuild"]).unwrap();
    assert_eq!(known(&desk), rows);
    let rebuilt = desk.said(["plan", "recipe.toml", "--why"]).unwrap();
    assert!(rebuilt.contains("failed as ") && rebuilt.contains("degraded as "), "{rebuilt}");
}

#[test]
fn what_happens_by_itself_is_still_an_accident() {
    // It dies before the step that the recipe names.
    let fault = "kind = \"kill\"\nrank = 1\nstep = 110";
    let deadlines = Deadlines { heartbeat: HEARTBEAT, ..Deadlines::default() };
    let mut process = None;
    let trained = train_watched(&recipe(&["kind = \"d-sync\""], &[fault]), deadlines, move |update| {
        match update {
            Update::Spawned { member: launch::Member::Rank(VICTIM), pid } => {
                process = rustix::process::Pid::from_raw(*pid as i32);
            }
            Update::Events(events) => {
                let sixth = |event: &Event| matches!(event, Event::Step(step) if step.rank == VICTIM && step.step >= 6);
                if events.iter().any(sixth)
                    && let Some(process) = process.take()
                {
                    rustix::process::kill_process(process, rustix::process::Signal::KILL).unwrap();
                }
            }
            _ => {}
        }
    });
    let outcome = trained.unwrap().outcome;
    assert!(matches!(outcome.end, End::Failed { origin: FaultOrigin::Infrastructure, .. }), "{outcome:?}");
    assert!(!outcome.as_ordered && outcome.detail.contains("SIGKILL"), "{outcome:?}");
}
