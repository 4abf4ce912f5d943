//! The environment variables of a worker: the plan's number of threads, and none of the caller's settings of the math
//! libraries.
//!
//! The number of threads of a matrix product and its kernels decide its speed and the bits of its sums. Neither may depend
//! on the variables of the shell that starts the driver, which are not part of a run's identity.

use std::ffi::OsStr;
use std::process::Command;

/// Prefixes of the variables that OpenMP (of GCC and of LLVM), MKL, oneDNN, OpenBLAS and libtorch read.
const READ: [&str; 9] = ["OMP_", "GOMP_", "KMP_", "MKL_", "DNNL_", "ONEDNN_", "OPENBLAS_", "GOTO_", "ATEN_"];

/// The variables that set the number of threads: threads on which libtorch was given no number, such as those of lanes,
/// read it there.
const THREADS: [&str; 3] = ["OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"];

/// The variables that allow fewer threads.
const FEWER: [&str; 2] = ["OMP_DYNAMIC", "MKL_DYNAMIC"];

/// Makes a process compute with `threads` threads, whatever this process's environment says.
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
}

fn is_read(name: &OsStr) -> bool {
    name.to_str().is_some_and(|name| READ.iter().any(|lead| name.starts_with(lead)))
}
