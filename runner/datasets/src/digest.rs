//! SHA-256 of files, and of what passes by.

use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

/// Bytes that are read at once.
pub(crate) const PIECE: usize = 1 << 17;

/// Length and SHA-256 of a file, in hexadecimal.
pub(crate) fn of_file(path: &Path) -> io::Result<(u64, String)> {
    of_reader(&mut File::open(path)?)
}

/// Length and SHA-256 of everything that comes.
pub(crate) fn of_reader(reader: &mut dyn Read) -> io::Result<(u64, String)> {
    let mut sum = Sum::new(io::sink());
    let mut piece = vec![0; PIECE];
    loop {
        match reader.read(&mut piece) {
            Ok(0) => return Ok((sum.bytes, sum.hex())),
            Ok(count) => sum.write_all(&piece[..count])?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// A writer that counts and digests what it hands on.
pub(crate) struct Sum<W> {
    out: W,
    hasher: Sha256,
    /// Number of bytes that have passed.
    pub(crate) bytes: u64,
}

impl<W: Write> Sum<W> {
    /// Nothing has passed yet.
    pub(crate) fn new(out: W) -> Self {
        Self { out, hasher: Sha256::new(), bytes: 0 }
    }

    /// The digest of everything that passed, in hexadecimal.
    pub(crate) fn hex(self) -> String {
        use std::fmt::Write;
        self.hasher.finalize().iter().fold(String::with_capacity(64), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
    }
}

impl<W: Write> Write for Sum<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.out.write(bytes)?;
        self.hasher.update(&bytes[..count]);
        self.bytes += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_of_a_known_text_is_the_known_one() {
        // FIPS 180-2, appendix B.1.
        let (bytes, hex) = of_reader(&mut &b"abc"[..]).unwrap();
        assert_eq!(bytes, 3);
        assert_eq!(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
