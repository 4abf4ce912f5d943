//! What the environment says to the libraries that compute: the plan's number of threads, and nothing of the caller's.
//!
//! How many threads a matrix product has, and which kernels it is made of, decides its speed and the bits of its sums.
//! Neither may depend on the variables of the shell that starts the driver: they are no part of a run's identity.

use std::ffi::OsStr;
use std::process::Command;

/// What begins the names that OpenMP (of GCC and of LLVM), MKL, oneDNN, OpenBLAS and libtorch read.
const READ: [&str; 9] = ["OMP_", "GOMP_", "KMP_", "MKL_", "DNNL_", "ONEDNN_", "OPENBLAS_", "GOTO_", "ATEN_"];

/// The names by which they learn how many threads there are: a thread that libtorch was not told on, as that of a lane,
/// takes the number from there.
const THREADS: [&str; 3] = ["OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"];

/// The names by which they may take fewer than they were told.
const FEWER: [&str; 2] = ["OMP_DYNAMIC", "MKL_DYNAMIC"];

/// Lets a process compute with `threads` threads, whatever the environment of this one says.
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
