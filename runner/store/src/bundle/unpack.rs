//! Reads a bundle from its first byte to its last, and believes nothing that was not checked before.

use super::content::Content;
use super::error::BundleError;
use super::manifest::{self, BundledFile, Manifest, cut};
use super::{BundleFile, MANIFEST, OfAttempt};
use flate2::bufread::GzDecoder;
use recipe::hex;
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, Read, Write};
use std::path::Path;
use tar::{Archive, Entry, EntryType};

/// Bytes read at once.
const CHUNK: usize = 1 << 16;
/// Bytes after the last file: an archive is filled up with zeros to a full record.
const PADDING: u64 = 1 << 20;

/// Where the files of a bundle go.
#[derive(Clone, Copy)]
pub(super) enum Onto<'a> {
    /// Nowhere: they are only checked.
    Nothing,
    /// Into this folder, which is empty.
    Folder(&'a Path),
}

/// A bundle that is what its manifest says.
pub(super) struct Unpacked {
    pub(super) manifest: Manifest,
    /// Its sweeps, in the order of the manifest's files.
    pub(super) contents: Vec<Content>,
}

/// Reads a bundle whose files must fit into `room` bytes, and reports the bytes read, and those of all.
pub(super) fn unpack(
    bundle: &Path,
    onto: Onto<'_>,
    room: Option<u64>,
    progress: &mut impl FnMut(u64, u64),
) -> Result<Unpacked, BundleError> {
    let unreadable = |source| BundleError::Unreadable { path: bundle.to_owned(), source };
    let mut file = File::open(bundle).map_err(unreadable)?;
    if !file.metadata().map_err(unreadable)?.is_file() {
        return Err(foreign(bundle, "it is no file"));
    }
    let mut magic = [0; 2];
    if file.read_exact(&mut magic).is_err() || magic != [0x1f, 0x8b] {
        return Err(foreign(bundle, "it is not compressed as bundles are"));
    }
    let file = File::open(bundle).map_err(unreadable)?;
    let mut archive = Archive::new(GzDecoder::new(BufReader::new(file)));
    let reading = Reading { bundle, onto };
    let unpacked = reading.all(&mut archive, room, progress)?;
    reading.end(archive.into_inner())?;
    Ok(unpacked)
}

fn foreign(bundle: &Path, reason: &str) -> BundleError {
    BundleError::Foreign { path: bundle.to_owned(), reason: reason.to_owned() }
}

struct Reading<'a> {
    bundle: &'a Path,
    onto: Onto<'a>,
}

