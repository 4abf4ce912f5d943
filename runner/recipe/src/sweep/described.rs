//! Descriptions of machines in inventories, over all cells of a plan.

use crate::resolve::shared_keys::INVENTORY;
use crate::sweep::recipe::Recipe;
use crate::text::finding::Finding;
use crate::{Access, Cell, Device, Node};
use std::collections::BTreeMap;

/// Descriptions that cannot be followed: of one machine in two ways, and of this one where nothing of it is used.
pub(crate) fn findings(recipe: &Recipe, cells: &[Cell]) -> Vec<Finding> {
    let kept = || cells.iter().filter(|cell| cell.excluded.is_none());
    let place = recipe.settings.span(INVENTORY);
    let is_alone = |cell: &Cell| cell.spec.cluster.nodes.iter().all(|node| node.access == Access::Local);
    let found = if kept().all(is_alone) {
        kept().find_map(without_effect)
    } else {
        described_twice(kept().filter(|cell| !is_alone(cell)))
    };
    found.into_iter().map(|finding| finding.at_option(place, "described here")).collect()
}

/// A machine is connected once for all runs that have hosts: a second description would not be looked at.
fn described_twice<'c>(cells: impl Iterator<Item = &'c Cell>) -> Option<Finding> {
    let mut known: BTreeMap<&str, &Node> = BTreeMap::new();
    for node in cells.flat_map(|cell| &cell.spec.cluster.nodes) {
        let first = known.entry(&node.name).or_insert(node);
        if reached(first) != reached(node) {
            let title = format!("the machine `{}` is described in two ways", node.name.escape_debug());
            return Some(
                Finding::new("R022", title)
                    .note("each machine is connected once for all runs of a sweep")
                    .cure("give the two a name each in the inventory, with the same `host` where it is one machine"),
            );
        }
    }
    None
}

/// The node without what may be another in each run: how many workers it takes, and what they compute on.
fn reached(node: &Node) -> Node {
    Node { slots: 0, cores: None, device: Device::Cpu, ..node.clone() }
}

/// Where all ranks are on this machine, they have its worker program and its data.
fn without_effect(cell: &Cell) -> Option<Finding> {
    let of = |node: &Node| {
        let said = [
            (node.worker.is_some(), "worker", "name another worker program by the variable BAKEOFF_WORKER"),
            (node.data.is_some(), "data", "name another folder by `dataset.path`"),
        ];
        said.into_iter().find(|(is_said, ..)| *is_said)
    };
    let (_, key, cure) = cell.spec.cluster.nodes.iter().find_map(of)?;
    let title = format!("`{key}` of this machine has no effect in runs without another machine");
    Some(Finding::new("R022", title).cure(format!("leave it out of the inventory's table [local]: {cure}")))
}
