//! Weights in a file: 32-bit floats, little-endian, one after another, nothing else.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use strategies::Vector;

/// A snapshot that could not be written or read.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the message of each variant says what its fields are")]
pub enum SnapshotError {
    /// The file could not be written.
    #[error("snapshot {} cannot be written: {source}", file.display())]
    Write {
        file: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The file could not be read.
    #[error("snapshot {} cannot be read: {source}", file.display())]
    Read {
        file: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The file is of another model, or cut off.
    #[error("snapshot {} has {bytes} bytes; {weights} weights take {}", file.display(), weights * 4)]
    Length {
        file: PathBuf,
        bytes: u64,
        /// The weights of the model.
        weights: u64,
    },
}

/// Writes a snapshot. A reader of `file` finds all of it or nothing: it is written under another name and
/// then moved.
pub fn write(file: &Path, weights: &Vector) -> Result<(), SnapshotError> {
    let failed = |source| SnapshotError::Write { file: file.to_owned(), source };
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.part", std::process::id()));
    let part = file.with_file_name(name);
    let written = fill(&part, weights).and_then(|()| fs::rename(&part, file));
    if written.is_err() {
        // The reason why writing failed is worth more than that of clearing up.
        let _ = fs::remove_file(&part);
    }
    written.map_err(failed)
}

fn fill(file: &Path, weights: &Vector) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(1 << 18, File::create(file)?);
    for weight in weights.iter() {
        out.write_all(&weight.to_le_bytes())?;
    }
    out.into_inner().map_err(io::IntoInnerError::into_error).map(drop)
}

/// Hands over the weights of a snapshot of exactly `weights` weights one after another, without holding them all.
pub fn for_each(file: &Path, weights: usize, mut take: impl FnMut(f32)) -> Result<(), SnapshotError> {
    let failed = |source| SnapshotError::Read { file: file.to_owned(), source };
    let mut input = BufReader::with_capacity(1 << 18, open(file, weights)?);
    let mut four = [0; 4];
    for _ in 0..weights {
        input.read_exact(&mut four).map_err(failed)?;
        take(f32::from_le_bytes(four));
    }
    Ok(())
}

/// Whether a snapshot exists and has the length of `weights` weights.
pub fn check(file: &Path, weights: usize) -> Result<(), SnapshotError> {
    open(file, weights).map(drop)
}

/// A snapshot with the length of `weights` weights.
fn open(file: &Path, weights: usize) -> Result<File, SnapshotError> {
    let failed = |source| SnapshotError::Read { file: file.to_owned(), source };
    let input = File::open(file).map_err(failed)?;
    let bytes = input.metadata().map_err(failed)?.len();
    let weights = weights as u64;
    if bytes != weights.saturating_mul(4) {
        return Err(SnapshotError::Length { file: file.to_owned(), bytes, weights });
    }
    Ok(input)
}

/// Reads a snapshot of exactly `weights` weights; nothing is allocated for a file of another length.
pub fn read(file: &Path, weights: usize) -> Result<Vector, SnapshotError> {
    let failed = |source| SnapshotError::Read { file: file.to_owned(), source };
    let input = open(file, weights)?;
    let weights = weights as u64;
    let bytes = weights * 4;
    let mut content = Vec::with_capacity(bytes as usize);
    input.take(bytes).read_to_end(&mut content).map_err(failed)?;
    if content.len() as u64 != bytes {
        let bytes = content.len() as u64;
        return Err(SnapshotError::Length { file: file.to_owned(), bytes, weights });
    }
    let four = content.chunks_exact(4).map(|four| f32::from_le_bytes([four[0], four[1], four[2], four[3]]));
    Ok(Vector::from(four.collect::<Vec<f32>>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_bit_for_bit() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("rank-0-12.f32");
        let weights =
            Vector::from(vec![1.5, -0.0, f32::MIN_POSITIVE / 4.0, f32::INFINITY, f32::NAN, 3.25e-7]);
        write(&file, &weights).unwrap();
        let bits = |vector: &Vector| vector.iter().map(|weight| weight.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&read(&file, weights.len()).unwrap()), bits(&weights));
        assert_eq!(fs::read(&file).unwrap()[..4], [0, 0, 0xc0, 0x3f]);
        write(&file, &Vector::zeros(2)).unwrap();
        assert_eq!(read(&file, 2).unwrap(), Vector::zeros(2));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing temporary stays");
    }

    #[test]
    fn another_length_and_a_missing_file_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("s.f32");
        write(&file, &Vector::zeros(3)).unwrap();
        let error = read(&file, 4).unwrap_err();
        assert!(matches!(error, SnapshotError::Length { bytes: 12, weights: 4, .. }), "{error}");
        assert!(error.to_string().ends_with("s.f32 has 12 bytes; 4 weights take 16"), "{error}");
        let error = read(&folder.path().join("none"), 4).unwrap_err();
        assert!(matches!(error, SnapshotError::Read { .. }), "{error}");
        let error = write(&folder.path().join("no/where"), &Vector::zeros(1)).unwrap_err();
        assert!(matches!(error, SnapshotError::Write { .. }), "{error}");
    }
}
