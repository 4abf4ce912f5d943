//! The event log of an attempt that has ended: compressed, without the steps that are not kept.
//!
//! It is written beside the log, and takes its place once the database has the attempt's end.

use crate::StoreError;
use crate::journal::event_reader::{EventReader, NAME, PACKED};
use flate2::Compression;
use flate2::write::GzEncoder;
use record::Event;
use std::fs::{self, File};
use std::io::{BufWriter, IntoInnerError, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// The file's name while it is written.
const UNFINISHED: &str = "events.mpk.gz.new";
/// Bytes. A shorter log stays as it is unless steps are left out of it.
const WORTH_IT: u64 = 1 << 20;

/// A packed log that has not taken the place of the other yet; removed unless it does.
#[derive(Debug)]
pub(crate) struct PackedLog {
    directory: PathBuf,
    /// Bytes of its events, as they are read.
    pub(crate) length: u64,
    installed: bool,
}

impl PackedLog {
    /// Packs the log in `directory`, with the events that `keeps` wants. `None` where there is none, or nothing to gain.
    pub(crate) fn write(
        directory: &Path,
        all: bool,
        keeps: impl Fn(&Event) -> bool,
    ) -> Result<Option<Self>, StoreError> {
        let raw = directory.join(NAME);
        let length = fs::metadata(&raw).map_or(0, |data| data.len());
        if length == 0 || all && length < WORTH_IT || directory.join(PACKED).exists() {
            return Ok(None);
        }
        let path = directory.join(UNFINISHED);
        let fault =
            |reason: std::io::Error| StoreError::EventLog { path: path.clone(), reason: reason.to_string() };
        let mut packed = Self { directory: directory.to_owned(), length: 0, installed: false };
        let mut events = EventReader::open(directory)?;
        let file = BufWriter::new(File::create(&path).map_err(fault)?);
        let mut out = GzEncoder::new(file, Compression::default());
        while let Some((event, bytes)) = events.next_encoded()? {
            if keeps(&event) {
                // The length was read from four bytes.
                let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
                out.write_all(&length.to_le_bytes()).and_then(|()| out.write_all(&bytes)).map_err(fault)?;
                packed.length += 4 + u64::from(length);
            }
        }
        let file = out.finish().and_then(|file| file.into_inner().map_err(IntoInnerError::into_error));
        // The other log is removed soon.
        file.and_then(|file| file.sync_all()).map_err(fault)?;
        Ok(Some(packed))
    }

    /// Takes the place of the other log.
    pub(crate) fn install(mut self) -> std::io::Result<()> {
        fs::rename(self.directory.join(UNFINISHED), self.directory.join(PACKED))?;
        self.installed = true;
        fs::remove_file(self.directory.join(NAME))
    }
}

impl Drop for PackedLog {
    fn drop(&mut self) {
        if !self.installed {
            let _ = fs::remove_file(self.directory.join(UNFINISHED));
        }
    }
}

/// Bytes of the events in the packed log of `directory`, up to 4 GiB; `None` if there is none.
pub(crate) fn length(directory: &Path) -> Option<u64> {
    let mut file = File::open(directory.join(PACKED)).ok()?;
    file.seek(SeekFrom::End(-4)).ok()?;
    let mut length = [0; 4];
    file.read_exact(&mut length).ok()?;
    Some(u64::from(u32::from_le_bytes(length)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EventLog;
    use record::{LinkRecord, Rank};

    fn link(bytes: u64) -> Event {
        Event::Link(LinkRecord { from: Rank(0), to: Rank(1), bytes, messages: 1 })
    }

    fn odd(event: &Event) -> bool {
        matches!(event, Event::Link(link) if link.bytes % 2 == 1)
    }

    #[test]
    fn it_holds_what_is_kept_and_takes_the_place_of_the_other_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let events: Vec<Event> = (0..1_000).map(link).collect();
        EventLog::open(folder.path()).unwrap().append(&events).unwrap();
        assert!(PackedLog::write(folder.path(), true, |_| true).unwrap().is_none(), "nothing to gain");
        drop(PackedLog::write(folder.path(), false, odd).unwrap().unwrap());
        assert_eq!(EventLog::read(folder.path()).unwrap(), events, "it was not wanted after all");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        let packed = PackedLog::write(folder.path(), false, odd).unwrap().unwrap();
        let length = packed.length;
        packed.install().unwrap();
        let kept: Vec<Event> = events.into_iter().filter(odd).collect();
        assert_eq!(EventLog::read(folder.path()).unwrap(), kept);
        assert_eq!(
            (EventLog::length(folder.path()), fs::read_dir(folder.path()).unwrap().count()),
            (length, 1)
        );
        let file = folder.path().join(PACKED);
        let whole = fs::read(&file).unwrap();
        assert!((whole.len() as u64) < length / 4);
        // A torn end costs the events that are not whole, and nothing else.
        for cut in [whole.len() - 1, whole.len() - 9, whole.len() / 2, 1] {
            fs::write(&file, &whole[..cut]).unwrap();
            let read = EventLog::read(folder.path()).unwrap();
            assert_eq!(read[..], kept[..read.len()]);
            assert!(cut > whole.len() / 2 || read.len() < kept.len());
        }
    }
}
