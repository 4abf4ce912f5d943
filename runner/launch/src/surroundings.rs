//! What the machine is.

/// What the machine is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeFacts {
    /// Host name.
    pub host: String,
    /// Operating system and kernel.
    pub system: String,
    /// Processor model.
    pub processor: String,
    /// Cores that this process may use.
    pub cores: u32,
    /// Memory, in bytes.
    pub memory: u64,
}

/// What this machine is.
pub fn node_facts() -> NodeFacts {
    NodeFacts { host: String::new(), system: String::new(), processor: String::new(), cores: 1, memory: 0 }
}

/// The fingerprint of machines for the identity of runs: processors, cores and memory in whole GiB; no names.
pub fn hardware(nodes: &[NodeFacts]) -> String {
    let _ = nodes;
    String::new()
}
