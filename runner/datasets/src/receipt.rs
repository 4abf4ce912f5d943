//! `SHA256SUMS`: what the files of a folder were when they were unpacked from verified archives, in the form that
//! `sha256sum -c` reads.

use crate::FetchError;
use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

/// Name of the list in a data set's folder.
pub(crate) const NAME: &str = "SHA256SUMS";

/// Digests by the file's name.
pub(crate) type Sums = BTreeMap<String, String>;

/// Digests in a folder's list; none where there is no list. Lines of another form are skipped.
pub(crate) fn read(folder: &Path) -> Result<Sums, FetchError> {
    let path = folder.join(NAME);
    let text = match fs::read(&path) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Sums::new()),
        Err(error) => return Err(FetchError::file(path, "read", error)),
    };
    let pair = |line: &str| {
        let (digest, name) = line.split_once("  ")?;
        (digest.len() == 64).then(|| (name.to_owned(), digest.to_lowercase()))
    };
    Ok(text.lines().filter_map(pair).collect())
}

/// Writes a folder's list; `part` is where it grows.
pub(crate) fn write(folder: &Path, part: &Path, sums: &Sums) -> Result<(), FetchError> {
    let lines: Vec<String> = sums.iter().map(|(name, digest)| format!("{digest}  {name}\n")).collect();
    let text = lines.concat();
    let path = folder.join(NAME);
    let written = fs::write(part, text).and_then(|()| fs::rename(part, &path));
    written.map_err(|error| FetchError::file(path, "written", error))
}
