//! What this machine is, for the record and for the identity of runs.

use crate::{LaunchError, Machine};
use std::path::Path;
use std::thread;
use sysinfo::{CpuRefreshKind, MemoryRefreshKind, RefreshKind, System};

const GIB: u64 = 1 << 30;

/// What a machine is.
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
    /// Memory that it may use, in bytes.
    pub memory: u64,
}

/// What this machine is; what it does not tell is `unknown`.
pub fn node_facts() -> NodeFacts {
    let cpu = RefreshKind::nothing().with_cpu(CpuRefreshKind::nothing());
    let processor = System::new_with_specifics(cpu).ok().and_then(|system| {
        let brand = system.cpus().first()?.brand().split_whitespace().collect::<Vec<_>>().join(" ");
        Some(brand).filter(|brand| !brand.is_empty())
    });
    let name = rustix::system::uname();
    let kernel = format!("{} {}", name.sysname().to_string_lossy(), name.release().to_string_lossy());
    let distribution = System::long_os_version().map_or_else(|_| String::new(), |name| format!("{name}, "));
    NodeFacts {
        host: name.nodename().to_string_lossy().into_owned(),
        system: format!("{distribution}{kernel}"),
        processor: processor.unwrap_or_else(|| "unknown".into()),
        cores: cores(),
        memory: memory().0,
    }
}

/// The fingerprint of machines for the identity of runs: processors, cores and memory in whole GiB, in the
/// order of the machines. No names: a run on an equal machine is the same run.
pub fn hardware(nodes: &[NodeFacts]) -> String {
    let one = |node: &NodeFacts| {
        let memory = (node.memory + GIB / 2) / GIB;
        format!("{}, {} cores, {memory} GiB", node.processor, node.cores)
    };
    nodes.iter().map(one).collect::<Vec<_>>().join("; ")
}

/// What this machine has to offer at the moment, with the disk that `store` is or will be on.
pub fn machine(store: &Path) -> Result<Machine, LaunchError> {
    let fault = |source: std::io::Error| LaunchError::File { path: store.into(), what: "read", source };
    let whole = std::path::absolute(store).map_err(fault)?;
    let existing = whole.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/"));
    let disk = rustix::fs::statvfs(existing).map_err(|error| fault(error.into()))?;
    let disk = disk.f_bavail.saturating_mul(disk.f_frsize);
    Ok(Machine { cores: cores(), memory: memory().1, disk })
}

/// Cores as the affinity mask and the control group allow.
fn cores() -> u32 {
    thread::available_parallelism().map_or(1, |cores| u32::try_from(cores.get()).unwrap_or(u32::MAX))
}

/// Memory in all and available, in bytes, as far as the control group allows.
fn memory() -> (u64, u64) {
    let kind = RefreshKind::nothing().with_memory(MemoryRefreshKind::nothing().with_ram());
    let Ok(system) = System::new_with_specifics(kind) else { return (0, 0) };
    let (total, available) = (system.total_memory(), system.available_memory());
    match system.cgroup_limits() {
        Some(limits) if limits.total_memory > 0 => {
            (total.min(limits.total_memory), available.min(limits.free_memory))
        }
        _ => (total, available),
    }
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

    #[test]
    fn this_machine_has_something_to_offer() {
        let facts = node_facts();
        assert!(facts.cores > 0 && facts.memory > 0, "{facts:?}");
        assert!(facts.system.contains("Linux") && !facts.host.is_empty(), "{facts:?}");
        let machine = machine(Path::new("not/made/yet")).unwrap();
        assert!(machine.memory > 0 && machine.disk > 0 && machine.memory <= facts.memory, "{machine:?}");
    }
}
