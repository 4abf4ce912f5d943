//! Checks the files in a folder against what was published.

use crate::catalogue::{Archive, KnownFile, Packing, PublicDataSet};
use crate::receipt::{self, Sums};
use crate::{FetchError, digest};
use flate2::read::MultiGzDecoder;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

/// State of one file that a run reads.
#[derive(Debug)]
pub struct Finding {
    /// As the catalogue lists it.
    pub file: &'static KnownFile,
    /// Where it lies, or would lie.
    pub path: PathBuf,
    /// Result of the check.
    pub state: FileState,
}

/// How a file stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileState {
    /// It has the published digest.
    Published,
    /// It is what a verified archive unpacked to, by the folder's `SHA256SUMS`.
    AsUnpacked,
    /// It has the right length, and nothing says what its digest should be.
    Unproven,
    /// It is something else.
    Different {
        /// In a few words.
        why: String,
    },
    /// It is not there, neither plain nor as `.gz`.
    Missing,
}

impl FileState {
    /// Whether a run may read it.
    pub fn is_good(&self) -> bool {
        matches!(self, Self::Published | Self::AsUnpacked)
    }
}

/// Looks at every file of a data set in a folder: reads all of them.
///
/// # Errors
/// [`FetchError::File`] where one cannot be read.
pub fn verify(set: &PublicDataSet, folder: &Path) -> Result<Vec<Finding>, FetchError> {
    let sums = receipt::read(folder)?;
    let archives = set.archives.iter();
    let files = archives.flat_map(|archive| archive.files.iter().map(move |file| (archive, file)));
    files.map(|(archive, file)| look(archive, file, folder, &sums)).collect()
}

/// Looks at one file, as a run finds it: the plain one before the compressed one.
pub(crate) fn look(
    archive: &Archive,
    file: &'static KnownFile,
    folder: &Path,
    sums: &Sums,
) -> Result<Finding, FetchError> {
    let plain = folder.join(file.name);
    let packed = folder.join(format!("{}.gz", file.name));
    let read = |path: &Path, state: io::Result<FileState>| {
        let state = state.map_err(|error| FetchError::file(path, "read", error))?;
        Ok(Finding { file, path: path.to_owned(), state })
    };
    if plain.is_file() {
        let sum = digest::of_file(&plain);
        read(&plain, sum.map(|(bytes, sha256)| compare(file, bytes, &sha256, sums)))
    } else if packed.is_file() {
        read(&packed, compressed(archive, file, &packed, sums))
    } else {
        Ok(Finding { file, path: plain, state: FileState::Missing })
    }
}

/// A compressed file is good as it was published, or by its content.
fn compressed(archive: &Archive, file: &KnownFile, path: &Path, sums: &Sums) -> io::Result<FileState> {
    let published = archive.packing == Packing::Gzip;
    if published && digest::of_file(path)? == (archive.bytes, archive.sha256.to_owned()) {
        return Ok(FileState::Published);
    }
    let decoder = MultiGzDecoder::new(BufReader::new(File::open(path)?));
    // One byte more than is known tells that it is longer.
    match digest::of_reader(&mut decoder.take(file.bytes + 1)) {
        Ok((bytes, sha256)) => Ok(compare(file, bytes, &sha256, sums)),
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof
            ) =>
        {
            Ok(FileState::Different { why: format!("no intact gzip file: {error}") })
        }
        Err(error) => Err(error),
    }
}

fn compare(file: &KnownFile, bytes: u64, sha256: &str, sums: &Sums) -> FileState {
    if bytes != file.bytes {
        let more = if bytes > file.bytes { " or more" } else { "" };
        return FileState::Different { why: format!("{bytes} bytes{more} in place of {}", file.bytes) };
    }
    match (file.sha256, sums.get(file.name)) {
        (Some(published), _) if published == sha256 => FileState::Published,
        (None, Some(own)) if own == sha256 => FileState::AsUnpacked,
        (None, None) => FileState::Unproven,
        (Some(expected), _) => different(sha256, expected),
        (None, Some(expected)) => different(sha256, expected),
    }
}

fn different(got: &str, expected: &str) -> FileState {
    FileState::Different { why: format!("SHA-256 {got} in place of {expected}") }
}
