//! Which setting counts where a recipe, the files that it extends, a strategy and the command line have one each.

use crate::desk::{Desk, MACHINE};
use crate::expansion::{plan, planned};
use crate::problems::recipe;
use recipe::{Extent, PlanRequest, ReduceOrder, Source};
use std::path::Path;

#[test]
fn a_strategys_own_settings_go_before_the_recipes() {
    let plan = plan(&[
        "[communication]\nreduce-order = \"rank\"",
        "[[strategy]]\nkind = \"d-sync\"",
        "[[strategy]]\nkind = \"d-sync\"\nname = \"own\"\n[strategy.communication]\nreduce-order = \"ring\"",
    ]);
    let order = |cell: usize| plan.cells[cell].spec.communication.reduce_order;
    assert_eq!((order(0), order(1)), (ReduceOrder::Rank, ReduceOrder::Ring));
}

#[test]
fn each_strategy_may_have_a_rate_of_its_own() {
    let plan = plan(&[
        "[[strategy]]\nkind = \"d-sync\"",
        "[[strategy]]\nkind = \"pipe-sgd\"\nlr = 0.05\ndepth = 3",
        "[[strategy]]\nkind = \"async-sgd\"",
        "[sweep.axes]\nstrategy.async-sgd.lr = [0.2, 0.02]\nnodes.workers = [1, 2]",
        "[[sweep.exclude]]\nwhen = \"strategy.name == 'async-sgd' and nodes.workers == 1 and strategy.lr < 0.1\"",
    ]);
    let rates: Vec<f32> = plan.cells.iter().map(|cell| cell.spec.train.optimizer.lr).collect();
    assert_eq!(rates, [0.1, 0.05, 0.2, 0.02, 0.1, 0.05, 0.2, 0.02]);
    let left_out: Vec<usize> = (0..8).filter(|cell| plan.cells[*cell].excluded.is_some()).collect();
    assert_eq!(left_out, [3]);
    assert_eq!(plan.arms[3].name, "async-sgd lr=0.02");
    // The stored form of a strategy has all of its keys.
    let again = planned(&Desk::with(&plan.expanded));
    assert_eq!((again.cells, again.arms), (plan.cells, plan.arms));
}

#[test]
fn the_command_line_changes_what_is_planned() {
    let text = recipe(&[
        "[sweep.axes]\ntrain.optimizer.lr = [0.1, 0.2]",
        "[dataset]\nkind = \"mnist\"\npath = \"data\"",
    ]);
    let desk = Desk::with(&text);
    let arguments = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    let overrides = arguments(&[
        "train.optimizer.lr=0.3",
        "dataset.path=data/other",
        "strategy.d-sync.name=ring",
        "name=tried",
    ]);
    let sweeps = arguments(&["nodes.workers=1,2", "train.target.at-least=[0.5, \"60%\"]"]);
    let request = PlanRequest {
        overrides: &overrides,
        sweeps: &sweeps,
        only: Some("strategy == ring"),
        repeats: Some(2.into()),
        ..PlanRequest::new(Path::new("recipe.toml"))
    };
    let plan = recipe::plan(&desk, &request, &MACHINE)
        .unwrap_or_else(|problems| panic!("{}", problems.render(recipe::Colours::None, 100)));
    assert_eq!(plan.name, "tried");
    assert_eq!((plan.cells.len(), plan.runs.len()), (8, 8));
    assert_eq!(plan.cells[1].label, "ring workers=1 at-least=0.5");
    assert_eq!(plan.cells[0].spec.train.optimizer.lr, 0.3);
    assert_eq!(plan.cells[0].spec.dataset.source, Source::Mnist { path: "/desk/data/other".into() });
    assert!(plan.cells[0].excluded.as_deref().is_some_and(|reason| reason.contains("--only")));
    // The stored recipe plans to the same runs without the command line.
    let again = planned(&Desk::with(&plan.expanded));
    assert_eq!(again.runs, plan.runs);
    assert!(
        again
            .cells
            .iter()
            .zip(&plan.cells)
            .all(|(one, other)| one.config_hash == other.config_hash && one.label == other.label)
    );
}

#[test]
fn recipes_extend_each_other_from_left_to_right() {
    let desk = Desk::with("extends = [\"sub/base.toml\", \"more.toml\"]\nname = \"own\"\n[train]\nepochs = 7\n[dataset]\nkind = \"synthetic\"\n")
        .and("sub/base.toml", "schema = 1\n[train]\nglobal-batch = 10\nepochs = 1\n[dataset]\nkind = \"mnist\"\npath = \"data\"\nvalidation = 0.1\n[[strategy]]\nkind = \"ps-sync\"\n")
        .and("more.toml", "[train]\nglobal-batch = 20\n[[strategy]]\nkind = \"d-sync\"\n");
    let plan = planned(&desk);
    let spec = &plan.cells[0].spec;
    assert_eq!(plan.arms.len(), 1);
    assert_eq!((spec.train.global_batch, spec.train.length), (20, Extent::Epochs(7.0)));
    // The kind changed, so that the path goes with the former kind; what both have stays.
    assert_eq!(spec.dataset.source, Source::Synthetic { train: 5000, test: 1000, seed: 1 });
    assert_eq!(spec.dataset.validation, 0.1);
}

#[test]
fn paths_are_relative_to_the_file_that_names_them() {
    let desk = Desk::with("extends = \"sub/base.toml\"\n")
        .and("sub/base.toml", &recipe(&["[dataset]\nkind = \"mnist\"\npath = \"../data/mnist\""]));
    assert_eq!(
        planned(&desk).cells[0].spec.dataset.source,
        Source::Mnist { path: "/desk/data/mnist".into() }
    );
}
