//! Names of hosts and arms on pages that do not show their own: `host-1`, `arm-1`, by first appearance, so that pages
//! of one site agree.

use recipe::{AxisValue, Plan, StrategyKind};
use std::collections::{BTreeMap, BTreeSet};
use store::{NodeRow, SweepRows};

/// A name and its replacement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alias {
    /// As it is in the store.
    pub name: String,
    /// As pages show it.
    pub shown: String,
}

/// The names of all sweeps of a site. Sweeps are added from the oldest to the newest, so that a new one changes no earlier page.
#[derive(Clone, Debug, Default)]
pub struct Aliases {
    hosts: BTreeMap<String, usize>,
    host_count: usize,
    arms: BTreeMap<String, usize>,
}

/// Whether a name of a machine tells anything about it.
pub(crate) fn is_secret(name: &str) -> bool {
    !name.is_empty() && name != "local" && name != "localhost"
}

impl Aliases {
    /// Adds the names of a sweep: of its machines, of those that its plan names, and of its arms.
    pub fn add(&mut self, rows: &SweepRows) {
        for node in &rows.nodes {
            let number = self.number(node).unwrap_or_else(|| self.next());
            self.hosts.entry(node.host.clone()).or_insert(number);
            if is_secret(&node.name) {
                self.hosts.entry(node.name.clone()).or_insert(number);
            }
        }
        // A machine that no run has reached yet is known from the plan alone.
        let nodes = rows.plan.cells.iter().flat_map(|cell| &cell.spec.cluster.nodes);
        let planned: BTreeSet<String> = nodes.flat_map(recipe::Node::host_words).collect();
        for name in planned.into_iter().filter(|name| is_secret(name)) {
            if !self.hosts.contains_key(&name) {
                let number = self.next();
                self.hosts.insert(name, number);
            }
        }
        for (place, arm) in rows.plan.arms.iter().enumerate() {
            let number = self.arms.len() + 1;
            let own = own_name(&arm.name, &axes_of(&rows.plan, place));
            if !is_called_like_its_strategy(&own) {
                self.arms.entry(own).or_insert(number);
            }
        }
    }

    fn next(&mut self) -> usize {
        self.host_count += 1;
        self.host_count
    }

    /// The number of a machine, once it was added.
    pub(crate) fn number(&self, node: &NodeRow) -> Option<usize> {
        self.hosts.get(&node.host).or_else(|| self.hosts.get(&node.name)).copied()
    }

    /// Machines, longest name first, so that no name is cut by one it contains.
    pub fn hosts(&self) -> Vec<Alias> {
        let secret = self.hosts.iter().filter(|(name, _)| is_secret(name));
        longest_first(
            secret.map(|(name, number)| Alias { name: name.clone(), shown: format!("host-{number}") }),
        )
    }

    /// Arms with names of their own, longest first; one that is called like its strategy says no more than the recipe does.
    pub fn arms(&self) -> Vec<Alias> {
        let arms = self.arms.iter();
        longest_first(arms.map(|(name, number)| Alias { name: name.clone(), shown: format!("arm-{number}") }))
    }
}

fn longest_first(aliases: impl Iterator<Item = Alias>) -> Vec<Alias> {
    let mut aliases: Vec<Alias> = aliases.collect();
    aliases.sort_by_key(|alias| (std::cmp::Reverse(alias.name.len()), alias.name.clone()));
    aliases
}

/// The values of the axes of an arm's cells, as labels have them: `lr=0.1`, and with the whole path.
fn axes_of(plan: &Plan, arm: usize) -> BTreeSet<String> {
    let cells = plan.cells.iter().filter(|cell| cell.arm == arm);
    let values = cells.flat_map(|cell| &cell.axes);
    let both = |axis: &AxisValue| {
        [format!("{}={}", axis.short(), axis.text), format!("{}={}", axis.path, axis.text)]
    };
    values.flat_map(both).collect()
}

/// The name that the recipe gives to an arm, without the values of the axes that multiply it: it stands so in the recipe's text.
fn own_name(label: &str, axes: &BTreeSet<String>) -> String {
    let mut own = label;
    while let Some((before, _)) = own.rsplit_once(' ').filter(|(_, last)| axes.contains(*last)) {
        own = before;
    }
    own.to_owned()
}

fn is_called_like_its_strategy(name: &str) -> bool {
    StrategyKind::ALL.iter().any(|kind| kind.name() == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Sample;

    #[test]
    fn an_arm_that_axes_multiply_has_one_alias_for_its_own_name() {
        let mut rows = Sample::duel().rows();
        rows.plan.arms[0].name = "my secret lr=0.1".to_owned();
        rows.plan.arms[1].name = "my secret lr=0.2".to_owned();
        for cell in &mut rows.plan.cells {
            let text = if cell.arm == 0 { "0.1" } else { "0.2" };
            let path = "train.optimizer.lr".to_owned();
            cell.axes = vec![AxisValue { path, text: text.to_owned(), number: None }];
        }
        let mut aliases = Aliases::default();
        aliases.add(&rows);
        assert_eq!(aliases.arms(), [Alias { name: "my secret".into(), shown: "arm-1".into() }]);
        rows.plan.arms[0].name = "d-sync lr=0.1".to_owned();
        rows.plan.arms[1].name = "d-sync of mine".to_owned();
        let mut aliases = Aliases::default();
        aliases.add(&rows);
        assert_eq!(aliases.arms(), [Alias { name: "d-sync of mine".into(), shown: "arm-1".into() }]);
        // A word that only looks like an axis is a part of the name.
        rows.plan.arms[1].name = "top-k k=0.01 of <img src=x>".to_owned();
        let mut aliases = Aliases::default();
        aliases.add(&rows);
        assert_eq!(aliases.arms()[0].name, "top-k k=0.01 of <img src=x>");
    }
}
