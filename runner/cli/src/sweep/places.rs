//! Which machines runs have that are made at once: blocks of machines of one kind, one block for each repeat.
//!
//! Arms that are compared must have the same conditions. Runs that are under way together share no machine, and all arms of a repeat, which
//! are compared with each other, have the same block, so that a difference between machines cancels out in each pair. This machine is
//! shared by all runs, because it evaluates their models, so that a run with ranks here is made alone; one whose bytes travel through the
//! driver's connections, too.

use crate::environment::Environment;
use crate::exit::{Exit, Failure};
use crate::machines::{host_of, nodes_of};
use recipe::{Access, Cell, Node, Plan, Run, RunSpec, Tunnel};
use std::collections::BTreeSet;
use std::net::IpAddr;

/// Machines that a run keeps from others while it is under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Occupied {
    /// All machines, the driver's among them.
    Everything,
    /// The machines of these names.
    Machines(BTreeSet<String>),
    /// None that this driver knows of.
    Nothing,
}

impl Occupied {
    /// Whether two runs can be under way together.
    pub(super) fn is_apart_from(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Nothing, _) | (_, Self::Nothing) => true,
            (Self::Everything, _) | (_, Self::Everything) => false,
            (Self::Machines(own), Self::Machines(others)) => own.is_disjoint(others),
        }
    }
}

/// Blocks of machines for runs at once.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    most: usize,
    /// Machines of a block: as many as the largest run has.
    block: usize,
    /// Number of blocks that runs are spread over.
    blocks: usize,
}

impl Places {
    /// Blocks for at most this many runs at once.
    ///
    /// # Errors
    /// No two runs of the plan can be under way together without a machine that both have.
    pub(crate) fn of(plan: &Plan, most: usize) -> Result<Self, Failure> {
        let cells = || plan.cells.iter().filter(|cell| cell.excluded.is_none());
        let block = cells().map(machines_of).max().unwrap_or(1).max(1);
        let blocks = cells().map(|cell| cell.spec.cluster.nodes.len() / block).min().unwrap_or(1);
        // A repeat has one block; without rungs there are no more in use than repeats.
        let repeats = plan.runs.iter().map(|run| run.repeat as usize + 1).max().unwrap_or(1);
        let useful = if plan.search.is_some() { most } else { most.min(repeats) };
        let places = Self { most, block, blocks: blocks.clamp(1, useful.max(1)) };
        let mut kinds: Vec<Occupied> = Vec::new();
        for run in &plan.runs {
            let occupied = places.occupied(plan, run);
            if !kinds.contains(&occupied) {
                kinds.push(occupied);
            }
        }
        let any_apart =
            || (0..kinds.len()).any(|one| kinds[..one].iter().any(|other| other.is_apart_from(&kinds[one])));
        if most == 1 || any_apart() { Ok(places) } else { Err(Self::refusal(plan, block)) }
    }

    fn refusal(plan: &Plan, block: usize) -> Failure {
        let on_driver = plan.cells.iter().any(|cell| cell.excluded.is_none() && needs_the_driver(&cell.spec));
        let (what, cure) = if on_driver {
            (
                "no two runs can be made at once: a run with ranks on this machine, or with bytes that travel through it, is made alone, \
                 because this machine also evaluates the models of all runs"
                    .to_owned(),
                "name other machines in `nodes.use`, without `nodes.tunnel = \"ssh\"`; or leave out --jobs",
            )
        } else if plan.runs.iter().all(|run| run.repeat == 0) {
            (
                "no two runs can be made at once: all arms of a repeat are trained on the same machines, and there is one repeat"
                    .to_owned(),
                "raise `repeats.count`, or leave out --jobs",
            )
        } else {
            (
                format!(
                    "no two runs can be made at once: the largest has {block} of the machines in `nodes.use`, and runs that share one disturb \
                     what the other measures"
                ),
                "name more machines in `nodes.use` and keep `nodes.workers`, choose smaller cells with --only, or leave out --jobs",
            )
        };
        Failure::new(Exit::Usage, what).cure(cure)
    }

