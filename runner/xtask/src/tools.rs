//! The tools that chores and tests use beyond Rust itself: found, or installed where that is ours to do.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use crate::child::Child;

/// The names under which distributions ship Chromium, and its sibling that does as well.
const CHROMIUM_NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/// The variable that names the browser to the tests, and to us if the user chose one.
pub(crate) const CHROMIUM_VARIABLE: &str = "BAKEOFF_CHROMIUM";

/// The variable that names OpenSSH's server to the tests.
pub(crate) const SSHD_VARIABLE: &str = "BAKEOFF_SSHD";

/// Whether a missing tool must fail the run instead of leaving tests out.
pub(crate) fn all_required() -> bool {
    std::env::var_os("BAKEOFF_REQUIRE_ALL").is_some_and(|value| value == "1")
}

/// Chromium: the user's choice, else one in `PATH`, else one installed by the system's package manager if we are root.
///
/// `Ok(None)` if there is none and installing is not allowed.
pub(crate) fn chromium() -> Result<Option<PathBuf>> {
    if let Some(chosen) = std::env::var_os(CHROMIUM_VARIABLE) {
        let chosen = PathBuf::from(chosen);
        if !is_program(&chosen) {
            bail!("{CHROMIUM_VARIABLE} names {}, which is not a program", chosen.display());
        }
        return Ok(Some(chosen));
    }
    if let Some(found) = find(&CHROMIUM_NAMES) {
        return Ok(Some(found));
    }
    install("chromium", "Chromium for the tests that open a page");
    Ok(find(&CHROMIUM_NAMES))
}

/// OpenSSH's server for the tests that start hosts of their own, found or installed in the same way.
pub(crate) fn sshd() -> Option<PathBuf> {
    let usual = || Some(PathBuf::from("/usr/sbin/sshd")).filter(|path| is_program(path));
    let found = || find(&["sshd"]).or_else(usual).filter(|_| find(&["ssh-keygen"]).is_some());
    found().or_else(|| {
        install("openssh-server", "OpenSSH's server for the tests that start hosts");
        found()
    })
}

/// Whether there is a Slurm for the test that starts one; found or installed in the same way.
pub(crate) fn slurm() -> bool {
    let found = || {
        ["slurmctld", "slurmd", "munged"].iter().all(|name| {
            let usual = PathBuf::from("/usr/sbin").join(name);
            find(&[*name]).is_some() || is_program(&usual)
        })
    };
    if !found() {
        install("slurmctld slurmd slurm-client munge", "Slurm for the test that starts one");
    }
    found()
}

/// Whether there is what the tests between network namespaces need; found or installed in the same way.
pub(crate) fn namespaces() -> bool {
    let found = || find(&["ip"]).is_some() && find(&["unshare"]).is_some();
    if !found() {
        install("iproute2 util-linux", "ip and unshare for the tests between network namespaces");
    }
    is_root() && found()
}

/// Installs packages of the system if we are root; what it is for is said.
fn install(packages: &str, purpose: &str) {
    if !is_root() || find(&["apt-get"]).is_none() {
        return;
    }
    println!("installing {purpose}");
    let installed = Child::new("apt-get").arguments(&["update"]).run().and_then(|()| {
        let words: Vec<&str> = ["install", "-y"].into_iter().chain(packages.split(' ')).collect();
        Child::new("apt-get").arguments(&words).run()
    });
    if let Err(error) = installed {
        println!("no {packages} from the system's packages: {error:#}");
    }
}

/// Whether Cargo knows `cargo nextest`.
pub(crate) fn has_nextest() -> bool {
    find(&["cargo-nextest"]).is_some()
}

/// Fails early, and in words, where the C++ part of the bindings could not be compiled.
pub(crate) fn require_cpp_compiler() -> Result<()> {
    if std::env::var_os("CXX").is_some() || find(&["c++"]).is_some() {
        return Ok(());
    }
    bail!(
        "no C++ compiler (`c++`) in PATH; install one, for example `apt-get install g++` on Debian or Ubuntu"
    )
}

fn is_root() -> bool {
    Child::new("id").argument("-u").read().is_ok_and(|user| user.trim() == "0")
}

fn find(names: &[&str]) -> Option<PathBuf> {
    find_in(std::env::var_os("PATH").as_deref()?, names)
}

/// The first of `names` that is a program in a folder of `path`; an earlier name wins over an earlier folder.
fn find_in(path: &OsStr, names: &[&str]) -> Option<PathBuf> {
    let folders: Vec<PathBuf> = std::env::split_paths(path).filter(|folder| folder.is_absolute()).collect();
    names
        .iter()
        .flat_map(|name| folders.iter().map(move |folder| folder.join(name)))
        .find(|path| is_program(path))
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_name_that_is_a_program_is_found() {
        let scratch = tempfile::tempdir().expect("a folder");
        let [one, two] = ["one", "two"].map(|name| scratch.path().join(name));
        let file = |path: &Path, mode: u32| {
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("folder");
            std::fs::write(path, "#!/bin/sh\n").expect("written");
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("mode set");
        };
        file(&one.join("chromium"), 0o644);
        file(&one.join("google-chrome"), 0o755);
        let path = std::env::join_paths([&one, &two]).expect("path");
        assert_eq!(find_in(&path, &CHROMIUM_NAMES), Some(one.join("google-chrome")));
        file(&two.join("chromium"), 0o755);
        assert_eq!(find_in(&path, &CHROMIUM_NAMES), Some(two.join("chromium")));
        assert_eq!(find_in(&path, &["cargo-nextest"]), None);
    }
}
