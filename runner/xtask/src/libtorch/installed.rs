//! libtorch out of a PyTorch that Python already has: links, no copies, no download.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::{layout, python};
use crate::child::Child;

/// The library everything else hangs on.
const CPU_LIBRARY: &str = "libtorch_cpu.so";

/// A PyTorch as Python finds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PyTorch {
    /// The full version, such as `2.11.0+cu130`.
    pub(super) version: String,
    /// Folder of the package `torch`.
    pub(super) folder: PathBuf,
}

/// The PyTorch that `python3` would import, of whatever version.
pub(super) fn find() -> Option<PyTorch> {
    parse_location(&python::locate().ok()?)
}

fn parse_location(text: &str) -> Option<PyTorch> {
    let found: Value = serde_json::from_str(text).ok()?;
    let version = found["version"].as_str()?.to_owned();
    Some(PyTorch { version, folder: PathBuf::from(found["folder"].as_str()?) })
}

/// Fills `partial` with links to the package's headers and to the libraries that its CPU library loads.
///
/// The libraries find each other through paths relative to where they lie. The loader takes the place of the *link*
/// for that, so each one that the CPU library loads from the Python environment needs its link beside the others.
pub(super) fn link(pytorch: &PyTorch, partial: &Path) -> Result<()> {
    let cpu_library = pytorch.folder.join("lib").join(CPU_LIBRARY);
    let packages = pytorch.folder.parent().context("PyTorch lies in no folder of packages")?;
    let loaded = Child::new("ldd").argument(&cpu_library).read()?;
    let mut libraries = vec![(CPU_LIBRARY.to_owned(), cpu_library)];
    libraries.extend(from_packages(loaded_libraries(&loaded)?, packages));
    for (name, target) in libraries {
        make_link(&target, &partial.join("lib").join(name))?;
    }
    make_link(&pytorch.folder.join("include"), &partial.join("include"))?;
    layout::complete(partial, &pytorch.version)
}

fn make_link(target: &Path, link: &Path) -> Result<()> {
    let target = fs::canonicalize(target).with_context(|| format!("cannot find {}", target.display()))?;
    symlink(&target, link).with_context(|| format!("cannot link {} to {}", link.display(), target.display()))
}

/// The libraries that lie in the Python environment; the system's own need no link.
fn from_packages(libraries: Vec<(String, PathBuf)>, packages: &Path) -> Vec<(String, PathBuf)> {
    libraries
        .into_iter()
        .filter_map(|(name, path)| {
            let path = fs::canonicalize(path).ok()?;
            path.starts_with(packages).then_some((name, path))
        })
        .collect()
}

/// Parses the output of `ldd`: names and paths of the loaded libraries. A library that is not found is an error.
fn loaded_libraries(ldd: &str) -> Result<Vec<(String, PathBuf)>> {
    let mut libraries = Vec::new();
    for line in ldd.lines() {
        let Some((name, place)) = line.trim().split_once(" => ") else { continue };
        if place.starts_with("not found") {
            bail!("{CPU_LIBRARY} needs {name}, which is not there");
        }
        // The address in memory follows the path.
        let path = place.rsplit_once(" (").map_or(place, |(path, _)| path);
        libraries.push((name.to_owned(), PathBuf::from(path)));
    }
    Ok(libraries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations() {
        let found = parse_location(r#"{"folder": "/site-packages/torch", "version": "2.11.0+cu130"}"#);
        assert_eq!(
            found,
            Some(PyTorch { version: "2.11.0+cu130".into(), folder: "/site-packages/torch".into() })
        );
        for text in ["null\n", "", "{}", r#"{"folder": "/torch"}"#, "Traceback"] {
            assert_eq!(parse_location(text), None, "{text:?}");
        }
    }

    #[test]
    fn what_the_loader_says() {
        let ldd = "\tlinux-vdso.so.1 (0x00007ffd1a3f0000)\n\
                   \tlibc10.so => /venv/torch/lib/libc10.so (0x00007f0a1)\n\
                   \tlibcudart.so.13 => /venv/torch/lib/../../nvidia/cu13/lib/libcudart.so.13 (0x00007f0a2)\n\
                   \tlibm.so.6 => /lib/x86_64-linux-gnu/libm.so.6 (0x00007f0a3)\n\
                   \t/lib64/ld-linux-x86-64.so.2 (0x00007f0a4)\n";
        let expected = [
            ("libc10.so", "/venv/torch/lib/libc10.so"),
            ("libcudart.so.13", "/venv/torch/lib/../../nvidia/cu13/lib/libcudart.so.13"),
            ("libm.so.6", "/lib/x86_64-linux-gnu/libm.so.6"),
        ]
        .map(|(name, path)| (name.to_owned(), PathBuf::from(path)));
        assert_eq!(loaded_libraries(ldd).expect("all found"), expected);
        let error = loaded_libraries("\tlibcupti.so.13 => not found\n").expect_err("one is missing");
        assert!(error.to_string().contains("libcupti.so.13"));
    }

    #[test]
    fn only_libraries_of_the_environment_are_linked() {
        let scratch = tempfile::tempdir().expect("a folder");
        let packages = fs::canonicalize(scratch.path()).expect("a real path");
        fs::create_dir_all(packages.join("torch/lib")).expect("folder made");
        fs::write(packages.join("torch/lib/libc10.so"), "").expect("written");
        let libraries = vec![
            ("libc10.so".to_owned(), packages.join("torch/../torch/lib/libc10.so")),
            ("sh".to_owned(), PathBuf::from("/bin/sh")),
        ];
        let expected = [("libc10.so".to_owned(), packages.join("torch/lib/libc10.so"))];
        assert_eq!(from_packages(libraries, &packages), expected);
    }
}