impl Reading<'_> {
    fn all(
        &self,
        archive: &mut Archive<impl Read>,
        room: Option<u64>,
        progress: &mut impl FnMut(u64, u64),
    ) -> Result<Unpacked, BundleError> {
        let broken = |error: io::Error| self.damaged(format!("the archive cannot be read: {error}"));
        // Extended heads would be read into memory whatever their size; bundles have none.
        let mut entries = archive.entries().map_err(broken)?.raw(true);
        let manifest = match entries.next() {
            Some(Ok(entry)) => self.manifest(entry)?,
            Some(Err(error)) => return Err(foreign(self.bundle, &format!("it is no archive: {error}"))),
            None => return Err(foreign(self.bundle, "it is empty")),
        };
        let bytes = manifest.bytes();
        self.fits(bytes, room)?;
        let mut contents = Vec::new();
        let mut done = 0;
        for file in &manifest.files {
            progress(done, bytes);
            let mut entry = match entries.next() {
                Some(entry) => entry.map_err(broken)?,
                None => return Err(self.damaged(format!("it ends before {}", file.name))),
            };
            self.head(&entry, &file.name)?;
            if entry.size() != file.size {
                let what =
                    format!("{} has {} bytes, and the manifest says {}", file.name, entry.size(), file.size);
                return Err(self.damaged(what));
            }
            match BundleFile::of(&file.name) {
                Some(BundleFile::Journal(sweep)) => {
                    contents.push(self.journal(&mut entry, file, sweep)?);
                    // Compressed logs grow when they are read: the journals say to how many bytes.
                    let logs = contents.iter().flat_map(|content| content.logs.values());
                    self.fits(logs.fold(bytes, |sum, log| sum.saturating_add(*log)), room)?;
                }
                Some(BundleFile::Log(attempt) | BundleFile::Model(attempt)) => {
                    self.listed(&contents, file, &attempt)?;
                    self.copied(&mut entry, file)?;
                }
                None => return Err(self.damaged(format!("it has a file {:?}", cut(&file.name)))),
            }
            done += file.size;
        }
        progress(bytes, bytes);
        match entries.next() {
            None => Ok(Unpacked { manifest, contents }),
            Some(Err(error)) => Err(broken(error)),
            Some(Ok(_)) => Err(self.damaged("it has more files than its manifest lists".to_owned())),
        }
    }

    /// Refuses what would fill the disk: the files, and the rows of the database beside them.
    fn fits(&self, bytes: u64, room: Option<u64>) -> Result<(), BundleError> {
        match room.filter(|free| bytes > free / 2) {
            Some(free) => Err(BundleError::NoRoom { path: self.bundle.to_owned(), bytes, free }),
            None => Ok(()),
        }
    }

    fn manifest(&self, mut entry: Entry<'_, impl Read>) -> Result<Manifest, BundleError> {
        if entry.path_bytes().as_ref() != MANIFEST.as_bytes()
            || entry.header().entry_type() != EntryType::Regular
        {
            return Err(foreign(self.bundle, "it does not begin with a manifest"));
        }
        if entry.size() > manifest::LONGEST {
            return Err(self.damaged(format!("its manifest would have {} bytes", entry.size())));
        }
        let mut text = Vec::new();
        let read = entry.read_to_end(&mut text);
        read.map_err(|error| self.damaged(format!("its manifest cannot be read: {error}")))?;
        Manifest::read(&text, self.bundle)
    }

    /// A file has its listed name and is nothing but a file: no link, no device, no folder.
    fn head(&self, entry: &Entry<'_, impl Read>, name: &str) -> Result<(), BundleError> {
        let found = entry.path_bytes();
        if found.as_ref() != name.as_bytes() {
            let found = cut(&String::from_utf8_lossy(&found));
            return Err(self.damaged(format!("it has {found:?} where {name} must come")));
        }
        let kind = entry.header().entry_type();
        if kind != EntryType::Regular {
            return Err(self.damaged(format!("{name} is no plain file, but of the kind {kind:?}")));
        }
        Ok(())
    }

    fn journal(
        &self,
        entry: &mut Entry<'_, impl Read>,
        file: &BundledFile,
        sweep: &str,
    ) -> Result<Content, BundleError> {
        // The manifest was refused if this were more than is ever held in memory.
        let mut journal = Vec::new();
        let read = entry.take(file.size).read_to_end(&mut journal);
        read.map_err(|error| self.damaged(format!("{} cannot be read: {error}", file.name)))?;
        self.digested(file, &Sha256::digest(&journal))?;
        let content = Content::read(&journal).map_err(|reason| self.damaged(reason))?;
        if let Some(reason) = content.fault(sweep) {
            return Err(self.damaged(reason));
        }
        if let Onto::Folder(folder) = self.onto {
            created(folder, file)?.write_all(&journal).map_err(|source| unstored(folder, source))?;
        }
        Ok(content)
    }

    /// Refuses a file of an attempt that no journal tells of.
    fn listed(
        &self,
        contents: &[Content],
        file: &BundledFile,
        attempt: &OfAttempt<'_>,
    ) -> Result<(), BundleError> {
        let name = (attempt.run.to_owned(), attempt.number);
        if contents.iter().any(|content| content.logs.contains_key(&name)) {
            return Ok(());
        }
        Err(self.damaged(format!("no journal tells of {}", file.name)))
    }

    fn copied(&self, entry: &mut Entry<'_, impl Read>, file: &BundledFile) -> Result<(), BundleError> {
        let mut out = match self.onto {
            Onto::Nothing => None,
            Onto::Folder(folder) => Some((created(folder, file)?, folder)),
        };
        let mut digest = Sha256::new();
        let mut buffer = vec![0; CHUNK];
        loop {
            let count = entry
                .read(&mut buffer)
                .map_err(|error| self.damaged(format!("{} cannot be read: {error}", file.name)))?;
            let bytes = buffer.get(..count).unwrap_or_default();
            if bytes.is_empty() {
                return self.digested(file, &digest.finalize());
            }
            digest.update(bytes);
            if let Some((out, folder)) = &mut out {
                out.write_all(bytes).map_err(|source| unstored(folder, source))?;
            }
        }
    }

    fn digested(&self, file: &BundledFile, digest: &[u8]) -> Result<(), BundleError> {
        if hex(digest) == file.sha256 {
            return Ok(());
        }
        Err(self.damaged(format!("the SHA-256 of {} is not the one in the manifest", file.name)))
    }

    /// The end of the archive, of the compressed data with its own checksum, and of the file.
    fn end(&self, mut compressed: GzDecoder<BufReader<File>>) -> Result<(), BundleError> {
        let mut rest = Vec::new();
        let read = (&mut compressed).take(PADDING).read_to_end(&mut rest);
        read.map_err(|error| self.damaged(format!("its end cannot be read: {error}")))?;
        let mut beyond = Vec::new();
        let read = compressed.into_inner().take(1).read_to_end(&mut beyond);
        read.map_err(|error| self.damaged(format!("its end cannot be read: {error}")))?;
        if rest.iter().any(|byte| *byte != 0) || rest.len() as u64 == PADDING || !beyond.is_empty() {
            return Err(self.damaged("something comes after its end".to_owned()));
        }
        Ok(())
    }

    fn damaged(&self, reason: String) -> BundleError {
        BundleError::Damaged { path: self.bundle.to_owned(), reason }
    }
}

fn created(folder: &Path, file: &BundledFile) -> Result<File, BundleError> {
    let path = folder.join(&file.name);
    let create = || {
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        OpenOptions::new().write(true).create_new(true).open(&path)
    };
    create().map_err(|source| unstored(&path, source))
}

fn unstored(path: &Path, source: io::Error) -> BundleError {
    crate::StoreError::Folder { path: path.to_owned(), source }.into()
}

/// The runs of all sweeps; each belongs to one.
pub(super) fn runs_of(contents: &[Content], bundle: &Path) -> Result<BTreeSet<String>, BundleError> {
    let mut runs = BTreeSet::new();
    for run in contents.iter().flat_map(|content| &content.entry.runs) {
        if !runs.insert(run.clone()) {
            let reason = format!("run {run} belongs to two of its sweeps");
            return Err(BundleError::Damaged { path: bundle.to_owned(), reason });
        }
    }
    Ok(runs)
}
