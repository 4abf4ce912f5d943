//! Which rank runs where: workers fill the nodes in the order of the recipe, servers come after them.

use crate::keys::lookup::{KeyId, id};
use crate::node_list::{NodeEntry, Wrong};
use crate::resolve::inventory::Known;
use crate::resolve::shared_keys::{COPY_DATA, SERVERS, USED_NODES, WORKERS};
use crate::text::finding::Finding;
use crate::values::settings::Settings;
use crate::values::typed_key::Defaulted;
use crate::{Cluster, Device, HostSettings, Node, Placement, PortRange, Role, Strategy, Tunnel};

const SERVER: KeyId = id("nodes.server");
const DEVICE: KeyId = id("nodes.device");
const PORTS: KeyId = id("nodes.ports");
const TUNNEL: Defaulted<Tunnel> = Defaulted::choice("nodes.tunnel");

/// More slots than this on one node are a mistake.
const MOST_SLOTS: u32 = 65_536;

/// The ranks of a cell and their machines, and their problems.
pub(crate) fn cluster(
    settings: &Settings,
    strategy: &Strategy,
    machine: Known<'_>,
) -> (Cluster, Vec<Finding>) {
    let mut findings = Vec::new();
    let nodes = nodes(settings, machine, &mut findings);
    let slots: u32 = nodes.iter().map(|node| node.slots).sum();
    let workers = WORKERS.of(settings).map_or(slots, |workers| workers as u32);
    if workers > slots && findings.is_empty() {
        findings.push(
            Finding::new("R107", format!("{workers} workers do not fit on the chosen nodes ({slots} slots)"))
                .at_option(settings.span(WORKERS), "too many")
                .at_option(settings.span(USED_NODES), format!("{slots} slots"))
                .cure(format!(
                    "raise the slots with `nodes.use = [\"local*{workers}\"]`, take fewer workers, or exclude \
                     with `when = \"nodes.workers == {workers}\"`"
                )),
        );
    }
    let mut placements = Vec::with_capacity(workers as usize + 1);
    for (index, node) in nodes.iter().enumerate() {
        let free = (workers as usize).saturating_sub(placements.len()).min(node.slots as usize);
        placements.extend((0..free).map(|_| Placement { role: Role::Worker, node: index as u32 }));
    }
    let server = server(settings, &nodes, &mut findings);
    let servers = if strategy.servers() == 0 { 0 } else { SERVERS.of(settings) };
    placements.extend((0..servers).map(|_| Placement { role: Role::Server, node: server }));
    findings.extend(unreadable_ports(settings));
    findings.extend(unreadable_device(settings));
    (Cluster { nodes, placements, tunnel: TUNNEL.of(settings) }, findings)
}

/// How the driver uses the machines.
pub(crate) fn hosts(settings: &Settings) -> HostSettings {
    HostSettings { ports: ports(settings.text(PORTS)), copy_data: COPY_DATA.of(settings) }
}

/// Reads `7000-7100`; `7000` is the first and the last.
fn ports(text: &str) -> Option<PortRange> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let first = first.trim().parse().ok()?;
    let last = last.trim().parse().ok()?;
    (0 < first && first <= last).then_some(PortRange { first, last })
}

fn unreadable_ports(settings: &Settings) -> Option<Finding> {
    let leaf = settings.given(PORTS)?;
    ports(settings.text(PORTS)).is_none().then(|| {
        Finding::new("R018", format!("`{}` is no range of ports", settings.text(PORTS).escape_debug()))
            .at_option(leaf.span, "the first and the last")
            .cure("write `ports = \"7000-7100\"`")
    })
}

/// Number of workers that fit on the chosen nodes; `None` where it is not known which they are.
pub(crate) fn slots(settings: &Settings, machine: Known<'_>) -> Option<u32> {
    let mut findings = Vec::new();
    let slots = nodes(settings, machine, &mut findings).iter().map(|node| node.slots).sum();
    findings.is_empty().then_some(slots)
}

