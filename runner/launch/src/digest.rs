//! SHA-256 of files.

use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// SHA-256 of a file's bytes, in lower-case hexadecimal.
pub(crate) fn digest(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(recipe::hex(&hash.finalize())),
            read => hash.update(&buffer[..read]),
        }
    }
}

/// Checks that a file has this digest.
///
/// # Errors
/// It cannot be read, or has another digest (`InvalidData`).
pub(crate) fn check(path: &Path, sha256: &str) -> io::Result<()> {
    let found = digest(path)?;
    if found == sha256 {
        return Ok(());
    }
    let what = format!("{} has the SHA-256 {found}, not {sha256}", path.display());
    Err(io::Error::new(io::ErrorKind::InvalidData, what))
}
