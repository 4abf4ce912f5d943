//! Which rank runs where: workers fill the nodes in the order of the recipe, servers come after them.

use crate::files::Machine;
use crate::keys::lookup::{KeyId, id};
use crate::text::finding::Finding;
use crate::values::settings::Settings;
use crate::values::typed_key::{Defaulted, Optional};
use crate::{Cluster, Node, Placement, Role, Strategy};

pub(crate) const USE: KeyId = id("nodes.use");
pub(crate) const WORKERS: Optional<u64> = Optional::whole("nodes.workers");
pub(crate) const THREADS: Optional<u64> = Optional::whole("nodes.threads");
const SERVER: KeyId = id("nodes.server");
pub(crate) const SERVERS: Defaulted<u64> = Defaulted::whole("strategy.servers");

/// More slots than this on one node are a mistake.
const MOST_SLOTS: u32 = 65_536;

/// The ranks of a cell and their machines, and what is wrong about them.
pub(crate) fn cluster(settings: &Settings, strategy: &Strategy, machine: Machine) -> (Cluster, Vec<Finding>) {
    let mut findings = Vec::new();
    let nodes = nodes(settings, machine, &mut findings);
    let slots: u32 = nodes.iter().map(|node| node.slots).sum();
    let workers = WORKERS.of(settings).map_or(slots, |workers| workers as u32);
    if workers > slots && findings.is_empty() {
        findings.push(
            Finding::new("R107", format!("{workers} workers do not fit on the chosen nodes ({slots} slots)"))
                .at_option(settings.span(WORKERS), "too many")
                .at_option(settings.span(USE), format!("{slots} slots"))
                .cure(format!(
                    "raise the slots with `nodes.use = [\"local*{workers}\"]`, take fewer workers, or exclude \
                     with `when = \"nodes.workers == {workers}\"`"
                )),
        );
    }
    let mut seats = Vec::with_capacity(workers as usize + 1);
    for (index, node) in nodes.iter().enumerate() {
        let free = (workers as usize).saturating_sub(seats.len()).min(node.slots as usize);
        seats.extend((0..free).map(|_| Placement { role: Role::Worker, node: index as u32 }));
    }
    let server = server(settings, &nodes, &mut findings);
    let servers = if strategy.servers() == 0 { 0 } else { SERVERS.of(settings) };
    seats.extend((0..servers).map(|_| Placement { role: Role::Server, node: server }));
    (Cluster { nodes, seats }, findings)
}

/// Number of workers that fit on the chosen nodes.
pub(crate) fn slots(settings: &Settings, machine: Machine) -> u32 {
    nodes(settings, machine, &mut Vec::new()).iter().map(|node| node.slots).sum()
}

fn nodes(settings: &Settings, machine: Machine, findings: &mut Vec<Finding>) -> Vec<Node> {
    let mut nodes: Vec<Node> = Vec::new();
    let mut refuse = |finding: Finding| findings.push(finding.at_option(settings.span(USE), "this list"));
    for text in settings.list(USE) {
        let (name, count) = match text.split_once('*') {
            Some((name, count)) => (name.trim(), count.trim().parse::<u32>().ok()),
            None => (text.trim(), Some(machine.cores.max(1))),
        };
        let slots = count.filter(|slots| (1..=MOST_SLOTS).contains(slots));
        match (name, slots) {
            ("local", Some(slots)) => match nodes.iter_mut().find(|node| node.name == name) {
                Some(node) => node.slots = node.slots.saturating_add(slots).min(MOST_SLOTS),
                None => nodes.push(Node { name: name.to_owned(), slots }),
            },
            ("local", None) => refuse(
                Finding::new("R015", format!("`{}` says no number of workers", text.escape_debug()))
                    .cure("write `local*4`, or `local` for one worker per core"),
            ),
            _ => refuse(
                Finding::new("R020", format!("node `{}` is not in this version", name.escape_debug()))
                    .note("in this version: local, local*N")
                    .cure("run on this machine: `use = [\"local*4\"]`"),
            ),
        }
    }
    if settings.list(USE).is_empty() {
        refuse(Finding::new("R014", "`nodes.use` names no machine").cure("write `use = [\"local*2\"]`"));
    }
    if nodes.is_empty() {
        nodes.push(Node { name: "local".to_owned(), slots: 1 });
    }
    nodes
}

fn server(settings: &Settings, nodes: &[Node], findings: &mut Vec<Finding>) -> u32 {
    let name = settings.text(SERVER);
    if let Some(index) = nodes.iter().position(|node| node.name == name) {
        return index as u32;
    }
    findings.push(
        Finding::new("R020", format!("server node `{}` is not in this version", name.escape_debug()))
            .at_option(settings.span(SERVER), "only local")
            .cure("leave it out"),
    );
    0
}