fn nodes(settings: &Settings, machine: Known<'_>, findings: &mut Vec<Finding>) -> Vec<Node> {
    let mut nodes: Vec<Node> = Vec::new();
    let mut refused = Vec::new();
    let mut refuse =
        |finding: Finding| refused.push(finding.at_option(settings.span(USED_NODES), "this list"));
    for text in settings.list(USED_NODES) {
        let entry = match NodeEntry::read(text) {
            Ok(entry) => entry,
            Err(wrong) => {
                refuse(refusal(text, wrong));
                continue;
            }
        };
        for name in &entry.names {
            let named = machine.machines.named(name, entry.slots, settings);
            let one = || Ok(vec![machine.machines.one(name, entry.slots, settings)]);
            match named.unwrap_or_else(one) {
                Ok(found) => found.into_iter().for_each(|node| add(&mut nodes, node)),
                Err(finding) => refuse(finding),
            }
        }
    }
    if settings.list(USED_NODES).is_empty() {
        refuse(Finding::new("R014", "`nodes.use` names no machine").cure("write `use = [\"local*2\"]`"));
    }
    if let Some(finding) = machine.machines.outside_of_a_job(&nodes) {
        refuse(finding);
    }
    findings.extend(refused);
    findings.extend(machine.machines.finding(settings));
    if nodes.is_empty() {
        nodes.push(Node::local(1));
    }
    let device = device(settings).unwrap_or_default();
    for node in &mut nodes {
        node.device = machine.machines.device(&node.name, settings).unwrap_or(device);
    }
    nodes
}

/// Device of workers where the inventory states none; a reason where it cannot be read.
fn device(settings: &Settings) -> Result<Device, String> {
    settings.text(DEVICE).parse()
}

fn unreadable_device(settings: &Settings) -> Option<Finding> {
    let reason = device(settings).err()?;
    Some(
        Finding::new("R025", reason)
            .at_option(settings.span(DEVICE), "this device")
            .cure("write `device = \"cuda\"`, or leave it out for processors"),
    )
}

/// Adds a machine; the slots of one that is named twice add up.
fn add(nodes: &mut Vec<Node>, node: Node) {
    match nodes.iter_mut().find(|other| other.name == node.name) {
        Some(other) => other.slots = other.slots.saturating_add(node.slots).min(MOST_SLOTS),
        None => nodes.push(node),
    }
}

fn refusal(text: &str, wrong: Wrong) -> Finding {
    match wrong {
        Wrong::Slots => Finding::new("R015", format!("`{}` says no number of workers", text.escape_debug()))
            .cure("write `local*4`, or `local` for one worker per core"),
        Wrong::Name(name) => Finding::new(
            "R021",
            format!("`{}` is no name of a machine", name.escape_debug()),
        )
        .note("`local`, or what `ssh` is called with: `lab1`, `user@lab1`, `user@lab1:2222`, `lab[01-08]`")
        .cure("for anything else give the machine an alias in ~/.ssh/config, and write the alias"),
        Wrong::Range(name) => {
            Finding::new("R021", format!("`{}` is no range of machines", name.escape_debug()))
                .cure("write `lab[01-08]`, or `lab[1,3,5-7]`; at most 4,096 machines")
        }
    }
}

/// The list of machines with the number of slots of each, as a recipe has it that means the same on every machine.
pub(crate) fn written(settings: &Settings, machine: Known<'_>) -> Vec<String> {
    if machine.machines.are_queued_for() {
        // Hosts that are still to come have no names.
        return settings.list(USED_NODES).to_vec();
    }
    let nodes = nodes(settings, machine, &mut Vec::new());
    nodes.iter().map(|node| format!("{}*{}", node.name, node.slots)).collect()
}

fn server(settings: &Settings, nodes: &[Node], findings: &mut Vec<Finding>) -> u32 {
    let name = settings.text(SERVER);
    if settings.given(SERVER).is_none() {
        return 0;
    }
    if let Some(index) = nodes.iter().position(|node| node.name == name) {
        return index as u32;
    }
    findings.push(
        Finding::new(
            "R021",
            format!("the server's machine `{}` is not among the chosen ones", name.escape_debug()),
        )
        .at_option(settings.span(SERVER), "not in `nodes.use`")
        .cure("name a machine of `nodes.use`, or leave it out: then the first has the servers"),
    );
    0
}
