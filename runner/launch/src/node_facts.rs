//! Facts about the machines of a cluster: for the record, and for the identity of runs.

use serde::{Deserialize, Serialize};
use std::io;

const GIB: u64 = 1 << 30;

/// The facts about one machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeFacts {
    /// Host name.
    pub host: String,
    /// Operating system and kernel.
    pub system: String,
    /// Processor model, and those of graphics cards.
    pub processor: String,
    /// Cores that a run may use.
    pub cores: u32,
    /// Memory that it may use, in bytes.
    pub memory: u64,
}

/// Finds out what the machines of a cluster are.
pub trait Nodes {
    /// The facts about a node of a recipe.
    ///
    /// # Errors
    /// The node cannot be reached.
    fn facts(&self, node: &recipe::Node) -> io::Result<NodeFacts>;
}

/// The fingerprint of machines for the identity of runs: processors, cores and memory in whole GiB, in the order of the
/// machines. It has no host names: a run on an equal machine is the same run.
pub fn hardware<'a>(nodes: impl IntoIterator<Item = &'a NodeFacts>) -> String {
    let one = |node: &NodeFacts| {
        let memory = (node.memory + GIB / 2) / GIB;
        format!("{}, {} cores, {memory} GiB", node.processor, node.cores)
    };
    nodes.into_iter().map(one).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fingerprint_knows_the_machine_and_not_its_name() {
        let facts = |host: &str, memory| NodeFacts {
            host: host.into(),
            system: "Linux 6.1".into(),
            processor: "Core 9".into(),
            cores: 2,
            memory,
        };
        let fingerprint = hardware(&[facts("a", 15 * GIB + 3), facts("b", 15 * GIB - 4096)]);
        assert_eq!(fingerprint, "Core 9, 2 cores, 15 GiB; Core 9, 2 cores, 15 GiB");
    }
}
