//! A machine, and how it is reached.

use crate::spec::device::Device;
use crate::spec::family::family;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

/// A machine that ranks of a run may use, and how the driver and other machines reach it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Node {
    /// Its name in the recipe; `local` is the driver's own.
    pub name: String,
    /// Number of workers that it has room for.
    pub slots: u32,
    /// How the driver reaches it.
    #[serde(default, skip_serializing_if = "Access::is_local")]
    pub access: Access,
    /// Cores that ranks may use; as many as slots where it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores: Option<u32>,
    /// Where the other machines reach it; without it, where the driver does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
    /// The folder of its data sets; without it, data lie where they lie on the driver's machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<PathBuf>,
    /// Its worker program; without it, the driver's is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<PathBuf>,
    /// The folder of libtorch's libraries; without it, the driver's are sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub libtorch: Option<PathBuf>,
    /// Device that its workers compute on.
    // Absent for the CPU, so that earlier runs keep their identity.
    #[serde(default, skip_serializing_if = "Device::is_cpu")]
    pub device: Device,
    /// Variables that its ranks get.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
}

/// How the driver reaches a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// It is the driver's own.
    #[default]
    Local,
    /// Through the user's `ssh`.
    Ssh {
        /// Destination that `ssh` is called with: a name, an alias, or `user@name`.
        login: String,
        /// Its port; without it, as `ssh` is configured.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        port: Option<u16>,
    },
    /// Through `srun` of the Slurm allocation that the driver runs in.
    Slurm {
        /// The host's name in Slurm.
        host: String,
    },
}

impl Access {
    fn is_local(&self) -> bool {
        *self == Self::Local
    }
}

impl Node {
    /// The words that say which machine it is: its name, what `ssh` is called with, its address. A login stands without its user.
    pub fn host_words(&self) -> Vec<String> {
        let host = |login: &str| {
            let host = login.rsplit_once('@').map_or(login, |(_, host)| host);
            host.split_once(':').map_or(host, |(host, _)| host).to_owned()
        };
        let reached = match &self.access {
            Access::Local => None,
            Access::Ssh { login, .. } => Some(host(login)),
            Access::Slurm { host } => Some(host.clone()),
        };
        let address = self.address.map(|address| address.to_string());
        [host(&self.name)].into_iter().chain(reached).chain(address).collect()
    }

    /// The driver's own machine with this number of slots.
    pub fn local(slots: u32) -> Self {
        Self {
            name: "local".to_owned(),
            slots,
            access: Access::Local,
            cores: None,
            address: None,
            data: None,
            worker: None,
            libtorch: None,
            device: Device::Cpu,
            environment: BTreeMap::new(),
        }
    }
}

family! {
    /// Whether bytes between ranks of different machines travel in a tunnel.
    #[derive(Default, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum Tunnel {
        #[default]
        None = "none": "They travel over TCP: authenticated at the beginning of each connection, not encrypted.",
        Ssh = "ssh": "They travel through the driver's `ssh` connections: encrypted, without any open port, and slower.",
    }
}

impl Tunnel {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is that of `serde`")]
    pub(crate) fn is_none(&self) -> bool {
        *self == Self::None
    }
}

/// A range of ports of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(u16, u16)", into = "(u16, u16)")]
pub struct PortRange {
    /// First port, at least 1.
    pub first: u16,
    /// Last port, included; at least `first`.
    pub last: u16,
}

impl From<(u16, u16)> for PortRange {
    fn from(stored: (u16, u16)) -> Self {
        Self { first: stored.0, last: stored.1 }
    }
}

impl From<PortRange> for (u16, u16) {
    fn from(range: PortRange) -> Self {
        (range.first, range.last)
    }
}

/// How the driver uses machines: no part of a run's identity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostSettings {
    /// The ports that doors may listen at; without them the system chooses.
    pub ports: Option<PortRange>,
    /// Whether data sets are copied to machines that lack them.
    pub copy_data: bool,
}
