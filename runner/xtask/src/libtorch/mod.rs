//! Installs libtorch 2.11.0 in the folder that Cargo is configured with.
//!
//! Whatever it comes from, it ends as one folder with `include/`, `lib/` and `build-version`, so that nothing else in
//! the build knows the source. The folder appears by one rename, when it is complete; a note in it says what a
//! complete one looks like, which makes the next call a matter of milliseconds.

mod archive;
mod installed;
mod layout;
mod note;
pub(crate) mod python;
mod wheels;

use std::fs::{self, File};
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::tools;
use crate::workspace::Workspace;

/// A place that libtorch can be brought from.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Source {
    /// A PyTorch of the right version that Python already has: links to its files.
    Installed(installed::PyTorch),
    /// The official archive for C++ programs.
    Archive,
    /// The official Python packages, without the parts for Python and for GPUs.
    Wheels,
}

impl Source {
    fn name(&self) -> String {
        match self {
            Self::Installed(pytorch) => {
                format!("PyTorch {} in {}", pytorch.version, pytorch.folder.display())
            }
            Self::Archive => "the official archive".to_owned(),
            Self::Wheels => "the official Python packages".to_owned(),
        }
    }

    fn bring(&self, partial: &Path) -> Result<()> {
        match self {
            Self::Installed(pytorch) => installed::link(pytorch, partial),
            Self::Archive => archive::bring(partial),
            Self::Wheels => wheels::bring(partial),
        }
    }
}

/// The sources worth trying, the cheapest first.
fn sources(installed: Option<installed::PyTorch>, machine: &str) -> Vec<Source> {
    let installed = installed.filter(|pytorch| layout::is_right_version(&pytorch.version));
    let mut sources: Vec<Source> = installed.map(Source::Installed).into_iter().collect();
    // The archive and the pinned packages exist for this machine only.
    if machine == "x86_64" {
        sources.extend([Source::Archive, Source::Wheels]);
    }
    sources
}

/// Ensures that there is a libtorch to build with, and prints its path.
pub(crate) fn ensure(workspace: &Workspace) -> Result<()> {
    let start = Instant::now();
    tools::require_cpp_compiler()?;
    let (how, folder) = if let Some(folder) = workspace.users_libtorch() {
        let version = inspect_users(folder).with_context(|| {
            format!("LIBTORCH={} is not usable; correct it or unset it", folder.display())
        })?;
        (format!("{version}, as LIBTORCH says"), folder.to_owned())
    } else {
        let own = workspace.own_libtorch();
        (ensure_own(workspace, &own)?, own)
    };
    println!("libtorch {how}: {} ({:.1} s)", folder.display(), start.elapsed().as_secs_f64());
    Ok(())
}

fn inspect_users(folder: &Path) -> Result<String> {
    // Each package's build script would look for a relative path from the package's own folder.
    if !folder.is_absolute() {
        bail!("the path must start with /");
    }
    layout::inspect(folder)
}

fn ensure_own(workspace: &Workspace, own: &Path) -> Result<String> {
    if let Some(how) = usable(own) {
        return Ok(how);
    }
    let lock_path = workspace.root().join("libtorch.lock");
    let lock = File::create(&lock_path).with_context(|| format!("cannot create {}", lock_path.display()))?;
    if lock.try_lock().is_err() {
        println!("waiting for another set-up in this tree to end");
        lock.lock().with_context(|| format!("cannot lock {}", lock_path.display()))?;
    }
    // The process that held the lock may have done the work.
    if let Some(how) = usable(own) {
        return Ok(how);
    }
    build(own, &workspace.root().join("libtorch.partial"))
}

/// The libtorch in the folder, if it can be used unchanged.
fn usable(own: &Path) -> Option<String> {
    match note::check(own) {
        note::Check::Complete { source } => Some(format!("{}, from {source}", layout::VERSION)),
        // We rename complete folders into place, so a folder without our note was put there by a person.
        note::Check::NoNote => layout::inspect(own).ok().map(|version| format!("{version}, found in place")),
        note::Check::Absent | note::Check::Damaged(_) => None,
    }
}

fn build(own: &Path, partial: &Path) -> Result<String> {
    if let note::Check::Damaged(what) = note::check(own) {
        println!("{} is damaged ({what}); setting it up again", own.display());
    }
    let sources = sources(installed::find(), std::env::consts::ARCH);
    let mut failures = Vec::new();
    for source in &sources {
        println!("libtorch {} from {}", layout::VERSION, source.name());
        match assemble(source, partial) {
            Ok(()) => {
                replace(own, partial)?;
                return Ok(format!("{}, from {}", layout::VERSION, source.name()));
            }
            Err(error) => {
                println!("  not from there: {error:#}");
                failures.push(format!("{}: {error:#}", source.name()));
            }
        }
    }
    bail!(
        "no libtorch {version} for this machine ({machine})\n  {tried}\nset LIBTORCH to an unpacked libtorch \
         {version}, or install PyTorch {version} for python3, and try again",
        version = layout::VERSION,
        machine = std::env::consts::ARCH,
        tried =
            if failures.is_empty() { "nothing is published for it".into() } else { failures.join("\n  ") },
    )
}

