//! Faults of a recipe: their form in a plan, and those that cannot work.

use crate::desk::Desk;
use crate::expansion::plan;
use crate::problems::{check, recipe};
use recipe::{FaultAction, PlannedFault, Severity};
use std::time::Duration;

const TWO: &str = "[nodes]\nuse = [\"local*2\"]";
const SHORT: &str = "[train]\nglobal-batch = 100\nsteps = 100";

fn faults(entries: &[&str]) -> Vec<PlannedFault> {
    let changes: Vec<&str> = [TWO, SHORT].into_iter().chain(entries.iter().copied()).collect();
    plan(&changes).cells[0].spec.faults.clone()
}

#[test]
fn what_does_not_go_wrong_changes_no_identity() {
    let plan = plan(&[]);
    assert_eq!((plan.cells[0].spec.faults.len(), plan.faults().len()), (0, 0));
    assert!(!plan.cells[0].spec.canonical().contains("faults"));
}

#[test]
fn each_kind_becomes_what_it_says() {
    let fault = |rank, step, action| PlannedFault { rank, step, action };
    let written = faults(&[
        "[[faults]]\nkind = \"pause\"\nrank = 1\nstep = 10\nfor = \"2s\"",
        "[[faults]]\nkind = \"slow\"\nrank = 0\nstep = 20\ncompute = 4\nuntil = 30",
        "[[faults]]\nkind = \"pause\"\nrank = 1\nstep = 99",
    ]);
    let two = Some(Duration::from_secs(2));
    assert_eq!(
        written,
        [
            fault(1, 10, FaultAction::Pause { length: two }),
            fault(0, 20, FaultAction::Slow { compute: 4.0, until: Some(30) }),
            fault(1, 99, FaultAction::Pause { length: None }),
        ]
    );
    let host = "[[faults]]\nkind = \"pause\"\nhost = \"local\"\nstep = 5\nfor = \"1s\"";
    let one = Some(Duration::from_secs(1));
    let every: Vec<PlannedFault> =
        (0..3).map(|rank| fault(rank, 5, FaultAction::Pause { length: one })).collect();
    assert_eq!(faults(&[host]), every, "workers and the server of the first arm");
}

#[test]
fn a_plan_says_which_arms_end() {
    let kill = "[[faults]]\nkind = \"kill\"\nrank = 1\nstep = 40";
    let arms = ["[[strategy]]\nkind = \"d-sync\"\n[[strategy]]\nkind = \"async-sgd\"", kill, SHORT, TWO];
    assert_eq!(
        plan(&arms).faults(),
        ["rank 1 is killed at the beginning of its step 40, which ends runs of d-sync"]
    );
}

#[test]
fn a_plan_says_which_arms_need_a_link() {
    let arm = |kind: &str| format!("[[strategy]]\nkind = \"{kind}\"\n");
    let ring = arm("d-sync");
    let pairs = arm("ad-psgd");
    let server = arm("easgd-async");
    let said = |arms: &str, link: &str| {
        let fault = format!("[[faults]]\nkind = \"drop-link\"\nstep = 40\n{link}");
        plan(&[arms, fault.as_str(), SHORT, TWO]).faults()
    };
    let words = "rank 0 loses its link with rank 1 at the beginning of its step 40";
    let both = ring + &pairs;
    assert_eq!(said(&both, "rank = 0\npeer = 1"), [format!("{words}, which ends runs of d-sync")]);
    assert_eq!(said(&pairs, "rank = 0\npeer = 1"), [words]);
    // One of two workers is left.
    let words = "rank 0 loses its link with rank 2 at the beginning of its step 40";
    assert_eq!(said(&server, "rank = 0\npeer = 2"), [words]);
}

#[test]
fn a_link_that_carries_nothing_is_refused_where_that_is_known() {
    let codes = |kind: &str, communication: &str, link: [u32; 2]| -> Vec<String> {
        let [rank, peer] = link;
        let fault = format!("[[faults]]\nkind = \"drop-link\"\nrank = {rank}\npeer = {peer}\nstep = 40");
        let arm = format!("[[strategy]]\nkind = \"{kind}\"");
        let how = format!("[communication]\n{communication}");
        let six = "[nodes]\nuse = [\"local*6\"]";
        let paced = "[compute]\nstep-time = \"10ms\"";
        let problems = Desk::with(&recipe(&[&arm, &how, &fault, six, paced, SHORT])).plan().err();
        let errors = problems.into_iter().flat_map(|problems| problems.list);
        errors.filter(|problem| problem.severity == Severity::Error).map(|problem| problem.code).collect()
    };
    let plain = "reduce-order = \"ring\"";
    for (kind, communication, link, carries) in [
        ("d-sync", plain, [1, 2], true),
        ("d-sync", plain, [5, 0], true),
        ("d-sync", plain, [1, 3], false),
        ("d-sync", "reduce-order = \"rank\"", [1, 3], true),
        ("d-sync", "collective = { kind = \"star\" }", [1, 2], false),
        ("d-sync", "collective = { kind = \"star\" }", [2, 0], true),
        ("d-sync", "collective = { kind = \"all-gather\" }", [1, 4], true),
        // Only the code of the collective knows.
        ("d-sync", "collective = { kind = \"tree\" }", [3, 4], true),
        ("d-sync", "schedule = \"merged\"", [1, 3], true),
        ("ps-sync", plain, [1, 2], false),
        ("ps-sync", plain, [1, 6], true),
        ("easgd-async", plain, [6, 1], true),
        ("d-psgd", plain, [1, 3], false),
        ("ad-psgd", plain, [1, 3], false),
        ("ad-psgd", plain, [0, 4], true),
        ("ad-psgd", plain, [1, 2], true),
    ] {
        let expected: &[&str] = if carries { &[] } else { &["R188"] };
        assert_eq!(codes(kind, communication, link), expected, "{kind} {communication} {link:?}");
    }
}

