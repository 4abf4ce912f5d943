//! Effect of axes and exclusions on a recipe: arms, conditions, labels.

use crate::expansion::{labels, plan};
use recipe::{Collective, Partition, Plan};
use std::collections::BTreeSet;

#[test]
fn axes_of_strategies_make_arms_and_all_others_conditions() {
    let plan = plan(&[
        "[sweep.axes]\nnodes.workers = [2, 4]\nstrategy.d-sync.communication.collective = [\"ring\", \"star\"]\ntrain.optimizer.lr = [0.05, 0.1]",
    ]);
    let arms: Vec<(&str, bool)> = plan.arms.iter().map(|arm| (arm.name.as_str(), arm.baseline)).collect();
    assert_eq!(
        arms,
        [("ps-sync", true), ("d-sync collective=ring", false), ("d-sync collective=star", false)]
    );
    assert_eq!(plan.cells.len(), 3 * 4);
    assert_eq!(plan.runs.len(), 3 * 4 * 5);
    assert_eq!(
        labels(&plan)[..4],
        [
            "ps-sync workers=2 lr=0.05",
            "d-sync collective=ring workers=2 lr=0.05",
            "d-sync collective=star workers=2 lr=0.05",
            "ps-sync workers=2 lr=0.1",
        ]
    );
    let axes: Vec<(&str, &str, Option<f64>)> =
        plan.cells[1].axes.iter().map(|axis| (axis.path.as_str(), axis.text.as_str(), axis.number)).collect();
    assert_eq!(
        axes,
        [
            ("strategy.d-sync.communication.collective", "ring", None),
            ("nodes.workers", "2", Some(2.0)),
            ("train.optimizer.lr", "0.05", Some(0.05)),
        ]
    );
}

#[test]
fn an_axis_over_all_arms_spares_those_that_it_does_not_touch() {
    let sweep = "[sweep.axes]\ncommunication.collective = [\"ring\", \"star\"]";
    let names = |plan: &Plan| plan.arms.iter().map(|arm| arm.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&plan(&[sweep])), ["ps-sync", "d-sync collective=ring", "d-sync collective=star"]);
    let own = "[[strategy]]\nname = \"own\"\nkind = \"d-sync\"\ncommunication.reduce-order = \"rank\"\ncommunication.collective = \"ring\"";
    let plan = plan(&[own, "[[strategy]]\nkind = \"d-sync\"", sweep]);
    assert_eq!(names(&plan), ["own", "d-sync collective=ring", "d-sync collective=star"]);
    assert_eq!(plan.cells[0].spec.communication.collective, Collective::Ring);
    assert_eq!(plan.cells[2].spec.communication.collective, Collective::Star);
}

#[test]
fn axes_in_lockstep_are_one_dimension() {
    let plan = plan(&[
        "[[sweep.zip]]\ntrain.global-batch = [100, 200]\ntrain.epochs = [2, 4]",
        "[sweep.axes]\ndataset.seed = [1, 2]",
    ]);
    assert_eq!(plan.cells.len(), 2 * 2 * 2);
    let pairs: BTreeSet<String> = plan.cells.iter().map(|cell| cell.condition.clone()).collect();
    let expected = [
        "seed=1 global-batch=100 epochs=2",
        "seed=1 global-batch=200 epochs=4",
        "seed=2 global-batch=100 epochs=2",
        "seed=2 global-batch=200 epochs=4",
    ];
    assert_eq!(pairs, expected.map(str::to_owned).into());
}

fn drawn(plan: &Plan, path: &str) -> Vec<f64> {
    let arm = plan.cells[0].arm;
    let cells = plan.cells.iter().filter(|cell| cell.arm == arm);
    let axes = cells.flat_map(|cell| &cell.axes).filter(|axis| axis.path == path);
    axes.filter_map(|axis| axis.number).collect()
}

#[test]
fn random_values_lie_in_their_ranges_and_more_draws_leave_them_as_they_are() {
    let sweep = |draws: u32, more: &str| {
        plan(&[&format!(
            "[[sweep.random]]\ndraws = {draws}{more}\ntrain.optimizer.lr = {{ log-uniform = [0.001, 1.0] }}\ntrain.optimizer.momentum = \
             {{ uniform = [0.0, 0.9] }}\ntrain.global-batch = {{ integers = [40, 80] }}\ndataset.seed = {{ choice = [3, 5] }}"
        )])
    };
    let few = sweep(5, "");
    let many = sweep(40, "");
    assert_eq!((few.cells.len(), many.cells.len()), (10, 80));
    let lr = drawn(&many, "train.optimizer.lr");
    let momentum = drawn(&many, "train.optimizer.momentum");
    assert_eq!(drawn(&few, "train.optimizer.lr"), lr[..5]);
    assert!(lr.iter().all(|lr| (0.001..=1.0).contains(lr)));
    assert!(momentum.iter().all(|momentum| (0.0..=0.9).contains(momentum)));
    // Half of them lie below the geometric middle.
    let low = lr.iter().filter(|lr| **lr < 0.001_f64.sqrt()).count();
    assert!((8..32).contains(&low), "{lr:?}");
    assert!(
        drawn(&many, "train.global-batch")
            .iter()
            .all(|batch| batch.fract() == 0.0 && (40.0..=80.0).contains(batch))
    );
    let seeds: BTreeSet<String> = drawn(&many, "dataset.seed").iter().map(f64::to_string).collect();
    assert_eq!(seeds, ["3", "5"].map(str::to_owned).into());
    assert_ne!(drawn(&sweep(5, "\nseed = 2"), "train.optimizer.lr"), lr[..5]);
    // The expanded recipe has the values that were drawn.
    let written = crate::desk::Desk::with(&many.expanded).plan().expect("the expanded recipe");
    assert_eq!(labels(&written), labels(&many));
    assert!(!many.expanded.contains("sweep.random"), "{}", many.expanded);
}

