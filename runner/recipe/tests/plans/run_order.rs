//! In which order runs are started, and with which seeds.

use crate::expansion::plan;

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