/// Fills `partial` from one source, up to the note that makes it complete.
fn assemble(source: &Source, partial: &Path) -> Result<()> {
    // Downloads of an interrupted set-up stay: they are checked before they are used.
    for left_over in ["include", "lib"] {
        remove_if_there(&partial.join(left_over))?;
    }
    fs::create_dir_all(partial.join("lib"))
        .with_context(|| format!("cannot create {}", partial.display()))?;
    source.bring(partial)?;
    layout::inspect(partial)?;
    for done_with in python::DOWNLOAD_FOLDERS {
        remove_if_there(&partial.join(done_with))?;
    }
    note::write(partial, &source.name())
}

fn replace(own: &Path, partial: &Path) -> Result<()> {
    remove_if_there(own)?;
    fs::rename(partial, own)
        .with_context(|| format!("cannot rename {} to {}", partial.display(), own.display()))
}

/// Removes a file or a folder; that there is none is fine.
pub(crate) fn remove_if_there(path: &Path) -> Result<()> {
    let Ok(metadata) = path.symlink_metadata() else { return Ok(()) };
    let removed = if metadata.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    removed.with_context(|| format!("cannot remove {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pytorch(version: &str) -> installed::PyTorch {
        installed::PyTorch { version: version.to_owned(), folder: "/site-packages/torch".into() }
    }

    #[test]
    fn sources_in_their_order() {
        let found = pytorch("2.11.0+cpu");
        for (installed, machine, expected) in [
            (None, "x86_64", vec![Source::Archive, Source::Wheels]),
            (Some(pytorch("2.10.1")), "x86_64", vec![Source::Archive, Source::Wheels]),
            (
                Some(found.clone()),
                "x86_64",
                vec![Source::Installed(found.clone()), Source::Archive, Source::Wheels],
            ),
            (Some(found.clone()), "aarch64", vec![Source::Installed(found.clone())]),
            (None, "aarch64", vec![]),
        ] {
            assert_eq!(sources(installed.clone(), machine), expected, "{installed:?} on {machine}");
        }
    }

    #[test]
    fn the_users_folder_is_looked_at_but_never_repaired() {
        let scratch = tempfile::tempdir().expect("a folder");
        let theirs = scratch.path().join("theirs");
        let workspace = Workspace::new(scratch.path(), Some(theirs.clone().into()));
        let error = format!("{:#}", ensure(&workspace).expect_err("not there"));
        assert!(error.starts_with("LIBTORCH=") && error.ends_with("is not a folder"), "{error}");
        assert!(!theirs.exists() && !workspace.own_libtorch().exists());
        layout::tests::fake(&theirs, "2.11.0");
        ensure(&workspace).expect("usable");
        assert!(!workspace.own_libtorch().exists());
        inspect_users(Path::new("libtorch")).expect_err("a relative path");
    }

    #[test]
    fn a_folder_that_a_person_made_is_used_and_a_broken_one_is_not() {
        let scratch = tempfile::tempdir().expect("a folder");
        let own = scratch.path().join("libtorch");
        assert_eq!(usable(&own), None);
        layout::tests::fake(&own, "2.11.0+cpu");
        assert_eq!(usable(&own).as_deref(), Some("2.11.0+cpu, found in place"));
        fs::remove_file(own.join("lib/libc10.so")).expect("removed");
        assert_eq!(usable(&own), None);
    }

    #[test]
    fn a_complete_folder_replaces_a_damaged_one() {
        let scratch = tempfile::tempdir().expect("a folder");
        let [own, partial] = ["libtorch", "libtorch.partial"].map(|name| scratch.path().join(name));
        layout::tests::fake(&own, "2.11.0+cpu");
        note::write(&own, "a test").expect("a note");
        fs::write(own.join("lib/libc10.so"), "longer than before").expect("written");
        assert_eq!(usable(&own), None);
        layout::tests::fake(&partial, "2.11.0");
        note::write(&partial, "another test").expect("a note");
        replace(&own, &partial).expect("replaced");
        assert_eq!(usable(&own).as_deref(), Some("2.11.0, from another test"));
        assert!(!partial.exists());
    }
}
