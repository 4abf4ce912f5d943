//! Emulated networks, step times and slow ranks: what they become, and what cannot work.

use crate::desk::{Desk, MACHINE};
use crate::expansion::plan;
use crate::problems::check;
use recipe::{Compute, ComputeSplit, Emulation, Network, PlanRequest, Slow, Whom};
use std::path::Path;
use std::time::Duration;

fn emulation(changes: &[&str]) -> Emulation {
    plan(changes).cells[0].spec.emulation.clone()
}

#[test]
fn what_is_not_asked_for_is_not_emulated_and_changes_no_identity() {
    let plan = plan(&[]);
    assert!(plan.cells[0].spec.emulation.is_none());
    assert!(!plan.cells[0].spec.canonical().contains("emulation"));
}

#[test]
fn networks_and_steps() {
    let network = |latency| Some(Network { bandwidth: 125_000_000, latency });
    let given = emulation(&["[network]\nbandwidth = \"1Gbit/s\"\nlatency = \"50us\"\nshare = \"rank\""]);
    assert_eq!(given.network, network(Duration::from_micros(50)));
    assert_eq!(emulation(&["[network]\nbandwidth = \"1Gbit/s\""]).network, network(Duration::ZERO));
    let step_time = Duration::from_millis(20);
    let compute = emulation(&["[compute]\nstep-time = \"20ms\""]).compute;
    assert_eq!(compute, Some(Compute { step_time, split: ComputeSplit::Measured }));
    let compute = emulation(&["[compute]\nstep-time = \"20ms\"\nsplit = \"given\""]).compute;
    let split = ComputeSplit::Given { forward: 0.3, backward: 0.6, update: 0.1 };
    assert_eq!(compute, Some(Compute { step_time, split }));
}

#[test]
fn slow_ranks() {
    let slow = emulation(&[
        "[nodes]\nuse = [\"local*2\"]\nslow = [{ rank = 1, compute = 4 }, { random = 2, compute = 2.5, \
         probability = 0.1 }, { rank = 0, link = 10.0 }]",
        "[network]\nbandwidth = \"1Gbit/s\"",
        "[train]\nglobal-batch = 100\nepochs = 2",
    ]);
    let one = Slow { whom: Whom::Rank(1), compute: 4.0, link: 1.0, probability: 1.0 };
    let two = Slow { whom: Whom::Random(2), compute: 2.5, probability: 0.1, ..one };
    assert_eq!(slow.slow, [one, two, Slow { whom: Whom::Rank(0), compute: 1.0, link: 10.0, ..one }]);
}

#[test]
fn slow_servers_are_the_ranks_behind_the_workers_of_each_arm() {
    let plan = plan(&[
        "[network]\nbandwidth = \"1Gbit/s\"",
        "[nodes]\nuse = [\"local*2\"]\nslow = [{ servers = true, link = 20.0 }]",
        "[[strategy]]\nkind = \"d-sync\"\n[[strategy]]\nkind = \"ps-sync\"\nservers = 2",
    ]);
    let slow: Vec<Vec<Whom>> = plan
        .cells
        .iter()
        .map(|cell| cell.spec.emulation.slow.iter().map(|slow| slow.whom).collect())
        .collect();
    assert_eq!(slow, [vec![], vec![Whom::Rank(2), Whom::Rank(3)]]);
    assert!(plan.cells.iter().flat_map(|cell| &cell.spec.emulation.slow).all(|slow| slow.link == 20.0));
}

#[test]
fn a_selection_without_servers_still_has_a_recipe_with_some() {
    let text = crate::problems::recipe(&[
        "[network]\nbandwidth = \"1Gbit/s\"",
        "[nodes]\nuse = [\"local*2\"]\nslow = [{ servers = true, link = 20.0 }]",
        "[[strategy]]\nkind = \"d-sync\"\n[[strategy]]\nkind = \"ps-sync\"",
    ]);
    for kind in ["d-sync", "ps-sync"] {
        let only = format!("strategy.kind == '{kind}'");
        let request = PlanRequest { only: Some(&only), ..PlanRequest::new(Path::new("recipe.toml")) };
        let plan = recipe::plan(&Desk::with(&text), &request, &MACHINE)
            .unwrap_or_else(|problems| panic!("{}", problems.render(recipe::Colours::None, 100)));
        assert_eq!(plan.cells.iter().filter(|cell| cell.excluded.is_none()).count(), 1, "{kind}");
    }
}

