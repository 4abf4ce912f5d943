//! Machines of a recipe: lists, ranges, inventories, files of hosts, allocations.

use crate::desk::{Desk, MACHINE};
use crate::problems::{check, recipe};
use recipe::{Access, Node, Plan, PlanRequest, Threads};
use std::path::Path;

const INVENTORY: &str = "[fast1]\nslots = 2\ncores = 8\ngroups = [\"fast\"]\n\n\
                         [fast2]\nhost = \"10.0.0.2\"\nuser = \"me\"\nport = 2222\nslots = 2\ncores = 4\ngroups = [\"fast\"]\n\n\
                         [slow]\n";

fn planned(nodes: &str) -> Plan {
    let text = recipe(&[&format!("[nodes]\n{nodes}")]);
    let desk = Desk::with(&text).and("nodes.toml", INVENTORY).and("hosts.txt", "lab1 slots=3\nslow\n");
    desk.plan().unwrap_or_else(|problems| panic!("{}", problems.render(recipe::Colours::None, 100)))
}

fn nodes(nodes: &str) -> Vec<Node> {
    planned(nodes).cells[0].spec.cluster.nodes.clone()
}

/// Name and slots of each machine.
fn slots(list: &str) -> Vec<String> {
    nodes(list).iter().map(|node| format!("{}*{}", node.name, node.slots)).collect()
}

#[test]
fn problems() {
    check(
        "machines",
        &[
            ("an option of ssh", &["[nodes]\nuse = [\"-oProxyCommand=x\"]"]),
            ("no range", &["[nodes]\nuse = [\"lab[3-1]\"]"]),
            ("no inventory", &["[nodes]\ninventory = \"none.toml\""]),
            ("a group of nothing", &["[nodes]\nuse = [\"group:fast\"]"]),
            ("no file of hosts", &["[nodes]\nuse = [\"hostfile:none.txt\"]"]),
            ("no allocation", &["[nodes]\nuse = [\"slurm\"]"]),
            ("a server elsewhere", &["[nodes]\nserver = \"gpu-1\""]),
            ("a price below nothing", &["[nodes]\nprice = -2.5"]),
            ("a price that is no number", &["[nodes]\nprice = nan"]),
            ("a price without an end", &["[nodes]\nprice = inf"]),
            ("a price in words", &["[nodes]\nprice = \"2.5 EUR\""]),
            ("a currency of nothing", &["[nodes]\ncurrency = \"EUR\""]),
            ("no currency", &["[nodes]\nprice = 2.5\ncurrency = \"E\\nUR\""]),
            ("a price as an axis", &["[sweep.axes]\nnodes.price = [1, 2]"]),
            ("no ports", &["[nodes]\nports = \"7100-7000\""]),
            (
                "an emulated network between machines",
                &["[nodes]\nuse = [\"lab[1-2]\"]", "[network]\nbandwidth = \"1Gbit/s\""],
            ),
            (
                "a strategy without checkpoints",
                &[
                    "[train]\nglobal-batch = 100\nsteps = 20\ncheckpoint = \"10 steps\"",
                    "[[strategy]]\nkind = \"d-sync\"",
                    "[[strategy]]\nkind = \"ad-psgd\"",
                ],
            ),
            (
                "a checkpoint after the end",
                &["[train]\nglobal-batch = 100\nsteps = 20\ncheckpoint = \"20 steps\""],
            ),
            (
                "a warm-up without an end",
                &[
                    "[train]\nglobal-batch = 100\nsteps = 20\nlr-schedule = { kind = \"cosine\", warmup = \"21 steps\" }",
                ],
            ),
            (
                "a fall after the end",
                &[
                    "[train]\nglobal-batch = 100\nsteps = 20\nlr-schedule = { kind = \"step\", every = \"20 steps\", factor = 0.1 }",
                ],
            ),
            (
                "a milestone after the end",
                &[
                    "[train]\nglobal-batch = 100\nsteps = 20\nlr-schedule = { kind = \"milestones\", at = [\"5 steps\", \"1 epochs\"], factor = 0.1 }",
                ],
            ),
            (
                "a codec without checkpoints",
                &[
                    "[train]\nglobal-batch = 100\nsteps = 20\ncheckpoint = \"10 steps\"",
                    "[compression]\nkind = \"custom\"\ncustom = \"mine\"",
                ],
            ),
            (
                "memory that machines cannot share",
                &["[nodes]\nuse = [\"lab[1-2]\"]", "[communication]\ntransport = \"shared-memory\""],
            ),
        ],
    );
}

