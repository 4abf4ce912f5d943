//! The files that a worker program needs on a host which has none of them.

use crate::LaunchError;
use crate::channel::CachedFile;
use crate::digest::digest;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Folders whose libraries belong to the system: every host has its own.
const SYSTEM: [&str; 6] = ["/lib/", "/lib64/", "/usr/lib/", "/usr/lib64/", "/lib32/", "/usr/lib32/"];

/// A file of this machine, as a cache holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LocalFile {
    pub(super) path: PathBuf,
    pub(super) file: CachedFile,
}

/// Use of a file on the host: to be executed, or to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileUse {
    Program,
    Data,
}

/// The worker program, and the libraries that the dynamic linker finds for it outside of the system's folders.
pub(super) fn worker_files(worker: &Path) -> Result<Vec<LocalFile>, LaunchError> {
    let fault = |source| LaunchError::WorkerStart { path: worker.into(), source };
    let traced = Command::new(worker).env("LD_TRACE_LOADED_OBJECTS", "1").output().map_err(fault)?;
    let text = String::from_utf8_lossy(&traced.stdout);
    let mut files = vec![local(worker, FileUse::Program)?];
    for path in outside(&text) {
        files.push(local(&path, FileUse::Data)?);
    }
    Ok(files)
}

/// The paths of the libraries in the linker's list that are not the system's: lines like `libc10.so => /a/libc10.so (0x7f..)`.
fn outside(list: &str) -> Vec<PathBuf> {
    let path = |line: &str| {
        let (_, found) = line.split_once(" => ")?;
        let path = found.rsplit_once(" (").map_or(found, |(path, _)| path).trim();
        (path.starts_with('/') && !SYSTEM.iter().any(|folder| path.starts_with(folder)))
            .then(|| PathBuf::from(path))
    };
    list.lines().filter_map(path).collect()
}

/// A file with its digest.
pub(super) fn local(path: &Path, used_as: FileUse) -> Result<LocalFile, LaunchError> {
    let fault = |source| LaunchError::File { path: path.into(), what: "read", source };
    let size = std::fs::metadata(path).map_err(fault)?.len();
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let sha256 = digest(path).map_err(fault)?;
    let program = used_as == FileUse::Program;
    Ok(LocalFile { path: path.into(), file: CachedFile { name, sha256, size, program } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_systems_libraries_stay_where_they_are() {
        let list = "\tlinux-vdso.so.1 (0x00007ffc)\n\
                    \tlibtorch_cpu.so => /opt/libtorch/lib/libtorch_cpu.so (0x00007f1)\n\
                    \tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f2)\n\
                    \tlibgone.so => not found\n\
                    \tlibgomp.so.1 => /home/a b/libgomp.so.1 (0x00007f3)\n\
                    \t/lib64/ld-linux-x86-64.so.2 (0x00007f4)\n";
        let expected = ["/opt/libtorch/lib/libtorch_cpu.so", "/home/a b/libgomp.so.1"];
        assert_eq!(outside(list), expected.map(PathBuf::from));
    }
}
