//! Tar, as far as data sets need it: the files of an archive one after another, and nothing else of it.
//!
//! A file is a head of 512 bytes (name at 0, size in octal digits at 124, checksum at 148, type at 156, prefix at
//! 345), then its bytes, padded to 512. Names are only looked at, never used as paths. Entries of any other type
//! (folders, links, long names, further attributes) are skipped: none is needed, and none can do harm.
//! Source: POSIX.1-1988, `ustar`.

use std::io::{self, Read};

const BLOCK: usize = 512;

/// An archive that is read from its beginning to its end.
pub(crate) struct Tar<R> {
    reader: R,
    /// Bytes of the current entry that were not read, and its padding.
    rest: u64,
    padding: u64,
}

/// A file in an archive.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// Its path, as it is written there.
    pub(crate) path: Vec<u8>,
    /// Length of its content in bytes.
    pub(crate) bytes: u64,
}

impl<R: Read> Tar<R> {
    /// Reads an archive from its beginning, where `reader` stands.
    pub(crate) fn new(reader: R) -> Self {
        Self { reader, rest: 0, padding: 0 }
    }

    /// Skips to the next file; nothing at the end.
    pub(crate) fn next(&mut self) -> io::Result<Option<Head>> {
        loop {
            let over = self.rest + self.padding;
            let skipped = io::copy(&mut self.reader.by_ref().take(over), &mut io::sink())?;
            if skipped < over {
                return Err(damaged("it ends inside a file"));
            }
            (self.rest, self.padding) = (0, 0);
            let mut block = [0; BLOCK];
            match self.reader.read_exact(&mut block) {
                // Some archives lack the empty blocks of the end.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
                read => read?,
            }
            if block.iter().all(|byte| *byte == 0) {
                return Ok(None);
            }
            let (head, kind) = read(&block)?;
            self.rest = head.bytes;
            self.padding = head.bytes.next_multiple_of(BLOCK as u64) - head.bytes;
            if matches!(kind, b'0' | 0) {
                return Ok(Some(head));
            }
        }
    }
}

impl<R: Read> Read for Tar<R> {
    /// The bytes of the current file.
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let most = bytes.len().min(usize::try_from(self.rest).unwrap_or(usize::MAX));
        if most == 0 {
            return Ok(0);
        }
        let count = self.reader.read(&mut bytes[..most])?;
        if count == 0 {
            return Err(damaged("it ends inside a file"));
        }
        self.rest -= count as u64;
        Ok(count)
    }
}

fn read(block: &[u8; BLOCK]) -> io::Result<(Head, u8)> {
    let sum: u64 = block.iter().map(|byte| u64::from(*byte)).sum();
    let own: u64 = block[148..156].iter().map(|byte| u64::from(*byte)).sum();
    // The checksum's own eight bytes count as spaces.
    if octal(&block[148..156]) != Some(sum - own + 8 * u64::from(b' ')) {
        return Err(damaged("a head has a wrong checksum"));
    }
    let text = |field: &[u8]| field.split(|byte| *byte == 0).next().unwrap_or_default().to_vec();
    let name = text(&block[..100]);
    let prefix = text(&block[345..500]);
    let has_prefix = &block[257..263] == b"ustar\0" && !prefix.is_empty();
    let path = if has_prefix { [prefix, name].join(&b'/') } else { name };
    let bytes = octal(&block[124..136]).ok_or_else(|| damaged("a head has no length"))?;
    Ok((Head { path, bytes }, block[156]))
}

/// Octal digits between spaces and zeros; at most 12 of them, so that no sum can be too large.
fn octal(field: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(field).ok()?.trim_matches([' ', '\0']);
    u64::from_str_radix(text, 8).ok()
}

fn damaged(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("it is a damaged tar archive: {what}"))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// An entry as `tar` writes it.
    pub(crate) fn entry(path: &str, kind: u8, content: &[u8]) -> Vec<u8> {
        let mut block = vec![0; BLOCK];
        block[..path.len()].copy_from_slice(path.as_bytes());
        block[124..135].copy_from_slice(format!("{:011o}", content.len()).as_bytes());
        block[148..156].copy_from_slice(b"        ");
        block[156] = kind;
        block[257..265].copy_from_slice(b"ustar  \0");
        let sum: u64 = block.iter().map(|byte| u64::from(*byte)).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        block.extend_from_slice(content);
        block.resize(block.len().next_multiple_of(BLOCK), 0);
        block
    }

    fn files(bytes: &[u8]) -> io::Result<Vec<(String, Vec<u8>)>> {
        let mut tar = Tar::new(bytes);
        let mut files = Vec::new();
        while let Some(head) = tar.next()? {
            let mut content = Vec::new();
            // Every other file is left half read.
            let most = if files.len() % 2 == 0 { head.bytes } else { head.bytes / 2 };
            tar.by_ref().take(most).read_to_end(&mut content)?;
            files.push((String::from_utf8(head.path).unwrap(), content));
        }
        Ok(files)
    }

    #[test]
    fn files_come_in_order_and_everything_else_is_skipped() {
        let long = vec![7; 1000];
        let whole = [
            entry("folder/", b'5', &[]),
            entry("folder/a.bin", b'0', &long),
            entry("././@LongLink", b'L', b"a long name"),
            entry("link", b'2', &[]),
            entry("half", 0, b"1234"),
            entry("empty", b'0', &[]),
            vec![0; 1024],
            b"whatever follows the end".to_vec(),
        ]
        .concat();
        let found = files(&whole).unwrap();
        let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["folder/a.bin", "half", "empty"]);
        assert_eq!((&found[0].1, found[1].1.as_slice()), (&long, &b"12"[..]));
    }

    #[test]
    fn what_the_system_packs_is_read() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("set")).unwrap();
        std::fs::write(folder.path().join("set/a.bin"), [9; 700]).unwrap();
        let made =
            std::process::Command::new("tar").args(["cf", "-", "set"]).current_dir(&folder).output().unwrap();
        assert_eq!(files(&made.stdout).unwrap(), [("set/a.bin".to_owned(), vec![9; 700])]);
    }

    #[test]
    fn damage_is_an_error_and_never_a_panic() {
        let whole = [entry("a", b'0', &[1; 600]), vec![0; 1024]].concat();
        for length in 1..BLOCK + 600 {
            let cut = files(&whole[..length]);
            // A head that is cut off reads as the end; a file that is cut off does not.
            assert_eq!(cut.is_err(), length >= BLOCK, "{length}");
        }
        for place in 0..BLOCK {
            let mut changed = whole.clone();
            changed[place] ^= 0x15;
            let _ = files(&changed);
        }
        let mut changed = whole;
        changed[0] = b'b';
        assert!(files(&changed).unwrap_err().to_string().contains("checksum"));
    }
}
