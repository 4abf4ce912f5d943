//! Files that may be gzipped, read with bounds known beforehand.

use super::DataError;
use flate2::read::MultiGzDecoder;
use sha2::{Digest, Sha256};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

/// No gzip stream unpacks to more than this many times its size (the format's limit is 1032).
const DENSEST: u64 = 1040;

/// A file as it lies on disk.
pub(super) struct Packed {
    pub(super) path: PathBuf,
    bytes: Vec<u8>,
    gzipped: bool,
}

impl Packed {
    /// Finds and reads `name` or `name`.gz in a folder, in this order; nothing if neither is there.
    pub(super) fn find(folder: &Path, name: &str) -> Result<Option<Self>, DataError> {
        for (path, gzipped) in [(folder.join(name), false), (folder.join(format!("{name}.gz")), true)] {
            match fs::read(&path) {
                Ok(bytes) => return Ok(Some(Self { path, bytes, gzipped })),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(source) => return Err(DataError::Read { file: path, source }),
            }
        }
        Ok(None)
    }

    /// As [`Packed::find`], of a file that must be there.
    pub(super) fn open(folder: &Path, name: &str, set: &'static str) -> Result<Self, DataError> {
        let missing = || DataError::Missing { folder: folder.to_owned(), name: name.to_owned(), set };
        Self::find(folder, name)?.ok_or_else(missing)
    }

    /// As if a file of this content had been read.
    pub(super) fn from_bytes(bytes: Vec<u8>, gzipped: bool) -> Self {
        Self { path: PathBuf::from("file"), bytes, gzipped }
    }

    /// Adds name, size and content, as they lie on disk, to a digest.
    pub(super) fn digest(&self, digest: &mut Sha256) {
        let name = self.path.file_name().unwrap_or_default().as_encoded_bytes();
        digest.update((name.len() as u64).to_le_bytes());
        digest.update(name);
        digest.update((self.bytes.len() as u64).to_le_bytes());
        digest.update(&self.bytes);
    }

    /// More bytes than this cannot come out of the file.
    pub(super) fn most(&self) -> u64 {
        self.bytes.len() as u64 * if self.gzipped { DENSEST } else { 1 }
    }

    /// The content, from its beginning.
    pub(super) fn unpack(&self) -> Content<'_> {
        let reader: Box<dyn Read + '_> = if self.gzipped {
            Box::new(MultiGzDecoder::new(self.bytes.as_slice()))
        } else {
            Box::new(self.bytes.as_slice())
        };
        Content { file: self, reader, offset: 0 }
    }
}

/// The unpacked content of a file, read piece by piece.
pub(super) struct Content<'a> {
    file: &'a Packed,
    reader: Box<dyn Read + 'a>,
    offset: u64,
}

impl Content<'_> {
    /// Up to `len` bytes; fewer at the end of the file. The allocation is at most about twice the bytes read.
    pub(super) fn up_to(&mut self, len: u64) -> Result<Vec<u8>, DataError> {
        let mut bytes = Vec::new();
        let read = self.reader.by_ref().take(len).read_to_end(&mut bytes);
        read.map_err(|source| DataError::Gzip { file: self.file.path.clone(), source })?;
        self.offset += bytes.len() as u64;
        Ok(bytes)
    }

    /// The next `N` numbers: 32 bits each, big-endian.
    pub(super) fn numbers<const N: usize>(&mut self, why: &str) -> Result<[u32; N], DataError> {
        let bytes = self.exactly(4 * N as u64, why)?;
        let mut numbers = [0; N];
        for (number, four) in numbers.iter_mut().zip(bytes.chunks_exact(4)) {
            *number = four.iter().fold(0, |sum, byte| sum << 8 | u32::from(*byte));
        }
        Ok(numbers)
    }

    /// Exactly `len` bytes more.
    pub(super) fn exactly(&mut self, len: u64, why: &str) -> Result<Vec<u8>, DataError> {
        let expected = self.offset.saturating_add(len);
        if expected > self.file.most() {
            // Nothing is allocated for what cannot be there.
            let rest = std::io::copy(&mut self.reader, &mut std::io::sink())
                .map_err(|source| DataError::Gzip { file: self.file.path.clone(), source })?;
            return Err(self.length(expected, Found::Bytes(self.offset + rest), why));
        }
        let bytes = self.up_to(len)?;
        if bytes.len() as u64 == len {
            Ok(bytes)
        } else {
            Err(self.length(expected, Found::Bytes(self.offset), why))
        }
    }

    /// Makes sure that nothing is left.
    pub(super) fn end(mut self, why: &str) -> Result<(), DataError> {
        let expected = self.offset;
        if self.up_to(1)?.is_empty() {
            Ok(())
        } else {
            Err(self.length(expected, Found::AtLeast(expected + 1), why))
        }
    }

    fn length(&self, expected: u64, found: Found, why: &str) -> DataError {
        let (got, at_least) = match found {
            Found::Bytes(got) => (got, false),
            Found::AtLeast(got) => (got, true),
        };
        DataError::Length { file: self.file.path.clone(), expected, got, at_least, why: why.to_owned() }
    }
}

/// How much of the content was read.
enum Found {
    /// All of it, in bytes.
    Bytes(u64),
    /// The rest was left unread.
    AtLeast(u64),
}
