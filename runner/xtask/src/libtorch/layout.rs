//! The files of a libtorch that the bindings can be built with.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

/// The one version that the bindings (`tch` 0.24) accept.
pub(super) const VERSION: &str = "2.11.0";

/// Files without which neither compiling nor linking can work.
const NEEDED: [&str; 4] = [
    "include/torch/csrc/api/include/torch/torch.h",
    "lib/libtorch.so",
    "lib/libtorch_cpu.so",
    "lib/libc10.so",
];

/// Stands in for the library that only binds the CPU and the GPU part together.
///
/// Linking the real one of a GPU build would drag CUDA into every process; the linker reads this instead.
const LINKER_SCRIPT: &str =
    "/* GNU ld script: libtorch without GPU parts */\nINPUT(libtorch_cpu.so libc10.so)\n";

/// Whether a full version such as `2.11.0+cpu` is the one we build against.
pub(super) fn is_right_version(version: &str) -> bool {
    version.trim().split('+').next() == Some(VERSION)
}

/// The version of the libtorch in a folder.
pub(super) fn inspect(folder: &Path) -> Result<String> {
    if !folder.is_dir() {
        bail!("{} is not a folder", folder.display());
    }
    for file in NEEDED {
        if !folder.join(file).is_file() {
            bail!("{} has no {file}", folder.display());
        }
    }
    let version = read_version(folder)?;
    if !is_right_version(&version) {
        bail!("{} holds version {version}, but {VERSION} is needed", folder.display());
    }
    Ok(version)
}

/// Writes the linker script and the version, which complete a folder of bare libraries.
pub(super) fn complete(folder: &Path, version: &str) -> Result<()> {
    for (file, content) in [("lib/libtorch.so", LINKER_SCRIPT), ("build-version", &format!("{version}\n"))] {
        let path = folder.join(file);
        fs::write(&path, content).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// The archives for C++ say their version in `build-version`, the folders of Python packages in `version.py`.
fn read_version(folder: &Path) -> Result<String> {
    if let Ok(version) = fs::read_to_string(folder.join("build-version")) {
        return Ok(version.trim().to_owned());
    }
    fs::read_to_string(folder.join("version.py")).ok().as_deref().and_then(version_in_python).with_context(
        || format!("{} says its version neither in build-version nor in version.py", folder.display()),
    )
}

fn version_in_python(text: &str) -> Option<String> {
    let line = text.lines().find_map(|line| line.strip_prefix("__version__ = "))?;
    Some(line.trim().trim_matches(['\'', '"']).to_owned())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A folder that looks complete.
    pub(in crate::libtorch) fn fake(folder: &Path, version: &str) {
        for file in NEEDED {
            let path = folder.join(file);
            fs::create_dir_all(path.parent().expect("a parent")).expect("folder made");
            fs::write(path, file).expect("written");
        }
        complete(folder, version).expect("completed");
    }

    #[test]
    fn versions() {
        for (version, right) in [
            ("2.11.0", true),
            ("2.11.0+cpu\n", true),
            ("2.11.0+cu130", true),
            ("2.11.1", false),
            ("2.1", false),
            ("12.11.0", false),
            ("", false),
        ] {
            assert_eq!(is_right_version(version), right, "{version:?}");
        }
    }

    #[test]
    fn a_folder_is_refused_by_what_it_lacks() {
        let scratch = tempfile::tempdir().expect("a folder");
        let folder = scratch.path().join("libtorch");
        let refusal = || format!("{:#}", inspect(&folder).expect_err("refused"));
        assert!(refusal().ends_with("is not a folder"));
        fake(&folder, "2.11.0+cpu");
        assert_eq!(inspect(&folder).expect("complete"), "2.11.0+cpu");
        for file in NEEDED {
            let content = fs::read(folder.join(file)).expect("read");
            fs::remove_file(folder.join(file)).expect("removed");
            assert!(refusal().ends_with(&format!("has no {file}")), "{file}");
            fs::write(folder.join(file), content).expect("written");
        }
        fs::write(folder.join("build-version"), "2.10.0\n").expect("written");
        assert!(refusal().ends_with("holds version 2.10.0, but 2.11.0 is needed"));
        fs::remove_file(folder.join("build-version")).expect("removed");
        assert!(refusal().ends_with("neither in build-version nor in version.py"));
        fs::write(folder.join("version.py"), "debug = False\n__version__ = '2.11.0+cu130'\n")
            .expect("written");
        assert_eq!(inspect(&folder).expect("complete"), "2.11.0+cu130");
    }
}
