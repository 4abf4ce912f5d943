//! Effect of `[search]` on a recipe: cells of shorter trainings, and their runs; and its refusals.

use crate::expansion::plan;
use crate::problems::check;
use recipe::{Bounds, Extent, Plan};
use std::collections::BTreeSet;

const HELD_OUT: &str = "[dataset]\nkind = \"synthetic\"\ntrain = 2000\ntest = 500\nvalidation = \"10%\"";

fn searched() -> Plan {
    plan(&[
        HELD_OUT,
        "[sweep.axes]\ntrain.optimizer.lr = [0.01, 0.02, 0.05, 0.1, 0.2]\nnodes.workers = [2, 4]",
        "[search]\nrungs = 2\nfactor = 2\n[repeats]\ncount = 3\nseeds = [41, 40, 43]",
    ])
}

#[test]
fn arms_are_compared_under_the_conditions_that_are_not_searched_over() {
    let plan = searched();
    let search = plan.search.as_ref().unwrap();
    let points = &plan.cells[..plan.number_of_points()];
    assert_eq!((points.len(), plan.cells.len()), (2 * 2 * 5, 2 * 2 * 5 * 3));
    let conditions: BTreeSet<&str> = (0..points.len()).map(|cell| plan.compared_under(cell)).collect();
    assert_eq!(conditions, BTreeSet::from(["workers=2", "workers=4"]));
    assert_eq!(points[0].condition, "lr=0.01 workers=2");
    let groups = search.groups(&plan);
    let sizes: Vec<usize> = groups.iter().map(Vec::len).collect();
    assert_eq!(sizes, [5; 4]);
    for group in &groups {
        let rates: Vec<f64> = group.iter().filter_map(|trial| trial.setting[0].number).collect();
        assert_eq!(rates, [0.01, 0.02, 0.05, 0.1, 0.2]);
    }
    // 5 and 3 settings in the rungs, one to the end.
    let runs = 4 * (5 + 3 + 3);
    assert_eq!(plan.number_of_runs(), Bounds { least: runs, most: runs });
}

#[test]
fn rungs_train_for_parts_of_the_length_with_a_seed_of_their_own() {
    let plan = searched();
    let search = plan.search.as_ref().unwrap();
    let epochs = |cell: usize| match plan.cells[cell].spec.train.length {
        Extent::Epochs(epochs) => epochs,
        Extent::Steps(steps) => panic!("{steps} steps"),
    };
    for trial in &search.trials {
        let whole = epochs(trial.cell);
        let parts: Vec<f64> = trial.rungs.iter().map(|cell| whole / epochs(*cell)).collect();
        assert_eq!(parts, [4.0, 2.0]);
        for cell in &trial.rungs {
            let own = &plan.cells[*cell];
            let of = &plan.cells[trial.cell];
            assert_eq!(own.config_hash, own.spec.config_hash());
            let mut same = own.spec.clone();
            same.train.length = of.spec.train.length;
            assert_eq!((same, own.arm), (of.spec.clone(), of.arm));
        }
    }
    let rung = |cell: usize| search.rung_of(cell).unwrap_or(search.rungs);
    let order: Vec<u32> = plan.runs.iter().map(|run| rung(run.cell)).collect();
    assert!(order.is_sorted(), "{order:?}");
    // 40 is a repeat's, so that the next lower one is taken.
    assert!(plan.runs.iter().filter(|run| rung(run.cell) < 2).all(|run| run.seed == 39));
    let certain = plan.runs.iter().filter(|run| plan.is_certain(run));
    assert_eq!(certain.map(|run| rung(run.cell)).collect::<Vec<_>>(), [0; 20]);
    // Arms at one setting follow each other.
    let first: Vec<usize> = plan.runs.iter().take(4).map(|run| plan.cells[run.cell].arm).collect();
    assert_eq!(first, [0, 1, 0, 1]);
    assert_eq!(plan.cells[plan.runs[0].cell].condition, plan.cells[plan.runs[1].cell].condition);
}

#[test]
fn the_arms_of_a_condition_take_turns_in_being_first() {
    let plan = searched();
    let first = |repeat: u32| {
        let mut runs = plan
            .runs
            .iter()
            .filter(|run| run.repeat == repeat && plan.compared_under(run.cell) == "workers=4");
        let at_one_rate =
            |run: &&recipe::Run| plan.cells[run.cell].label.contains("lr=0.05") && run.cell < 20;
        runs.find(at_one_rate).map(|run| plan.cells[run.cell].arm)
    };
    assert_eq!([0, 1, 2].map(first), [Some(0), Some(1), Some(0)]);
}

