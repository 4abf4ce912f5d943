//! From a verified archive to the files in it: only files that are known, each exactly as long as it is known to be.

use crate::FetchError;
use crate::catalogue::{Archive, KnownFile, Packing};
use crate::digest::PIECE;
use crate::download::{Copying, copy_bounded};
use crate::lock::Workshop;
use crate::progress::FetchProgress;
use crate::tar::Tar;
use flate2::read::MultiGzDecoder;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

/// A file that was unpacked.
#[derive(Debug)]
pub(crate) struct Unpacked {
    pub(crate) file: &'static KnownFile,
    /// Where it lies for now.
    pub(crate) path: PathBuf,
    /// Its SHA-256, in hexadecimal.
    pub(crate) sha256: String,
}

/// Unpacks all files of an archive into the workshop.
pub(crate) fn unpack(
    archive: &'static Archive,
    packed: &Path,
    workshop: &Workshop,
    progress: &mut dyn FnMut(FetchProgress<'_>),
) -> Result<Vec<Unpacked>, FetchError> {
    progress(FetchProgress::Unpacking { archive });
    let input = File::open(packed).map_err(|error| FetchError::file(packed, "read", error))?;
    let decoder = MultiGzDecoder::new(BufReader::with_capacity(PIECE, input));
    let mut unpacking = Unpacking { archive, workshop, done: Vec::new() };
    match archive.packing {
        Packing::Gzip => unpacking.single(decoder)?,
        Packing::TarGzip(folder) => unpacking.several(decoder, folder)?,
    }
    let missing =
        archive.files.iter().find(|file| !unpacking.done.iter().any(|done| done.file.name == file.name));
    match missing {
        Some(file) => Err(unpacking.wrong(format!("it has no {}", file.name))),
        None => Ok(unpacking.done),
    }
}

struct Unpacking<'a> {
    archive: &'static Archive,
    workshop: &'a Workshop,
    done: Vec<Unpacked>,
}

impl Unpacking<'_> {
    fn single(&mut self, mut decoder: impl Read) -> Result<(), FetchError> {
        self.archive.files.iter().try_for_each(|file| self.write(file, &mut decoder))
    }

    fn several(&mut self, decoder: impl Read, folder: &str) -> Result<(), FetchError> {
        // More than the files and a few pages of text there cannot be.
        let most = self.archive.unpacked_bytes() + (16 << 20);
        let mut tar = Tar::new(decoder.take(most));
        while let Some(head) = tar.next().map_err(|error| self.unreadable(&error))? {
            let path = head.path.strip_prefix(b"./").unwrap_or(&head.path);
            let known =
                self.archive.files.iter().find(|file| path == format!("{folder}/{}", file.name).as_bytes());
            let Some(file) = known else { continue };
            if head.bytes != file.bytes || self.done.iter().any(|done| done.file.name == file.name) {
                return Err(self.wrong(format!("{} is there twice, or of {} bytes", file.name, head.bytes)));
            }
            self.write(file, &mut tar)?;
        }
        Ok(())
    }

    fn write(&mut self, file: &'static KnownFile, content: &mut dyn Read) -> Result<(), FetchError> {
        let path = self.workshop.path(file.name);
        let (bytes, sha256) = copy_bounded(content, &path, file.bytes).map_err(|error| match error {
            Copying::Read(error) => self.unreadable(&error),
            Copying::Write(error) => FetchError::file(&path, "written", error),
            Copying::TooLong => self.wrong(format!("{} is longer than {} bytes", file.name, file.bytes)),
        })?;
        if bytes != file.bytes {
            return Err(self.wrong(format!("{} has {bytes} bytes in place of {}", file.name, file.bytes)));
        }
        if let Some(published) = file.sha256.filter(|published| *published != sha256) {
            return Err(self.wrong(format!("{} has SHA-256 {sha256} in place of {published}", file.name)));
        }
        self.done.push(Unpacked { file, path, sha256 });
        Ok(())
    }

    fn unreadable(&self, error: &io::Error) -> FetchError {
        self.wrong(error.to_string())
    }

    fn wrong(&self, reason: String) -> FetchError {
        FetchError::Packing { archive: self.archive.name, reason }
    }
}
