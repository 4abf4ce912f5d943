//! libtorch as its makers pack it for C++ programs.
//!
//! They publish no digest for the archive, so a download is judged by what it carries itself: the announced length and
//! the checksum of every file in it, over an authenticated connection.

use std::path::Path;

use anyhow::{Result, bail};

use super::python::{self, Wanted};
use super::remove_if_there;

const ADDRESS: &str = "https://download.pytorch.org/libtorch/cpu/libtorch-shared-with-deps-2.11.0%2Bcpu.zip";
const WANTED: Wanted = &[
    ("libtorch/include/", "include/"),
    ("libtorch/lib/", "lib/"),
    ("libtorch/build-version", "build-version"),
];

/// Fills `partial` from the archive.
pub(super) fn bring(partial: &Path) -> Result<()> {
    let path = python::downloads(partial)?.join("libtorch.zip");
    obtain(&path, || python::fetch(ADDRESS, &path), python::check)?;
    println!("  unpacking {}", path.display());
    python::unpack(&path, partial, WANTED)
}

/// Downloads until the archive is sound, twice at most; a server that cannot be reached is not asked again.
fn obtain(path: &Path, download: impl Fn() -> Result<()>, check: impl Fn(&Path) -> Result<()>) -> Result<()> {
    for attempt in ["downloading", "downloading once more:"] {
        remove_if_there(path)?;
        println!("  {attempt} {ADDRESS}");
        let downloaded = download();
        let arrived = path.metadata().is_ok_and(|metadata| metadata.len() > 0);
        let sound = downloaded.and_then(|()| check(path));
        match sound {
            Ok(()) => return Ok(()),
            Err(error) if !arrived => return Err(error),
            Err(error) => println!("  broken: {error:#}; deleting it"),
        }
    }
    remove_if_there(path)?;
    bail!("the archive could not be downloaded intact, twice")
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::fs;

    use anyhow::Context;

    use super::*;

    /// Each download brings the next content, or nothing; only "sound" is sound.
    fn obtained(contents: &[Option<&str>]) -> (Result<()>, usize) {
        let scratch = tempfile::tempdir().expect("a folder");
        let path = scratch.path().join("libtorch.zip");
        let asked = Cell::new(0);
        let download = || {
            let content = contents[asked.get()];
            asked.set(asked.get() + 1);
            content.map(|content| fs::write(&path, content).expect("written")).context("no such host")
        };
        let check = |path: &Path| match fs::read_to_string(path)?.as_str() {
            "sound" => Ok(()),
            _ => bail!("does not match"),
        };
        let result = obtain(&path, download, check);
        assert_eq!(result.is_ok(), path.exists(), "a broken archive does not stay");
        (result, asked.get())
    }

    #[test]
    fn a_broken_download_is_repeated_once_and_an_unreachable_server_is_not() {
        for (contents, succeeds, expected) in [
            (&[Some("sound")][..], true, 1),
            (&[Some("half"), Some("sound")][..], true, 2),
            (&[Some("half"), Some("half")][..], false, 2),
            (&[None][..], false, 1),
        ] {
            let (result, asked) = obtained(contents);
            assert_eq!((result.is_ok(), asked), (succeeds, expected), "{contents:?}");
        }
    }
}
