//! In which order runs are started, and with which seeds.

use crate::desk::{Desk, MACHINE};
use crate::expansion::plan;
use crate::problems::recipe;
use recipe::{PlanRequest, RepeatCount};
use std::path::Path;

#[test]
fn repeats_are_paired_and_ordered() {
    let order = |order: &str| {
        let plan = plan(&[&format!("[repeats]\ncount = 3\nseeds = [7, 8, 9]\norder = \"{order}\"")]);
        for run in &plan.runs {
            assert_eq!(run.seed, 7 + u64::from(run.repeat));
        }
        plan.runs.iter().map(|run| (run.cell, run.repeat)).collect::<Vec<_>>()
    };
    assert_eq!(order("interleave"), [(0, 0), (1, 0), (1, 1), (0, 1), (0, 2), (1, 2)]);
    assert_eq!(order("block"), [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]);
    let mut shuffled = order("shuffle");
    assert_eq!(shuffled, order("shuffle"));
    assert_ne!(shuffled, order("interleave"));
    assert_ne!(shuffled, order("block"));
    shuffled.sort_unstable();
    assert_eq!(shuffled, order("block"));
}

/// All runs up to a look come before the first one after it, whatever the order.
#[test]
fn repeats_until_decided_are_ordered_by_their_looks() {
    for (order, first) in
        [("interleave", [(0, 0), (1, 0), (1, 1), (0, 1)]), ("block", [(0, 0), (0, 1), (1, 0), (1, 1)])]
    {
        let plan = plan(&[&format!("[repeats]\ncount = 2\nat-most = 10\norder = \"{order}\"")]);
        assert_eq!(plan.looks, [2, 4, 10]);
        assert_eq!(plan.runs.len(), 20);
        let rounds =
            plan.runs.iter().map(|run| plan.looks.iter().filter(|look| run.repeat >= **look).count());
        assert!(rounds.is_sorted(), "{order}");
        assert_eq!(plan.runs[..4].iter().map(|run| (run.cell, run.repeat)).collect::<Vec<_>>(), first);
    }
    let looks = |most: u32| plan(&[&format!("[repeats]\ncount = 3\nat-most = {most}")]).looks;
    assert_eq!(
        [4, 6, 8, 9, 12, 24, 25].map(looks),
        [
            vec![3, 4],
            vec![3, 6],
            vec![3, 8],
            vec![3, 6, 9],
            vec![3, 6, 12],
            vec![3, 6, 12, 24],
            vec![3, 6, 12, 25]
        ]
    );
    assert!(plan(&["[repeats]\ncount = 3"]).looks.is_empty());
}

/// With fewer repeats at first, and without: the runs that a fixed number has are among them, with the same seeds.
#[test]
fn the_command_line_sets_both_numbers_of_repeats() {
    let desk = Desk::with(&recipe(&["[repeats]\ncount = 2\nat-most = 8"]));
    let with = |repeats: Option<RepeatCount>| {
        let request = PlanRequest { repeats, ..PlanRequest::new(Path::new("recipe.toml")) };
        ::recipe::plan(&desk, &request, &MACHINE)
            .unwrap_or_else(|problems| panic!("{}", problems.render(::recipe::Colours::None, 100)))
    };
    assert_eq!(with(None).looks, [2, 4, 8]);
    assert_eq!(with(Some("3..9".parse().unwrap())).looks, [3, 6, 9]);
    let fixed = with(Some(3.into()));
    assert_eq!((fixed.looks.as_slice(), fixed.runs.len()), (&[][..], 6));
    assert!(fixed.runs.iter().all(|run| with(None).runs.contains(run)));
}

#[test]
fn interleaved_arms_take_every_place_in_turn_under_each_condition() {
    let plan = plan(&[
        "[sweep.axes]\ntrain.epochs = [1, 2]",
        "[[sweep.exclude]]\nwhen = \"strategy.name == 'ps-sync' and train.epochs == 2\"",
        "[[strategy]]\nkind = \"d-sync\"",
        "[[strategy]]\nkind = \"ps-sync\"",
        "[[strategy]]\nkind = \"async-sgd\"",
        "[repeats]\ncount = 4",
    ]);
    let included = |cell: &usize| plan.cells[*cell].excluded.is_none();
    for (condition, arms) in [("epochs=1", 3), ("epochs=2", 2)] {
        let cells: Vec<usize> = (0..plan.cells.len())
            .filter(|cell| included(cell) && plan.cells[*cell].condition == condition)
            .collect();
        assert_eq!(cells.len(), arms);
        for repeat in 0..4_u32 {
            let started: Vec<usize> = (plan.runs.iter())
                .filter(|run| run.repeat == repeat && cells.contains(&run.cell))
                .map(|run| run.cell)
                .collect();
            let mut turned = cells.clone();
            turned.rotate_left(repeat as usize % cells.len());
            assert_eq!(started, turned, "{condition}, repeat {repeat}");
        }
    }
    assert!(plan.runs.is_sorted_by_key(|run| run.repeat));
}
