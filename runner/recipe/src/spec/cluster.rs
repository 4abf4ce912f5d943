//! Which rank runs where.

use super::device::Device;
use super::node::{Access, Node, Tunnel};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The ranks of one run and their machines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cluster {
    /// The machines in use, in the order of the recipe.
    pub nodes: Vec<Node>,
    /// The ranks in order: workers first, then servers.
    #[serde(rename = "seats")]
    pub placements: Vec<Placement>,
    /// How bytes travel between machines.
    // Absent where it says nothing, so that earlier runs keep their identity.
    #[serde(default, skip_serializing_if = "Tunnel::is_none")]
    pub tunnel: Tunnel,
}

impl Cluster {
    /// Number of workers, at least 1.
    pub fn workers(&self) -> u32 {
        self.placements.iter().filter(|placement| placement.role == Role::Worker).count() as u32
    }

    /// Number of machines on which workers run.
    pub fn machines_of_workers(&self) -> usize {
        let workers = self.placements.iter().filter(|placement| placement.role == Role::Worker);
        workers.map(|placement| placement.node).collect::<BTreeSet<_>>().len()
    }

    /// Number of machines on which ranks run.
    pub fn machines(&self) -> usize {
        self.placements.iter().map(|placement| placement.node).collect::<BTreeSet<_>>().len()
    }

    /// The GPU that a rank computes on; `None` for the processors, which servers always take.
    pub fn gpu(&self, rank: usize) -> Option<u32> {
        let placement = self.placements.get(rank).filter(|placement| placement.role == Role::Worker)?;
        let node = self.nodes.get(placement.node as usize).filter(|node| node.device != Device::Cpu)?;
        let before = self.placements[..rank].iter().filter(|other| *other == placement).count() as u32;
        node.device.gpu(before)
    }

    /// The first machine on which workers compute on GPUs.
    pub fn with_gpus(&self) -> Option<&Node> {
        let workers = self.placements.iter().filter(|placement| placement.role == Role::Worker);
        let mut machines = workers.filter_map(|placement| self.nodes.get(placement.node as usize));
        machines.find(|node| node.device != Device::Cpu)
    }

    /// Whether all ranks run on the machine of the driver.
    pub fn all_local(&self) -> bool {
        let node = |placement: &Placement| self.nodes.get(placement.node as usize);
        self.placements.iter().filter_map(node).all(|node| node.access == Access::Local)
    }

    /// Number of ranks, servers included.
    pub fn ranks(&self) -> u32 {
        self.placements.len() as u32
    }
}

/// Where one rank runs, and what for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Placement {
    /// Part that the rank plays in training.
    pub role: Role,
    /// Machine of the rank, as an index into [`Cluster::nodes`].
    pub node: u32,
}

/// Part that a rank plays in training.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Computes gradients of batches of samples.
    Worker,
    /// Holds weights for workers, or adds their vectors.
    Server,
}

impl Role {
    /// The name in database and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Worker => "worker",
            Self::Server => "server",
        }
    }
}
