//! Moves what was unpacked to its place in a store. Each move is one step, and the journal comes last: without it, what lies there is no
//! part of the store, and the next import of the same bundle takes it as it is.

use super::BundleFile;
use super::manifest::Manifest;
use crate::{StoreError, layout};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::Path;

/// Parts of a bundle that a store takes.
pub(super) struct Taken<'a> {
    /// Sweeps whose journals it takes.
    pub(super) sweeps: BTreeSet<&'a str>,
    /// Runs whose event logs it takes.
    pub(super) runs: BTreeSet<&'a str>,
    /// Model files that it takes, by their names in the bundle.
    pub(super) models: BTreeSet<&'a str>,
}

/// Moves the files of these sweeps from `staging` to `folder`, and their journals after them.
pub(super) fn move_in(
    staging: &Path,
    folder: &Path,
    manifest: &Manifest,
    taken: &Taken<'_>,
) -> Result<(), StoreError> {
    let Taken { sweeps, runs, models } = taken;
    let mut files = Vec::new();
    let mut journals = Vec::new();
    for file in &manifest.files {
        match BundleFile::of(&file.name) {
            Some(BundleFile::Journal(sweep)) if sweeps.contains(sweep) => journals.push(&file.name),
            Some(BundleFile::Log(of)) if runs.contains(of.run) => files.push(&file.name),
            Some(BundleFile::Model(_)) if models.contains(file.name.as_str()) => files.push(&file.name),
            _ => {}
        }
    }
    for name in files.into_iter().chain(journals) {
        let from = staging.join(name);
        let to = folder.join(name);
        moved(&from, &to).map_err(|source| StoreError::Folder { path: to, source })?;
    }
    let kept = || File::open(folder.join(layout::RUNS))?.sync_all();
    kept().map_err(|source| StoreError::Folder { path: folder.join(layout::RUNS), source })
}

/// Moves models of sweeps that the store has without them; returns their number.
pub(super) fn add_models(
    staging: &Path,
    folder: &Path,
    models: &BTreeSet<&str>,
) -> Result<usize, StoreError> {
    let mut count = 0;
    for name in models {
        let from = staging.join(name);
        let to = folder.join(name);
        if !to.exists() {
            moved(&from, &to).map_err(|source| StoreError::Folder { path: to, source })?;
            count += 1;
        }
    }
    Ok(count)
}

/// A file that was moved by an interrupted import was found to be the same.
fn moved(from: &Path, to: &Path) -> io::Result<()> {
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent)?;
    }
    File::open(from)?.sync_data()?;
    let moved = match fs::rename(from, to) {
        // Where `runs` is a link to another disk.
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
            let beside = to.with_extension("importing");
            fs::copy(from, &beside)?;
            File::open(&beside)?.sync_data()?;
            fs::rename(&beside, to)
        }
        moved => moved,
    };
    moved?;
    // The folders that were made for it, up to the store's own: else a power cut leaves a journal without its logs.
    let folders = to.ancestors().skip(1).take_while(|folder| !folder.ends_with(layout::RUNS));
    folders.into_iter().try_for_each(|folder| File::open(folder)?.sync_all())
}
