//! axe-core, which looks for barriers in pages: brought out of a Python package that ships it, and kept in Cargo's folder.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use crate::checksum;
use crate::libtorch::{python, remove_if_there};
use crate::workspace::Workspace;

/// The variable that names the file to the tests.
pub(crate) const VARIABLE: &str = "BAKEOFF_AXE";

const PACKAGE: &str = "axe-playwright-python==0.1.8";
const WHEEL: &str = "axe_playwright_python-0.1.8-py3-none-any.whl";
/// SHA-256 of the wheel, as the package index publishes it.
const WHEEL_DIGEST: &str = "fdd263c998388f1a8e67cad02677e612d946248bd44d163be5e8650ea31f95f8";
const MEMBER: (&str, &str) = ("axe_playwright_python/axe.min.js", "axe.min.js");
/// SHA-256 of the file in it: axe-core 4.12.1.
const FILE_DIGEST: &str = "84494fec757e4710dc751c8d7a636e457f4532f08f85c86dc9070133fbff53bc";

/// The file: the user's choice, else the one that is kept, else one out of the package.
pub(crate) fn ensure(workspace: &Workspace) -> Result<PathBuf> {
    if let Some(chosen) = std::env::var_os(VARIABLE) {
        let chosen = PathBuf::from(chosen);
        if !chosen.is_file() {
            bail!("{VARIABLE} names {}, which is not a file", chosen.display());
        }
        return Ok(chosen);
    }
    let folder = workspace.target_folder()?.join("axe");
    let kept = folder.join(MEMBER.1);
    if is_sound(&kept, FILE_DIGEST) {
        return Ok(kept);
    }
    println!("bringing axe-core for the tests that look for barriers");
    remove_if_there(&folder)?;
    let wheel = python::downloads(&folder)?.join(WHEEL);
    python::download_package(&folder, PACKAGE, "any")?;
    if !is_sound(&wheel, WHEEL_DIGEST) {
        bail!("pip brought another file than {WHEEL}");
    }
    python::unpack(&wheel, &folder, &[MEMBER])?;
    for done_with in python::DOWNLOAD_FOLDERS {
        remove_if_there(&folder.join(done_with))?;
    }
    if is_sound(&kept, FILE_DIGEST) { Ok(kept) } else { bail!("{PACKAGE} ships another axe-core") }
}

fn is_sound(path: &Path, digest: &str) -> bool {
    path.is_file() && checksum::sha256(path).is_ok_and(|found| found == digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_used_only_if_it_is_whole() {
        let scratch = tempfile::tempdir().expect("a folder");
        let path = scratch.path().join("abc");
        // FIPS 180-2, appendix B: the digest of "abc".
        let digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert!(!is_sound(&path, digest));
        std::fs::write(&path, "abc").expect("written");
        assert!(is_sound(&path, digest) && !is_sound(&path, FILE_DIGEST));
        assert!(!is_sound(scratch.path(), digest));
    }
}