#[test]
fn the_best_is_repeated_until_it_is_decided() {
    let repeats = "[search]\nrungs = 1\nfactor = 2\n[repeats]\ncount = 3\nat-most = 6";
    let plan = plan(&[HELD_OUT, "[sweep.axes]\ntrain.optimizer.lr = [0.1, 0.2]", repeats]);
    assert_eq!(
        (plan.looks.as_slice(), plan.number_of_runs()),
        ([3, 6].as_slice(), Bounds { least: 2 * (2 + 3), most: 2 * (2 + 6) })
    );
}

#[test]
fn a_key_of_a_search_asks_for_one() {
    let one = |text: &str| {
        plan(&[HELD_OUT, "[sweep.axes]\ntrain.optimizer.lr = [0.1, 0.2, 0.3, 0.4]", text]).search
    };
    assert_eq!(one("[repeats]\ncount = 3"), None);
    let found = one("[search]\nfactor = 2").unwrap();
    assert_eq!((found.rungs, found.factor), (2, 2));
}

#[test]
fn searches_that_cannot_be_made() {
    let rates = "[sweep.axes]\ntrain.optimizer.lr = [0.01, 0.1, 0.2]";
    let few = "[search]\nrungs = 1";
    check(
        "searches",
        &[
            ("search of nothing", &[HELD_OUT, "[sweep.axes]\nnodes.workers = [1, 2]", few]),
            ("search that holds nothing out", &[rates, few]),
            ("search with rungs that leave no choice", &[HELD_OUT, rates, "[search]\nrungs = 2"]),
            ("search of one setting", &[HELD_OUT, "[sweep.axes]\ntrain.optimizer.lr = [0.1]", few]),
            (
                "search of runs that stop",
                &[
                    HELD_OUT,
                    rates,
                    few,
                    "[train.target]\nmetric = \"test-accuracy\"\nat-least = 0.9\nstop = true",
                ],
            ),
            (
                "search with a rung of no step",
                &[
                    HELD_OUT,
                    rates,
                    few,
                    "[train]\nglobal-batch = 100\nsteps = 2\noptimizer = { kind = \"sgd\", lr = 0.1 }",
                ],
            ),
            (
                "search with a rung that never meets the centre",
                &[
                    HELD_OUT,
                    rates,
                    few,
                    "[train]\nglobal-batch = 40\nsteps = 60\noptimizer = { kind = \"sgd\", lr = 0.1 }",
                    "[[strategy]]\nkind = \"d-sync\"",
                    "[[strategy]]\nkind = \"easgd-async\"\nperiod = 24",
                ],
            ),
            (
                "search with a rung within the warm-up",
                &[
                    HELD_OUT,
                    rates,
                    few,
                    "[train]\nglobal-batch = 40\nsteps = 60\noptimizer = { kind = \"sgd\", lr = 0.1 }\nlr-schedule = { warmup = \"30 steps\" }",
                ],
            ),
            (
                "search with a crowded last rung",
                &[
                    HELD_OUT,
                    "[[sweep.random]]\ndraws = 40\ntrain.optimizer.lr = { log-uniform = [0.001, 1.0] }",
                    "[search]\nrungs = 2",
                ],
            ),
            (
                "a rate that falls after the rungs",
                &[
                    HELD_OUT,
                    "[train]\nglobal-batch = 100\nepochs = 19\nlr-schedule = { kind = \"milestones\", at = [\"8 epochs\", \"17 epochs\"] }",
                    rates,
                    "[search]",
                ],
            ),
        ],
    );
}

/// Each key of `[search]` has a default, so that the bare table asks for them.
#[test]
fn a_search_that_says_nothing_takes_the_defaults() {
    let rates = "[sweep.axes]\ntrain.optimizer.lr = [0.01, 0.02, 0.04, 0.08, 0.1, 0.2, 0.4, 0.8, 1.0]";
    let planned = |search: &str| plan(&[HELD_OUT, rates, search]);
    let bare = planned("[search]");
    let written = planned("[search]\nrungs = 2\nfactor = 3");
    assert_eq!((&bare.search, &bare.cells), (&written.search, &written.cells));
    assert!(bare.search.is_some());
}
