//! A data set into its folder: good files stay, missing ones come, and no half-done file is ever
//! seen under its own name.

use crate::catalogue::{Archive, KnownFile, PublicDataSet};
use crate::download::Download;
use crate::http::{Client, Patience};
use crate::lock::Workshop;
use crate::progress::FetchProgress;
use crate::receipt::{self, Sums};
use crate::source::DownloadSource;
use crate::verify::look;
use crate::{FetchError, unpack};
use std::fs;
use std::path::{Path, PathBuf};

/// Numbers of the files of a data set after a fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fetched {
    /// Number of files that were there and good.
    pub here: usize,
    /// Number of files that a source gave.
    pub came: usize,
}

/// Where a data set is fetched from.
#[derive(Clone, Copy, Debug)]
pub struct Errand<'a> {
    /// The sources in the order of their trial; none for the public ones.
    pub sources: &'a [DownloadSource],
    /// Deadlines of each wait, and the number of tries.
    pub patience: Patience,
}

/// Fetches a data set into a folder.
///
/// # Errors
/// The reason why it does not come; the bytes that came stay, and the next call resumes there.
pub fn fetch(
    set: &'static PublicDataSet,
    folder: &Path,
    errand: Errand<'_>,
    progress: &mut dyn FnMut(FetchProgress<'_>),
) -> Result<Fetched, FetchError> {
    let workshop = Workshop::open(folder)?;
    let Errand { sources, patience } = errand;
    let mut fetching =
        Fetching { folder, sources, client: Client::new(patience), patience, sums: receipt::read(folder)? };
    let done = fetching.run(set, &workshop, progress);
    workshop.close();
    done
}

struct Fetching<'a> {
    folder: &'a Path,
    sources: &'a [DownloadSource],
    client: Client,
    patience: Patience,
    sums: Sums,
}

impl Fetching<'_> {
    fn run(
        &mut self,
        set: &'static PublicDataSet,
        workshop: &Workshop,
        progress: &mut dyn FnMut(FetchProgress<'_>),
    ) -> Result<Fetched, FetchError> {
        let mut fetched = Fetched { here: 0, came: 0 };
        let mut wanted = Vec::new();
        for archive in set.archives {
            if self.is_here(archive)? {
                progress(FetchProgress::Here { archive });
                fetched.here += archive.files.len();
            } else {
                wanted.push(archive);
            }
        }
        self.room_for(&wanted, workshop)?;
        for archive in wanted {
            self.bring(archive, workshop, progress)?;
            fetched.came += archive.files.len();
        }
        Ok(fetched)
    }

    /// Whether all files of an archive lie there plain, and are good.
    fn is_here(&self, archive: &Archive) -> Result<bool, FetchError> {
        for file in archive.files {
            let finding = look(archive, file, self.folder, &self.sums)?;
            if !finding.state.is_good() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Refuses before anything is asked for what the disk cannot hold: files stay, one archive at a time does.
    fn room_for(&self, wanted: &[&'static Archive], workshop: &Workshop) -> Result<(), FetchError> {
        let Ok(disk) = rustix::fs::statvfs(self.folder) else { return Ok(()) };
        let part = |archive: &Archive| {
            fs::metadata(workshop.path(&format!("{}.part", archive.name))).map_or(0, |part| part.len())
        };
        let needed = needed(wanted, part);
        let available = disk.f_bavail.saturating_mul(disk.f_frsize);
        if needed > available {
            return Err(FetchError::Room { folder: self.folder.to_owned(), needed, available });
        }
        Ok(())
    }

    fn bring(
        &mut self,
        archive: &'static Archive,
        workshop: &Workshop,
        progress: &mut dyn FnMut(FetchProgress<'_>),
    ) -> Result<(), FetchError> {
        let mut sources = Vec::new();
        // The archive may have been put there by hand.
        if self.folder.join(archive.name).is_file() {
            sources.push(DownloadSource::Folder(self.folder.to_owned()));
        }
        match self.sources {
            [] => sources.extend(archive.sources.iter().map(|url| DownloadSource::read(url))),
            given => sources.extend_from_slice(given),
        }
        let client = &self.client;
        let patience = self.patience;
        let packed =
            Download { archive, workshop, client, patience, progress: &mut *progress }.run(&sources)?;
        for unpacked in unpack::unpack(archive, &packed, workshop, progress)? {
            self.install(unpacked.file, &unpacked.path)?;
            self.sums.insert(unpacked.file.name.to_owned(), unpacked.sha256);
        }
        receipt::write(self.folder, &workshop.path(receipt::NAME), &self.sums)?;
        if packed.starts_with(&workshop.folder) {
            // It has served; that it stays would only cost space.
            let _ = fs::remove_file(packed);
        }
        Ok(())
    }

    /// Moves a whole file to its place.
    fn install(&self, file: &KnownFile, from: &Path) -> Result<(), FetchError> {
        let to: PathBuf = self.folder.join(file.name);
        fs::rename(from, &to).map_err(|error| FetchError::file(to, "written", error))
    }
}

/// Bytes that are still to be written at the worst moment.
fn needed(wanted: &[&'static Archive], part: impl Fn(&Archive) -> u64) -> u64 {
    let mut files = 0;
    let mut worst = 0;
    for archive in wanted {
        files += archive.unpacked_bytes();
        worst = worst.max(files + archive.bytes.saturating_sub(part(archive)));
    }
    worst
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CIFAR_10, MNIST};

    #[test]
    fn the_worst_moment_decides_how_much_room_is_needed() {
        let all: Vec<&'static Archive> = MNIST.archives.iter().collect();
        // The first archive beside its file: what comes later is smaller than what goes then.
        assert_eq!(needed(&all, |_| 0), 47_040_016 + 9_912_422);
        assert_eq!(needed(&all, |archive| archive.bytes), MNIST.unpacked_bytes());
        let one: Vec<&'static Archive> = CIFAR_10.archives.iter().collect();
        assert_eq!(needed(&one, |_| 170_000_000), 184_380_000 + 52_171);
        assert_eq!(needed(&[], |_| 0), 0);
    }
}