#[test]
fn what_the_command_line_says_goes_before_a_draw() {
    let text = crate::problems::recipe(&[
        "[[sweep.random]]\ndraws = 3\ntrain.optimizer.lr = { uniform = [0.1, 1.0] }\ndataset.seed = { integers = [1, 99] }",
    ]);
    let desk = crate::desk::Desk::with(&text);
    let count = |overrides: &[&str]| {
        let plan = desk.plan_with(overrides).expect("a plan");
        (plan.cells.len() / plan.arms.len(), plan.cells[0].axes.len())
    };
    assert_eq!(count(&[]), (3, 2));
    assert_eq!(count(&["sweep.random.draws=5"]), (5, 2));
    assert_eq!(count(&["train.optimizer.lr=0.3"]), (3, 1));
    assert_eq!(count(&["train.optimizer.lr=0.3", "dataset.seed=4"]), (1, 0));
}

#[test]
fn the_written_recipe_keeps_the_order_of_axes_locksteps_and_draws() {
    let plan = plan(&[
        "[sweep.axes]\ndataset.seed = [1, 2]",
        "[[sweep.zip]]\ntrain.global-batch = [100, 200]\ntrain.epochs = [2, 4]",
        "[[sweep.random]]\ndraws = 2\ntrain.optimizer.lr = { log-uniform = [0.01, 1.0] }",
    ]);
    let written = crate::desk::Desk::with(&plan.expanded).plan().expect("the expanded recipe");
    assert_eq!(labels(&written), labels(&plan));
}

#[test]
fn draws_of_few_values_are_all_different() {
    let plan = plan(&["[[sweep.random]]\ndraws = 4\nnodes.workers = { integers = [1, 4] }"]);
    let workers: BTreeSet<u64> =
        drawn(&plan, "nodes.workers").iter().map(|workers| *workers as u64).collect();
    assert_eq!(workers, [1, 2, 3, 4].into());
}

#[test]
fn random_values_of_one_strategy_are_arms() {
    let plan = plan(&[
        "[[sweep.random]]\ndraws = 3\nstrategy.d-sync.compression.kind = { choice = [\"none\", \"fp16\", \"bf16\"] }",
    ]);
    assert_eq!(plan.arms.len(), 4);
}

#[test]
fn a_condition_beside_the_product_is_one_of_all_arms() {
    let plan = plan(&[
        "[sweep.axes]\nnodes.workers = [1, 2]\ntrain.optimizer.lr = [0.1, 0.2]",
        "[[sweep.include]]\nnodes.workers = 4\ntrain.optimizer.lr = 0.4",
        "[[sweep.include]]\n\"nodes.workers\" = 3\ntrain = { optimizer = { lr = 0.3 } }",
    ]);
    let conditions: Vec<&str> = plan.cells.iter().map(|cell| cell.condition.as_str()).collect();
    assert_eq!(
        conditions[8..],
        ["workers=4 lr=0.4", "workers=4 lr=0.4", "workers=3 lr=0.3", "workers=3 lr=0.3"]
    );
    assert_eq!(plan.cells[8].spec.cluster.workers(), 4);
    assert_eq!(plan.cells[8].axes.len(), 2);
    let written = crate::desk::Desk::with(&plan.expanded).plan().expect("the expanded recipe");
    assert_eq!(labels(&written), labels(&plan));
    let hashes = |plan: &Plan| plan.cells.iter().map(|cell| cell.config_hash.clone()).collect::<Vec<_>>();
    assert_eq!(hashes(&written), hashes(&plan));
}

