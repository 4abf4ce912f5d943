//! The driver's own machine: its facts and its free resources.

use super::gpus::{self, gpus};
use crate::{FreeResources, LaunchError, NodeFacts, Nodes};
use std::io;
use std::path::Path;
use std::thread;
use sysinfo::{CpuRefreshKind, MemoryRefreshKind, RefreshKind, System};

/// A cluster of which every node is the driver's machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct LocalNodes;

impl Nodes for LocalNodes {
    fn facts(&self, _: &recipe::Node) -> io::Result<NodeFacts> {
        Ok(facts())
    }
}

/// The facts about this machine; `unknown` for those that it does not report.
fn facts() -> NodeFacts {
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
        gpus: gpus::words(&gpus().unwrap_or_default()),
        cores: cores(),
        memory: memory().total,
    }
}

/// The resources that this machine has free, with the disk that `store` is or will be on.
pub fn free_resources(store: &Path) -> Result<FreeResources, LaunchError> {
    let fault = |source: std::io::Error| LaunchError::File { path: store.into(), what: "read", source };
    let whole = std::path::absolute(store).map_err(fault)?;
    let existing = whole.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/"));
    let disk = rustix::fs::statvfs(existing).map_err(|error| fault(error.into()))?;
    let disk = disk.f_bavail.saturating_mul(disk.f_frsize);
    let gpus = gpus().map(|gpus| gpus.len() as u32);
    Ok(FreeResources { cores: cores(), memory: memory().available, disk, gpus })
}

/// Cores that the affinity mask and the control group allow.
fn cores() -> u32 {
    thread::available_parallelism().map_or(1, |cores| u32::try_from(cores.get()).unwrap_or(u32::MAX))
}

/// Memory in bytes, within the limits of the control group.
#[derive(Default)]
struct Memory {
    total: u64,
    available: u64,
}

fn memory() -> Memory {
    let kind = RefreshKind::nothing().with_memory(MemoryRefreshKind::nothing().with_ram());
    let Ok(system) = System::new_with_specifics(kind) else { return Memory::default() };
    let total = system.total_memory();
    let available = system.available_memory();
    match system.cgroup_limits() {
        Some(limits) if limits.total_memory > 0 => {
            Memory { total: total.min(limits.total_memory), available: available.min(limits.free_memory) }
        }
        Some(_) | None => Memory { total, available },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_something_to_offer() {
        let facts = LocalNodes.facts(&recipe::Node::local(1)).unwrap();
        assert!(facts.cores > 0 && facts.memory > 0, "{facts:?}");
        assert!(facts.system.contains("Linux") && !facts.host.is_empty(), "{facts:?}");
        let free = free_resources(Path::new("not/made/yet")).unwrap();
        assert!(free.memory > 0 && free.disk > 0 && free.memory <= facts.memory, "{free:?}");
    }
}