#[test]
fn devices_that_cannot_work() {
    check(
        "devices",
        &[
            ("a device that there is not", &["[nodes]\ndevice = \"gpu\""]),
            ("a GPU that is no number", &["[nodes]\ndevice = \"cuda:first\""]),
            (
                "an emulated step on a GPU",
                &["[nodes]\nuse = [\"local*2\"]\ndevice = \"cuda\"\n\n[compute]\nstep-time = \"10ms\""],
            ),
        ],
    );
}

#[test]
fn machines_are_named_in_many_ways() {
    assert_eq!(slots("use = [\"lab[08-10]*2\"]"), ["lab08*2", "lab09*2", "lab10*2"]);
    assert_eq!(slots("use = [\"local*2\", \"lab1\"]"), ["local*2", "lab1*1"]);
    assert_eq!(slots("use = [\"lab1*2\", \"lab1\"]"), ["lab1*3"]);
    assert_eq!(slots("inventory = \"nodes.toml\"\nuse = [\"group:fast\"]"), ["fast1*2", "fast2*2"]);
    assert_eq!(
        slots("inventory = \"nodes.toml\"\nuse = [\"group:fast*1\", \"slow*4\"]"),
        ["fast1*1", "fast2*1", "slow*4"]
    );
    assert_eq!(slots("use = [\"hostfile:hosts.txt\"]"), ["lab1*3", "slow*1"]);
}

#[test]
fn an_inventory_says_how_a_machine_is_reached() {
    let found = nodes("inventory = \"nodes.toml\"\nuse = [\"fast2\"]");
    assert_eq!(found[0].access, Access::Ssh { login: "me@10.0.0.2".into(), port: Some(2222) });
    assert_eq!(found[0].cores, Some(4));
}

#[test]
fn the_hosts_of_an_allocation_have_its_processors() {
    let text = recipe(&["[nodes]\nuse = [\"slurm\"]"]);
    let desk = Desk::with(&text);
    let machine = MACHINE.inside("n[1-2]", "2,4");
    let plan = recipe::plan(&desk, &PlanRequest::new(Path::new("recipe.toml")), &machine).expect("a plan");
    let nodes = &plan.cells[0].spec.cluster.nodes;
    let told: Vec<_> = nodes.iter().map(|node| (node.name.as_str(), node.slots, node.cores)).collect();
    assert_eq!(told, [("n1", 2, Some(2)), ("n2", 4, Some(4))]);
    assert_eq!(nodes[1].access, Access::Slurm { host: "n2".into() });
}

#[test]
fn the_hosts_of_an_allocation_have_what_the_inventory_says_of_them() {
    let text = recipe(&["[nodes]\nuse = [\"slurm\"]\ninventory = \"nodes.toml\""]);
    let desk = Desk::with(&text).and("nodes.toml", INVENTORY);
    let machine = MACHINE.inside("fast2,other", "8,2");
    let plan = recipe::plan(&desk, &PlanRequest::new(Path::new("recipe.toml")), &machine).expect("a plan");
    let nodes = &plan.cells[0].spec.cluster.nodes;
    let told: Vec<_> = nodes.iter().map(|node| (node.name.as_str(), node.cores, &node.access)).collect();
    let slurm = ["fast2", "other"].map(|host| Access::Slurm { host: host.into() });
    assert_eq!(told, [("fast2", Some(4), &slurm[0]), ("other", Some(2), &slurm[1])]);
}

fn in_a_queue(nodes: &str) -> Result<Plan, String> {
    let desk = Desk::with(&recipe(&[&format!("[nodes]\n{nodes}")]));
    let machine = MACHINE.inside("n[1-2]", "2,4").in_front_of_a_queue();
    let plan = recipe::plan(&desk, &PlanRequest::new(Path::new("recipe.toml")), &machine);
    plan.map_err(|problems| problems.render(recipe::Colours::None, 100))
}