#[test]
fn an_axis_may_take_whole_tables() {
    let plan = plan(&[
        "[sweep.axes]\ndataset.partition = [\"shared\", { kind = \"dirichlet\", alpha = 0.1 }]\nnodes.use = [[\"local*2\"], [\"local*3\"]]",
    ]);
    assert_eq!(plan.cells[7].label, "d-sync partition=dirichlet(alpha=0.1) use=local*3");
    let partitions: Vec<&Partition> = plan.cells.iter().map(|cell| &cell.spec.dataset.partition).collect();
    assert_eq!(plan.cells.len(), 8);
    assert!(
        partitions.contains(&&Partition::Shared)
            && partitions.contains(&&Partition::Dirichlet { alpha: 0.1 })
    );
    assert_eq!(plan.cells[7].spec.cluster.workers(), 3);
}

#[test]
fn a_kind_on_an_axis_takes_its_own_keys_only() {
    let plan = plan(&[
        "[dataset]\npartition = { kind = \"dirichlet\", alpha = 0.7 }",
        "[sweep.axes]\ndataset.partition.kind = [\"dirichlet\", \"sharded\"]",
    ]);
    assert_eq!(plan.cells[0].spec.dataset.partition, Partition::Dirichlet { alpha: 0.7 });
    assert_eq!(plan.cells[2].spec.dataset.partition, Partition::Sharded);
}

#[test]
fn conditions_exclude_cells_with_their_reason() {
    let excluded = |when: &str| {
        let sweep =
            "[sweep.axes]\nnodes.workers = [1, 2, 4]\ntrain.lr-schedule.warmup = [\"0 epochs\", \"1 epoch\"]";
        let plan = plan(&[sweep, &format!("[[sweep.exclude]]\nwhen = \"{when}\"\nreason = \"because\"")]);
        assert_eq!(plan.runs.len(), 5 * plan.cells.iter().filter(|cell| cell.excluded.is_none()).count());
        plan.cells.iter().filter(|cell| cell.excluded.as_deref() == Some("because")).count()
    };
    for (when, count) in [
        ("strategy.name == 'd-sync'", 6),
        ("strategy = d-sync and nodes.workers > 2", 2),
        ("workers >= 2 and workers < 4", 4),
        ("not (workers == 1 or strategy.kind == 'ps-sync')", 4),
        ("strategy != 'ps-sync' or workers <= '1'", 8),
        // A parameter server has no all-reduce.
        ("collective == 'ring'", 6),
        ("collective != 'ring'", 6),
        ("compression == none and workers == 4", 4),
        ("warmup > '0.5 epochs'", 6),
        ("lr == 0.1 and lr == '1e-1'", 12),
        ("train.target.after != '1s'", 12),
        ("not not workers == 4", 4),
        ("strategy == d-sync or strategy == ps-sync and workers == 4", 8),
        ("(strategy == d-sync or strategy == ps-sync) and workers == 4", 4),
    ] {
        assert_eq!(excluded(when), count, "{when}");
    }
}

#[test]
fn an_impossible_cell_may_be_excluded() {
    let plan = plan(&["[sweep.axes]\nnodes.workers = [4, 8]", "[[sweep.exclude]]\nwhen = \"workers == 8\""]);
    assert_eq!((plan.cells.len(), plan.runs.len()), (4, 10));
}

#[test]
fn labels_stay_when_values_come_and_go() {
    let small = plan(&["[sweep.axes]\ntrain.optimizer.lr = [0.1, 0.2]"]);
    let large = plan(&["[sweep.axes]\ntrain.optimizer.lr = [0.05, 0.1, 0.2]"]);
    let find = |plan: &Plan, label: &str| {
        plan.cells.iter().find(|cell| cell.label == label).map(|cell| cell.config_hash.clone())
    };
    for label in labels(&small) {
        assert_eq!(find(&small, label), find(&large, label), "{label}");
    }
}

#[test]
fn axes_of_one_short_name_are_told_apart() {
    let plan = plan(&[
        "[sweep.axes]\nmodel.kind = [\"softmax\", \"lenet\"]\ndataset.partition.kind = [\"shared\", \"sharded\"]\ndataset.seed = [1, 2]",
    ]);
    assert_eq!(plan.cells[0].condition, "model=softmax partition=shared seed=1");
}

#[test]
fn ten_thousand_cells_are_planned() {
    let values = |count: usize| {
        (1..=count).map(|value| format!("{}", value as f64 / 1000.0)).collect::<Vec<_>>().join(", ")
    };
    let sweep = format!(
        "[sweep.axes]\ntrain.optimizer.lr = [{}]\ntrain.optimizer.momentum = [{}]\nnodes.workers = [1, 2]",
        values(50),
        values(50)
    );
    let started = std::time::Instant::now();
    let plan = plan(&[&sweep]);
    println!("{} cells in {:?}", plan.cells.len(), started.elapsed());
    assert_eq!(plan.cells.len(), 10_000);
    assert_eq!(plan.runs.len(), 50_000);
    let hashes: BTreeSet<&str> = plan.cells.iter().map(|cell| cell.config_hash.as_str()).collect();
    assert_eq!(hashes.len(), 10_000);
}
