//! A small disk of its own, which can be full without anybody else being hurt.

use anyhow::{Context, Result, ensure};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Enough for the store of a small run.
const SIZE: &str = "size=256m";
/// Name of the file that fills it.
const FILLER: &str = "filler";

/// A file system in memory; it is unmounted when this is dropped.
#[derive(Debug)]
pub(super) struct Disk {
    folder: PathBuf,
}

impl Disk {
    /// Mounts one at a folder, which is made.
    pub(super) fn mount(folder: &Path) -> Result<Self> {
        fs::create_dir_all(folder)?;
        let mut command = Command::new("mount");
        command.args(["-t", "tmpfs", "-o", SIZE, "bakeoff-test"]).arg(folder);
        let output = command.output().context("`mount` cannot be started")?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr).trim());
        Ok(Self { folder: folder.to_owned() })
    }

    /// Takes all the room that is left.
    pub(super) fn fill(&self) -> Result<()> {
        let mut filler = File::create(self.folder.join(FILLER))?;
        for piece in [1 << 20, 4096, 1] {
            let zeros = vec![0; piece];
            // An error is the end of the room, as intended.
            while filler.write(&zeros).is_ok_and(|written| written > 0) {}
        }
        Ok(())
    }

    /// Gives the room back.
    pub(super) fn empty(&self) -> Result<()> {
        match fs::remove_file(self.folder.join(FILLER)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Lazily: a process that still uses it must not keep it mounted.
        let _ = Command::new("umount").arg("--lazy").arg(&self.folder).status();
    }
}

/// Whether this process may mount a disk at all; where it may not, full disks cannot be tried.
pub fn can_mount() -> bool {
    let tried =
        tempfile::tempdir().map_err(anyhow::Error::from).and_then(|folder| Disk::mount(folder.path()));
    tried.is_ok()
}