#[test]
fn they_are_conditions_and_survive_being_written_down() {
    let plan = plan(&[
        "[network]\nbandwidth = \"1Gbit/s\"\nlatency = \"50us\"",
        "[sweep.axes]\nnetwork.bandwidth = [\"1Gbit/s\", \"100Mbit/s\"]\nnodes.slow = [[], [{ rank = 1, link = 2.0 }]]",
    ]);
    assert_eq!(plan.cells.len(), 8);
    assert_eq!(plan.cells[0].axes[0].number, Some(125e6));
    let conditions: Vec<&str> = plan.cells.iter().step_by(2).map(|cell| cell.condition.as_str()).collect();
    assert_eq!(conditions[..2], ["bandwidth=1Gbit/s slow=none", "bandwidth=1Gbit/s slow=rank1:link/2"]);
    let listed = "nodes.slow = [[{ rank = 1, compute = 4.0, link = 10.0 }], [{ random = 2, compute = 4, probability = 0.1 }], \
                  [{ servers = true, link = 2.0 }]]";
    let short =
        crate::expansion::plan(&["[network]\nbandwidth = \"1Gbit/s\"", &format!("[sweep.axes]\n{listed}")]);
    let conditions: Vec<&str> = short.cells.iter().step_by(2).map(|cell| cell.condition.as_str()).collect();
    assert_eq!(
        conditions,
        ["slow=rank1:compute*4,link/10", "slow=random2:compute*4@0.1", "slow=servers:link/2"]
    );
    let hashes: std::collections::BTreeSet<&str> =
        plan.cells.iter().map(|cell| cell.config_hash.as_str()).collect();
    assert_eq!(hashes.len(), 8, "the emulation is part of a run's identity");
    let again = Desk::with(&plan.expanded).plan().unwrap();
    assert_eq!(again.cells, plan.cells);
}

#[test]
fn stated_step_times_are_honest_on_any_number_of_cores() {
    let many = "[nodes]\nuse = [\"local*8\"]\nslow = [{ rank = 3, compute = 4.0 }]";
    let stated = plan(&[many, "[compute]\nstep-time = \"20ms\""]);
    assert_eq!(stated.warnings, []);
}

#[test]
fn what_cannot_work() {
    check(
        "emulation",
        &[
            ("no bandwidth", &["[network]\nbandwidth = \"fast\""]),
            ("not a bandwidth", &["[network]\nbandwidth = 1000"]),
            ("a network without bandwidth", &["[network]\nlatency = \"50us\""]),
            ("the card of a machine", &["[network]\nbandwidth = \"1Gbit/s\"\nshare = \"node\""]),
            ("a split of nothing", &["[compute]\nsplit = \"measured\""]),
            ("shares of a measured step", &["[compute]\nstep-time = \"20ms\"\nsplit.forward = 0.5"]),
            (
                "shares that are not the whole",
                &["[compute]\nstep-time = \"20ms\"\nsplit = { kind = \"given\", forward = 0.5 }"],
            ),
            ("no rank in particular", &["[nodes]\nuse = [\"local*2\"]\nslow = [{ compute = 2.0 }]"]),
            (
                "two at once",
                &["[nodes]\nuse = [\"local*2\"]\nslow = [{ rank = 1, random = 1, compute = 2.0 }]"],
            ),
            ("nothing slow", &["[nodes]\nuse = [\"local*2\"]\nslow = [{ rank = 1 }]"]),
            ("faster", &["[nodes]\nuse = [\"local*2\"]\nslow = [{ rank = 1, compute = 0.5 }]"]),
            ("a slip of the pen", &["[nodes]\nuse = [\"local*2\"]\nslow = [{ rank = 1, computes = 2.0 }]"]),
            ("no table", &["[nodes]\nuse = [\"local*2\"]\nslow = [3]"]),
            (
                "no servers",
                &[
                    "[nodes]\nuse = [\"local*2\"]\nslow = [{ servers = true, compute = 2.0 }]",
                    "[[strategy]]\nkind = \"d-sync\"",
                ],
            ),
            ("no rank", &["[nodes]\nuse = [\"local*2\"]\nslow = [{ rank = 7, compute = 2.0 }]"]),
            ("too many", &["[nodes]\nuse = [\"local*2\"]\nslow = [{ random = 3, compute = 2.0 }]"]),
            ("no link", &["[nodes]\nuse = [\"local*2\"]\nslow = [{ rank = 1, link = 2.0 }]"]),
            (
                "a link by chance",
                &["[nodes]\nuse = [\"local*2\"]\nslow = [{ rank = 1, link = 2.0, probability = 0.5 }]"],
            ),
            (
                "more workers than cores",
                &["[nodes]\nuse = [\"local*8\"]\nslow = [{ rank = 1, compute = 2.0 }]"],
            ),
        ],
    );
}