#[test]
fn a_job_has_as_many_hosts_as_its_workers_need() {
    let plan = in_a_queue("use = [\"slurm*2\"]\nworkers = 5").expect("a plan");
    let cluster = &plan.cells[0].spec.cluster;
    let names: Vec<&str> = cluster.nodes.iter().map(|node| node.name.as_str()).collect();
    assert_eq!((names, cluster.workers(), cluster.machines()), (vec!["slurm-1", "slurm-2", "slurm-3"], 5, 3));
    assert!(plan.expanded.contains("slurm*2"), "{}", plan.expanded);
    assert!(in_a_queue("use = [\"local*2\"]").expect("a plan").cells[0].spec.cluster.all_local());
}

#[test]
fn what_no_job_can_have_is_refused() {
    for (nodes, words) in [
        ("use = [\"slurm\"]\nworkers = 2", "how many workers each host of a job has is not known"),
        ("use = [\"slurm*2\"]", "how many hosts a job needs is not known without `nodes.workers`"),
        ("use = [\"lab1*2\"]", "a job of the queue does not have the machine `lab1`"),
        ("use = [\"local*2\", \"slurm*2\"]\nworkers = 4", "no machine but those that the queue gives it"),
    ] {
        let said = in_a_queue(nodes).expect_err("no plan");
        assert!(said.contains("R021") && said.contains(words) && said.contains("cure"), "{said}");
    }
}

/// Hosts are connected once for all runs, and a job's are not known before.
#[test]
fn descriptions_that_cannot_be_followed_are_refused() {
    let said = |nodes: &str, more: &[&str]| {
        let nodes = format!("[nodes]\n{nodes}");
        let text = recipe(&[&[nodes.as_str()], more].concat());
        let desk = Desk::with(&text)
            .and("nodes.toml", "[a]\nhost = \"lab1\"\nslots = 2\n[local]\nslots = 4\n")
            .and(
                "other.toml",
                "[a]\nhost = \"lab2\"\nslots = 2\n[local]\nslots = 4\nworker = \"/opt/worker\"\n",
            )
            .and("wider.toml", "[a]\nhost = \"lab1\"\nslots = 3\n");
        desk.plan()
            .map(|plan| plan.cells.len())
            .map_err(|problems| problems.render(recipe::Colours::None, 100))
    };
    let axis = |values: &str| format!("[sweep.axes]\nnodes.inventory = [{values}]");
    let twice =
        said("use = [\"a\"]\nworkers = 2", &[&axis("\"nodes.toml\", \"other.toml\"")]).expect_err("no plan");
    assert!(twice.contains("R022") && twice.contains("the machine `a` is described in two ways"), "{twice}");
    said("use = [\"a\"]\nworkers = 2", &[&axis("\"nodes.toml\", \"wider.toml\"")]).expect("one description");
    said("use = [\"a\"]\ninventory = \"nodes.toml\"", &[]).expect("a plan");
    said("use = [\"local*2\"]\ninventory = \"nodes.toml\"", &[]).expect("a plan");
    let here = said("use = [\"local*2\"]\ninventory = \"other.toml\"", &[]).expect_err("no plan");
    assert!(here.contains("R022") && here.contains("`worker` of this machine has no effect"), "{here}");
    said("use = [\"local*2\", \"a\"]\ninventory = \"other.toml\"", &[])
        .expect("it is used beside another machine");
    let both = "[sweep.axes]\nnodes.use = [[\"local*2\"], [\"local*1\", \"a*1\"]]";
    said("inventory = \"other.toml\"", &[both]).expect("one of them uses it");
    let queued =
        in_a_queue("use = [\"slurm*2\"]\nworkers = 4\ninventory = \"nodes.toml\"").expect_err("no plan");
    assert!(queued.contains("R022") && queued.contains("is known when it begins"), "{queued}");
}

/// The inventory's device of a machine comes before the recipe's; servers stay on processors.
#[test]
fn workers_have_the_device_of_the_inventory_or_of_the_recipe() {
    let planned = |device: &str, machines: &str| {
        let nodes = format!("[nodes]\ninventory = \"nodes.toml\"\nuse = [\"a*2\", \"b*2\"]\n{device}");
        let text = recipe(&[&nodes, "[[strategy]]\nkind = \"ps-sync\""]);
        Desk::with(&text).and("nodes.toml", machines).plan().expect("a plan")
    };
    let gpus = |device: &str, machines: &str| {
        let cluster = planned(device, machines).cells[0].spec.cluster.clone();
        (0..cluster.placements.len()).map(|rank| cluster.gpu(rank)).collect::<Vec<_>>()
    };
    let bare = "[a]\n[b]\n";
    assert_eq!(gpus("", bare), [None; 5]);
    assert_eq!(gpus("device = \"cuda\"", bare), [Some(0), Some(1), Some(0), Some(1), None]);
    assert_eq!(gpus("device = \"cuda:1\"", bare), [Some(1), Some(1), Some(1), Some(1), None]);
    let other = "[a]\ndevice = \"cpu\"\n[b]\n";
    assert_eq!(gpus("device = \"cuda\"", other), [None, None, Some(0), Some(1), None]);
    assert_eq!(
        planned("device = \"cuda\"", other).placements(),
        ["a workers 0-1 and server 4, b workers 2-3 (cuda:0 to cuda:1)"]
    );
    assert_eq!(planned("workers = 3", bare).placements(), ["a workers 0-1 and server 3, b worker 2"]);
}

