//! Facts about the machines of a cluster: for the record, and for the identity of runs.

use recipe::{Device, Node};
use serde::{Deserialize, Serialize};
use std::io;

const GIB: u64 = 1 << 30;

/// The variable that leaves a process some of a machine's GPUs, as queues of jobs set it: numbers or names with commas between them.
pub(crate) const VISIBLE_GPUS: &str = "CUDA_VISIBLE_DEVICES";

/// The facts about one machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeFacts {
    /// Name that the machine gives itself.
    pub host: String,
    /// Operating system and kernel.
    pub system: String,
    /// Model of the processor; `unknown` where the system does not say.
    pub processor: String,
    /// Models of GPUs; empty where there is none.
    pub gpus: String,
    /// Cores that a run may use.
    pub cores: u32,
    /// Memory that it may use, in bytes.
    pub memory: u64,
}

impl NodeFacts {
    /// The models of what the node's workers compute on.
    pub fn computes_on(&self, node: &Node) -> String {
        if node.device == Device::Cpu || self.gpus.is_empty() {
            return self.processor.clone();
        }
        format!("{}, {}", self.processor, self.gpus)
    }
}

/// Finds out what the machines of a cluster are.
pub trait Nodes {
    /// The facts about a node of a recipe.
    ///
    /// # Errors
    /// The node cannot be reached.
    fn facts(&self, node: &Node) -> io::Result<NodeFacts>;
}

/// The fingerprint of machines for the identity of runs: processors, GPUs where workers compute on them, cores and memory in
/// whole GiB, in the order of the machines. It has no host names: a run on an equal machine is the same run.
pub fn hardware<'a>(nodes: impl IntoIterator<Item = (&'a Node, &'a NodeFacts)>) -> String {
    let one = |(node, facts): (&Node, &NodeFacts)| {
        let memory = (facts.memory + GIB / 2) / GIB;
        format!("{}, {} cores, {memory} GiB", facts.computes_on(node), facts.cores)
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
            gpus: "GPU 7".into(),
            cores: 2,
            memory,
        };
        let node = Node::local(1);
        let one = facts("a", 15 * GIB + 3);
        let other = facts("b", 15 * GIB - 4096);
        let fingerprint = hardware([(&node, &one), (&node, &other)]);
        assert_eq!(fingerprint, "Core 9, 2 cores, 15 GiB; Core 9, 2 cores, 15 GiB");
        let on_gpus = Node { device: Device::GpuEach, ..node };
        assert_eq!(hardware([(&on_gpus, &one)]), "Core 9, GPU 7, 2 cores, 15 GiB");
    }
}
