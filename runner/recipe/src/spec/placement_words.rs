//! Which ranks run on which machine, in words.

use crate::{Cluster, Node, Plan, Role};

/// Placements that are named; of a sweep over many the first say how the rest goes.
const NAMED: usize = 6;

impl Cluster {
    /// The ranks of each machine: `lab1 workers 0-1 (cuda:0 to cuda:1), lab2 workers 2-3 and server 4`.
    fn placement(&self) -> String {
        let machine = |(index, node): (usize, &Node)| {
            let ranks = |role| {
                let there = self.placements.iter().enumerate();
                let there = there
                    .filter(move |(_, placement)| placement.role == role && placement.node as usize == index);
                there.map(|(rank, _)| rank).collect::<Vec<_>>()
            };
            let workers = ranks(Role::Worker);
            let servers = ranks(Role::Server);
            let mut parts = Vec::new();
            if !workers.is_empty() {
                parts.push(format!("{}{}", numbered("worker", &workers), self.gpus_in_words(&workers)));
            }
            if !servers.is_empty() {
                parts.push(numbered("server", &servers));
            }
            (!parts.is_empty()).then(|| format!("{} {}", node.name, parts.join(" and ")))
        };
        self.nodes.iter().enumerate().filter_map(machine).collect::<Vec<_>>().join(", ")
    }

    fn gpus_in_words(&self, workers: &[usize]) -> String {
        let mut gpus: Vec<u32> = workers.iter().filter_map(|rank| self.gpu(*rank)).collect();
        gpus.dedup();
        match (gpus.first(), gpus.last()) {
            (Some(first), Some(last)) if first == last => format!(" (cuda:{first})"),
            (Some(first), Some(last)) => format!(" (cuda:{first} to cuda:{last})"),
            _ => String::new(),
        }
    }
}

/// Ranks follow each other on a machine.
fn numbered(role: &str, ranks: &[usize]) -> String {
    match ranks {
        [first, .., last] => format!("{role}s {first}-{last}"),
        [one] => format!("{role} {one}"),
        [] => String::new(),
    }
}

impl Plan {
    /// Where the ranks of all cells run, each placement once; empty where all compute on the processors of the driver's machine.
    pub fn placements(&self) -> Vec<String> {
        let mut all: Vec<String> = Vec::new();
        for cell in self.cells.iter().filter(|cell| cell.excluded.is_none()) {
            let cluster = &cell.spec.cluster;
            if !cluster.all_local() || cluster.with_gpus().is_some() {
                let words = cluster.placement();
                if !all.contains(&words) {
                    all.push(words);
                }
            }
        }
        let more = all.len().saturating_sub(NAMED);
        all.truncate(NAMED);
        all.extend((more > 0).then(|| format!("and {more} more placements")));
        all
    }
}