#[test]
fn they_are_conditions_and_survive_being_written_down() {
    let axis = "[sweep.axes]\nfaults = [[], [{ kind = \"kill\", rank = 1, step = 40 }], [{ kind = \"pause\", rank = 0, step = 3, for = \"250ms\" }, \
                { kind = \"slow\", host = \"local\", step = 7, compute = 2.5, until = 9 }]]";
    let plan = plan(&[TWO, SHORT, axis]);
    let conditions: Vec<&str> = plan.cells.iter().step_by(2).map(|cell| cell.condition.as_str()).collect();
    assert_eq!(
        conditions,
        ["faults=none", "faults=kill-rank1@40", "faults=pause-rank0@3:250ms+slow-local@7-9:compute*2.5"]
    );
    let hashes: std::collections::BTreeSet<&str> =
        plan.cells.iter().map(|cell| cell.config_hash.as_str()).collect();
    assert_eq!(hashes.len(), plan.cells.len(), "what goes wrong is part of a run's identity");
    let again = Desk::with(&plan.expanded).plan().expect("it was written by this program");
    assert_eq!(again.cells, plan.cells);
}

const LIMIT: &str = "[limits]\nrun-timeout = \"10s\"";

fn entry(keys: &str) -> String {
    format!("[[faults]]\n{keys}")
}

/// Checks the problems that a plan of two workers has with each of these entries.
fn check_entries(name: &str, entries: &[(&str, String)]) {
    let cases: Vec<(&str, Vec<&str>)> =
        entries.iter().map(|(title, entry)| (*title, vec![TWO, SHORT, entry.as_str()])).collect();
    let cases: Vec<(&str, &[&str])> =
        cases.iter().map(|(title, changes)| (*title, changes.as_slice())).collect();
    check(name, &cases);
}

#[test]
fn all_that_is_wrong_is_said_at_once() {
    let entries = "schema = 1\nfaults = [{ kind = \"kill\", why = 1 }, { kind = \"drop-link\", rank = 1, step = 2 }, \
                   { kind = \"slow\", rank = 1, stp = 3, compute = 0.5 }]";
    let slow = "[nodes]\nuse = [\"local*2\"]\nslow = [{ rank = 1 }, { rank = 0, comput = 2.0, lnk = 3.0 }]";
    let codes = |changes: &[&str]| -> Vec<String> {
        let problems = Desk::with(&recipe(changes)).plan().err();
        problems.into_iter().flat_map(|problems| problems.list).map(|problem| problem.code).collect()
    };
    // Whom and when of the first, in front of its misspelt key, and the peer of the second; of the third the step, the key and the factor.
    let expected = ["R010", "R010", "R012", "R010", "R012", "R014"];
    assert_eq!(codes(&[TWO, SHORT, entries]), expected);
    let misspelt = "schema = 1\nfaults = [{ kind = \"kill\", rnk = 1, stp = 2 }]";
    assert_eq!(codes(&[TWO, SHORT, misspelt]), ["R012", "R012"]);
    assert_eq!(codes(&[slow, SHORT]), ["R114", "R012", "R012"]);
}

#[test]
fn arms_that_differ_in_a_misspelt_key_are_not_called_the_same() {
    let arms = "[[strategy]]\nkind = \"d-sync\"\n[[strategy]]\nkind = \"d-sync\"\nname = \"merged\"\n\
                communication.schedul = \"merged\"";
    let problems = Desk::with(&recipe(&[arms, SHORT, TWO])).plan().expect_err("a misspelt key");
    let codes: Vec<&str> = problems.list.iter().map(|problem| problem.code.as_str()).collect();
    assert_eq!(codes, ["R012"]);
}

