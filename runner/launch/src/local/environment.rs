//! The environment variables of a worker: the plan's number of threads, and none of the caller's settings of the math
//! libraries.
//!
//! The number of threads of a matrix product and its kernels decide its speed and the bits of its sums. Neither may depend
//! on the variables of the shell that starts the driver, which are not part of a run's identity. `CUDA_VISIBLE_DEVICES` stays: a queue
//! sets it for a job, and the GPUs of a machine are those that it leaves.

use recipe::{Access, Cluster, Node};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;

/// Prefixes of the variables that OpenMP (of GCC and of LLVM), MKL, oneDNN, OpenBLAS, libtorch and the libraries of GPUs
/// read.
const READ: [&str; 13] = [
    "OMP_",
    "GOMP_",
    "KMP_",
    "MKL_",
    "DNNL_",
    "ONEDNN_",
    "OPENBLAS_",
    "GOTO_",
    "ATEN_",
    "CUBLAS_",
    "CUDNN_",
    "NVIDIA_TF32_",
    "TORCH_ALLOW_TF32_",
];

/// The variables that set the number of threads: threads on which libtorch was given no number, such as those of lanes,
/// read it there.
const THREADS: [&str; 3] = ["OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"];

/// The variables that allow fewer threads.
const FEWER: [&str; 2] = ["OMP_DYNAMIC", "MKL_DYNAMIC"];

/// Threads that wait for their part of the next operation give up their core at once, instead of spinning for some milliseconds. Where workers have one
/// thread each, only the evaluator has more; a core that they spin on is one that the driver, the rest of a run's start or the machine's other users lack.
const WAITING: &str = "OMP_WAIT_POLICY";

/// GPUs are counted in the order in which the driver lists them, and the sums of cuBLAS have one order, for which it needs work space
/// of this size.
const OF_GPUS: [(&str, &str); 2] =
    [("CUDA_DEVICE_ORDER", "PCI_BUS_ID"), ("CUBLAS_WORKSPACE_CONFIG", ":4096:8")];

/// The variable by which the dynamic linker finds libraries.
const LIBRARY_PATH: &str = "LD_LIBRARY_PATH";

/// The folder in which the dynamic linker looks before it looks where the program was built.
pub(crate) fn library_path(folder: Option<&PathBuf>) -> BTreeMap<String, String> {
    let variable = |folder: &PathBuf| (LIBRARY_PATH.to_owned(), folder.to_string_lossy().into_owned());
    folder.map(variable).into_iter().collect()
}

/// Adds the variables of an inventory to those of a worker; its folders of libraries come after those that belong to the worker.
pub(crate) fn add(own: &mut BTreeMap<String, String>, inventory: &BTreeMap<String, String>) {
    for (name, value) in inventory {
        let before = own.get(name).filter(|_| name == LIBRARY_PATH);
        let value = before.map_or_else(|| value.clone(), |before| format!("{before}:{value}"));
        own.insert(name.clone(), value);
    }
}

/// The variables that the inventory gives a worker that is on the node already.
pub(crate) fn of_node(node: &Node) -> BTreeMap<String, String> {
    let mut environment = library_path(node.libtorch.as_ref());
    add(&mut environment, &node.environment);
    environment
}

/// The variables that the inventory gives workers of this machine; none where no rank is on it.
pub(crate) fn of_local_node(cluster: &Cluster) -> BTreeMap<String, String> {
    cluster.nodes.iter().find(|node| node.access == Access::Local).map(of_node).unwrap_or_default()
}

/// Sets the variables of a process's libraries to `threads` threads, whatever this process's environment says.
pub(crate) fn settle(command: &mut Command, threads: u32) {
    for (name, _) in std::env::vars_os().filter(|(name, _)| is_read(name)) {
        command.env_remove(name);
    }
    for name in THREADS {
        command.env(name, threads.max(1).to_string());
    }
    for name in FEWER {
        command.env(name, "FALSE");
    }
    if threads <= 1 {
        command.env(WAITING, "PASSIVE");
    }
    command.envs(OF_GPUS);
}

fn is_read(name: &OsStr) -> bool {
    name.to_str().is_some_and(|name| READ.iter().any(|lead| name.starts_with(lead)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_libraries_of_an_inventory_come_after_the_workers_own() {
        let mut own = library_path(Some(&"/own".into()));
        let variable = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        add(&mut own, &[variable(LIBRARY_PATH, "/cuda"), variable("OMP_PROC_BIND", "true")].into());
        assert_eq!((own[LIBRARY_PATH].as_str(), own["OMP_PROC_BIND"].as_str()), ("/own:/cuda", "true"));
    }
}