    /// The most runs under way.
    pub(super) fn most(&self) -> usize {
        self.most
    }

    /// The most blocks that are in use together.
    pub(crate) fn blocks(&self) -> usize {
        self.blocks
    }

    /// How far the machines of a run are from those of its cell, in the list of machines. Runs of a search's rung are spread by their
    /// cell: there are no pairs among them.
    fn offset(&self, plan: &Plan, run: &Run) -> usize {
        let number = if plan.is_of_a_rung(run.cell) { run.cell } else { run.repeat as usize };
        number % self.blocks * self.block
    }

    /// Specification of a run on the machines of its block.
    pub(super) fn placed(&self, plan: &Plan, run: &Run) -> RunSpec {
        let mut spec = plan.cells[run.cell].spec.clone();
        let offset = self.offset(plan, run) as u32;
        for placement in &mut spec.cluster.placements {
            placement.node += offset;
        }
        spec
    }

    /// The machines that a run keeps from others.
    pub(super) fn occupied(&self, plan: &Plan, run: &Run) -> Occupied {
        let spec = self.placed(plan, run);
        if needs_the_driver(&spec) {
            return Occupied::Everything;
        }
        let placements = spec.cluster.placements.iter();
        let hosts =
            placements.filter_map(|placement| spec.cluster.nodes.get(placement.node as usize)).map(host_of);
        Occupied::Machines(hosts.collect())
    }

    /// All machines that runs of a plan have, each once.
    pub(crate) fn machines(&self, plan: &Plan) -> Vec<Node> {
        let mut found = nodes_of(plan);
        for run in &plan.runs {
            let spec = self.placed(plan, run);
            for placement in &spec.cluster.placements {
                let Some(node) = spec.cluster.nodes.get(placement.node as usize) else { continue };
                if !found.iter().any(|other| other.name == node.name) {
                    found.push(node.clone());
                }
            }
        }
        found
    }

    /// Refuses blocks of different machines: the same run would be another one on each of them.
    ///
    /// # Errors
    /// The first two machines that take each other's place and differ.
    pub(crate) fn check_kinds(&self, plan: &Plan, environment: &Environment) -> Result<(), Failure> {
        let kind = |node: &Node| {
            let facts = environment.facts(node).map(|facts| launch::hardware([(node, facts)]));
            let worker = environment.machines.worker_identity(node).map(str::to_owned);
            let Node { slots, cores, device, environment, .. } = node.clone();
            (facts, worker, slots, cores, device, environment)
        };
        for run in &plan.runs {
            let own = &plan.cells[run.cell].spec.cluster;
            let placed = self.placed(plan, run).cluster;
            for (here, there) in own.placements.iter().zip(&placed.placements) {
                let (Some(first), Some(other)) =
                    (own.nodes.get(here.node as usize), own.nodes.get(there.node as usize))
                else {
                    continue;
                };
                if kind(first) != kind(other) {
                    let words = |node: &Node| {
                        let (facts, worker, ..) = kind(node);
                        let worker = worker.map_or_else(String::new, |worker| {
                            format!(", worker {}", worker.get(..8).unwrap_or(&worker))
                        });
                        facts.unwrap_or_else(|| "unknown".to_owned()) + &worker
                    };
                    return Err(Failure::new(
                        Exit::Preflight,
                        format!(
                            "{} and {} are not alike, so that runs on one cannot be compared with runs on the other: {}; {}",
                            first.name,
                            other.name,
                            words(first),
                            words(other)
                        ),
                    )
                    .cure("name machines of one kind, with the same slots and device, in `nodes.use`; or leave out --jobs"));
                }
            }
        }
        Ok(())
    }
}

/// Number of machines from the first to the last that a cell's ranks are on.
fn machines_of(cell: &Cell) -> usize {
    cell.spec.cluster.placements.iter().map(|placement| placement.node as usize + 1).max().unwrap_or(1)
}