/// Every cell is priced by the machines that have its ranks: two workers and a server fit on the first.
#[test]
fn machines_have_the_price_of_the_inventory_or_of_the_recipe() {
    let prices = |nodes: &str, inventory: &str| {
        let text = recipe(&[&format!("[nodes]\ninventory = \"nodes.toml\"\n{nodes}")]);
        let plan = Desk::with(&text).and("nodes.toml", inventory).plan().expect("a plan");
        plan.report.prices
    };
    let machines = "[fast]\nslots = 2\nprice = 3\n\n[slow]\nslots = 2\n";
    let found = prices("use = [\"fast\", \"slow\"]\nprice = 0.5\ncurrency = \" EUR \"", machines);
    assert_eq!((found.currency.as_str(), found.of(0), found.of(99)), ("EUR", Some(3.5), None));
    assert_eq!(prices("use = [\"fast\", \"slow\"]\nworkers = 2", machines).of(0), Some(3.0));
    assert_eq!(prices("use = [\"fast\", \"slow\"]", machines), recipe::Prices::default());
}

#[test]
fn a_price_changes_no_run() {
    let cells = |nodes: &str| planned(nodes).cells;
    assert_eq!(cells("use = [\"lab1\"]"), cells("use = [\"lab1\"]\nprice = 7.5\ncurrency = \"EUR\""));
    let text = "use = [\"fast1\"]\ninventory = \"nodes.toml\"";
    let priced = Desk::with(&recipe(&[&format!("[nodes]\n{text}")]))
        .and("nodes.toml", &INVENTORY.replace("cores = 8", "cores = 8\nprice = 2"))
        .plan()
        .expect("a plan");
    assert_eq!(cells(text), priced.cells);
    assert!(priced.report.prices.of(0) == Some(2.0) && planned(text).report.prices.is_none());
}

/// Ranks fill the machines in order, the servers go to the named one, and each worker has the threads that the fullest leaves.
#[test]
fn the_fullest_machine_decides_the_threads_of_all() {
    let plan = planned("inventory = \"nodes.toml\"\nuse = [\"fast1\", \"fast2\"]\nserver = \"fast2\"");
    let server = plan.cells.iter().find(|cell| cell.spec.cluster.ranks() == 5).expect("ps-sync");
    let places: Vec<u32> = server.spec.cluster.placements.iter().map(|placement| placement.node).collect();
    assert_eq!(places, [0, 0, 1, 1, 1]);
    // fast2 has four cores for two workers and a server; the evaluator has this machine for itself.
    let threads = Threads { worker: 1, evaluator: 4, evaluate_at_once: true };
    assert!(plan.cells.iter().all(|cell| cell.spec.threads == threads), "{:?}", plan.cells[0].spec.threads);
    let plan = planned("inventory = \"nodes.toml\"\nuse = [\"fast1\", \"fast2\"]");
    assert_eq!(plan.cells[0].spec.threads.worker, 2);
}

#[test]
fn a_recipe_that_stays_here_keeps_its_identity() {
    let before = "\"cluster\":{\"nodes\":[{\"name\":\"local\",\"slots\":4}],\"seats\":[";
    assert!(planned("use = [\"local*4\"]").cells[0].spec.canonical().contains(before));
}

#[test]
fn the_expanded_recipe_names_every_machine_with_its_slots() {
    let plan = planned("use = [\"hostfile:hosts.txt\", \"local\"]");
    assert!(plan.expanded.contains("use = [\"lab1*3\", \"slow*1\", \"local*4\"]"), "{}", plan.expanded);
}