#[test]
fn what_cannot_work_about_a_link() {
    let cases = [
        ("half a link", entry("kind = \"drop-link\"\nrank = 1\nstep = 2")),
        ("half a link of rank 0", entry("kind = \"drop-link\"\nrank = 0\nstep = 2")),
        ("a link for a while", entry("kind = \"drop-link\"\nrank = 1\npeer = 2\nstep = 2\nfor = \"2s\"")),
        ("a peer of a kill", entry("kind = \"kill\"\nrank = 1\npeer = 0\nstep = 2")),
        ("no such link", entry("kind = \"drop-link\"\nrank = 1\npeer = 7\nstep = 2")),
        ("a link with itself", entry("kind = \"drop-link\"\nrank = 1\npeer = 1\nstep = 2")),
        ("a link within a machine", entry("kind = \"drop-link\"\nhost = \"local\"\npeer = 1\nstep = 2")),
        ("a link behind the end", entry("kind = \"drop-link\"\nrank = 0\npeer = 1\nstep = 101")),
        (
            "a link in a short run",
            format!("{}\n{LIMIT}", entry("kind = \"drop-link\"\nrank = 0\npeer = 2\nstep = 2")),
        ),
        ("workers of a server", entry("kind = \"drop-link\"\nrank = 0\npeer = 1\nstep = 2")),
        (
            "one link from both ends",
            format!(
                "{}\n{}",
                entry("kind = \"drop-link\"\nrank = 0\npeer = 2\nstep = 2"),
                entry("kind = \"drop-link\"\nrank = 2\npeer = 0\nstep = 9")
            ),
        ),
    ];
    check_entries("dropped_links", &cases);
}

#[test]
fn what_cannot_work() {
    let cases = [
        ("nothing said", entry("rank = 1\nstep = 2")),
        ("an unknown kind", entry("kind = \"kil\"\nrank = 1\nstep = 2")),
        ("no rank in particular", entry("kind = \"kill\"\nstep = 2")),
        ("two at once", entry("kind = \"kill\"\nrank = 1\nhost = \"local\"\nstep = 2")),
        ("no step", entry("kind = \"kill\"\nrank = 1")),
        ("a slip of the pen", entry("kind = \"kill\"\nrank = 1\nsteps = 2")),
        ("before the first step", entry("kind = \"kill\"\nrank = 1\nstep = 0")),
        ("a kill for a while", entry("kind = \"kill\"\nrank = 1\nstep = 2\nfor = \"2s\"")),
        ("a pause for no time", entry("kind = \"pause\"\nrank = 1\nstep = 2\nfor = \"0s\"")),
        ("a pause for steps", entry("kind = \"pause\"\nrank = 1\nstep = 2\nfor = \"2 steps\"")),
        ("slow without a factor", entry("kind = \"slow\"\nrank = 1\nstep = 2")),
        ("as slow as before", entry("kind = \"slow\"\nrank = 1\nstep = 2\ncompute = 1.0")),
        ("slow for no step", entry("kind = \"slow\"\nrank = 1\nstep = 20\nuntil = 20\ncompute = 2.0")),
        ("no such rank", entry("kind = \"kill\"\nrank = 7\nstep = 2")),
        ("a rank of some arms", entry("kind = \"pause\"\nrank = 2\nstep = 2\nfor = \"2s\"")),
        ("no such machine", entry("kind = \"kill\"\nhost = \"lab02\"\nstep = 2")),
        ("behind the end", entry("kind = \"kill\"\nrank = 1\nstep = 101")),
        (
            "twice dead",
            entry("kind = \"kill\"\nrank = 1\nstep = 20\n[[faults]]\nkind = \"kill\"\nrank = 1\nstep = 30"),
        ),
        (
            "a pause of the dead",
            entry(
                "kind = \"kill\"\nrank = 1\nstep = 20\n[[faults]]\nkind = \"pause\"\nrank = 1\nstep = 20\nfor = \"1s\"",
            ),
        ),
        (
            "no worker left",
            entry("kind = \"kill\"\nrank = 1\nstep = 20\n[[faults]]\nkind = \"pause\"\nrank = 0\nstep = 30"),
        ),
        ("a whole machine", entry("kind = \"kill\"\nhost = \"local\"\nstep = 20")),
        (
            "a pause as long as the run",
            format!("{}\n{LIMIT}", entry("kind = \"pause\"\nrank = 1\nstep = 2\nfor = \"10s\"")),
        ),
        (
            "in the wrong place",
            "[nodes]\nuse = [\"local*2\"]\nfaults = [{ kind = \"kill\", rank = 1, step = 2 }]".to_owned(),
        ),
        ("one table", "[faults]\nkind = \"kill\"\nrank = 1\nstep = 2".to_owned()),
        ("no table", "faults = [3]\nschema = 1\nname = \"test\"".to_owned()),
    ];
    check_entries("faults", &cases);
    check(
        "faults_of_many_workers",
        &[(
            "more workers than cores",
            &[
                "[nodes]\nuse = [\"local*8\"]",
                SHORT,
                "[[faults]]\nkind = \"slow\"\nrank = 1\nstep = 2\ncompute = 2.0",
            ],
        )],
    );
}