/// Whether ranks are on the driver's machine, or send through it.
fn needs_the_driver(spec: &RunSpec) -> bool {
    let cluster = &spec.cluster;
    let here = |node: Option<&Node>| {
        node.is_none_or(|node| node.access == Access::Local || is_loopback(&host_of(node)))
    };
    cluster.tunnel != Tunnel::None
        || cluster.placements.iter().any(|placement| here(cluster.nodes.get(placement.node as usize)))
}

/// Whether a name means this machine wherever it is used.
fn is_loopback(host: &str) -> bool {
    let address = host.parse().map(|address: IpAddr| address.is_loopback());
    address.unwrap_or_else(|_| host == "localhost" || host.starts_with("localhost."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::DiskFiles;
    use recipe::{Machine, PlanRequest};

    const RECIPE: &str = "schema = 1\nname = \"at-once\"\n[model]\nkind = \"softmax\"\n[dataset]\nkind = \"synthetic\"\ntrain = 200\n\
        test = 100\n[train]\nglobal-batch = 20\nsteps = 10\noptimizer = { kind = \"sgd\", lr = 0.05 }\n[[strategy]]\nkind = \"d-sync\"\n\
        [[strategy]]\nkind = \"ps-sync\"\n[repeats]\ncount = 3\n[nodes]\n";

    fn plan(nodes: &str) -> Plan {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("recipe.toml");
        std::fs::write(&path, format!("{RECIPE}{nodes}")).unwrap();
        recipe::plan(&DiskFiles, &PlanRequest::new(&path), &Machine::new(2)).unwrap()
    }

    /// The machines of each repeat, the same for all arms.
    fn hosts(plan: &Plan, places: &Places) -> Vec<Vec<String>> {
        let of = |repeat: u32| {
            let runs = plan.runs.iter().filter(|run| run.repeat == repeat);
            let mut all: Vec<Occupied> = runs.map(|run| places.occupied(plan, run)).collect();
            all.dedup();
            let [Occupied::Machines(hosts)] = &all[..] else { panic!("{all:?}") };
            hosts.iter().cloned().collect()
        };
        (0..3).map(of).collect()
    }

    #[test]
    fn arms_of_a_repeat_have_the_same_machines_and_repeats_at_once_others() {
        let four = plan("use = [\"lab[1-4]*2\"]\nworkers = 4");
        let places = Places::of(&four, 2).unwrap();
        assert_eq!(hosts(&four, &places), [["lab1", "lab2"], ["lab3", "lab4"], ["lab1", "lab2"]]);
        let three = plan("use = [\"lab[1-3]*2\"]\nworkers = 2");
        let places = Places::of(&three, 9).unwrap();
        assert_eq!(hosts(&three, &places), [["lab1"], ["lab2"], ["lab3"]]);
        assert_eq!(places.machines(&three).len(), 3);
    }

    #[test]
    fn runs_that_would_share_a_machine_are_refused_with_the_cure() {
        for (nodes, words) in [
            ("use = [\"lab[1-3]*2\"]\nworkers = 4", "the largest has 2 of the machines"),
            ("use = [\"local*2\"]", "this machine also evaluates"),
            ("use = [\"localhost*2\"]\nworkers = 2", "this machine also evaluates"),
            ("use = [\"lab[1-2]*2\"]\nworkers = 2\ntunnel = \"ssh\"", "travel through it"),
        ] {
            let Err(Failure::Fault { exit, error, cure }) = Places::of(&plan(nodes), 2) else {
                panic!("{nodes}")
            };
            assert_eq!(exit, Exit::Usage);
            assert!(error.to_string().contains(words) && cure.unwrap().contains("--jobs"), "{error}");
        }
        assert!(Places::of(&plan("use = [\"local*2\"]"), 1).is_ok());
    }

    #[test]
    fn nothing_is_shared_but_what_no_run_occupies() {
        let on = |name: &str| Occupied::Machines([name.to_owned()].into());
        assert!(on("a").is_apart_from(&on("b")) && !on("a").is_apart_from(&on("a")));
        assert!(!Occupied::Everything.is_apart_from(&on("a")) && Occupied::Nothing.is_apart_from(&on("a")));
        assert!(!Occupied::Everything.is_apart_from(&Occupied::Everything));
    }
}
