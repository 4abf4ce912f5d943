//! The events of an attempt in its own directory, from which the database can be rebuilt.
//!
//! `events.mpk` is a list of records: the length in 4 bytes, little-endian, then that many bytes of MessagePack. The
//! writer may be killed at any byte: a torn last record is normal, is ignored by readers, and is cut off by the next
//! append. When the attempt has ended, `events.mpk.gz` takes its place: the same list, compressed, without the steps that are
//! not kept (`packed_log.rs`).

use crate::StoreError;
use crate::journal::event_reader::{self, EventReader, LONGEST, next_record};
use crate::journal::packed_log;
use record::Event;
use std::fs::{File, OpenOptions};
use std::io::{BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// The event log of an attempt.
#[derive(Debug)]
pub struct EventLog {
    path: PathBuf,
    file: File,
}

impl EventLog {
    /// The file's name in the attempt's directory.
    pub const NAME: &str = event_reader::NAME;

    /// Opens the log in `directory` for appending and cuts off a torn end.
    pub fn open(directory: &Path) -> Result<Self, StoreError> {
        let path = directory.join(Self::NAME);
        let open = || -> std::io::Result<File> {
            std::fs::create_dir_all(directory)?;
            let mut file =
                OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path)?;
            let whole = whole_length(&mut file)?;
            file.set_len(whole)?;
            file.seek(SeekFrom::Start(whole))?;
            Ok(file)
        };
        match open() {
            Ok(file) => Ok(Self { path, file }),
            Err(error) => Err(StoreError::EventLog { path, reason: error.to_string() }),
        }
    }

    /// Appends events with one write.
    pub fn append(&mut self, events: &[Event]) -> Result<(), StoreError> {
        let mut bytes = Vec::with_capacity(events.len() * 256);
        for event in events {
            let record = event.encode().map_err(|error| self.error(error))?;
            let length = u32::try_from(record.len())
                .ok()
                .filter(|length| *length <= LONGEST)
                .ok_or_else(|| self.error(format!("an event of {} bytes is too long", record.len())))?;
            bytes.extend(length.to_le_bytes());
            bytes.extend(record);
        }
        self.file.write_all(&bytes).map_err(|error| self.error(error))
    }

    /// All complete events of the log in `directory`, in order.
    ///
    /// # Errors
    /// [`StoreError::EventLog`] if there is no log, or a complete record is no event of this version.
    pub fn read(directory: &Path) -> Result<Vec<Event>, StoreError> {
        Self::events(directory)?.collect()
    }

    /// Like [`EventLog::read`], one event at a time: a log may be larger than memory.
    ///
    /// # Errors
    /// [`StoreError::EventLog`] if there is no log; each item may be an error as with [`EventLog::read`].
    pub fn events(directory: &Path) -> Result<impl Iterator<Item = Result<Event, StoreError>>, StoreError> {
        let mut reader = EventReader::open(directory)?;
        Ok(std::iter::from_fn(move || reader.next_event().transpose()))
    }

    /// Bytes of the log in `directory`, as it is read; 0 if there is none.
    pub(crate) fn length(directory: &Path) -> u64 {
        let raw = || std::fs::metadata(directory.join(Self::NAME)).map_or(0, |data| data.len());
        packed_log::length(directory).unwrap_or_else(raw)
    }

    fn error(&self, reason: impl ToString) -> StoreError {
        StoreError::EventLog { path: self.path.clone(), reason: reason.to_string() }
    }
}

/// The length in bytes up to the end of the last complete record.
fn whole_length(file: &mut File) -> std::io::Result<u64> {
    let mut reader = BufReader::new(file);
    let mut whole = 0;
    while let Some(record) = next_record(&mut reader)? {
        whole += 4 + record.len() as u64;
    }
    Ok(whole)
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::{LinkRecord, Rank};

    fn link(bytes: u64) -> Event {
        Event::Link(LinkRecord { from: Rank(0), to: Rank(1), bytes, messages: 1 })
    }

    #[test]
    fn a_log_cut_at_any_byte_keeps_its_whole_events_and_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let events: Vec<Event> = (0..3).map(link).collect();
        let mut log = EventLog::open(folder.path()).unwrap();
        log.append(&events[..2]).unwrap();
        let two = std::fs::metadata(folder.path().join(EventLog::NAME)).unwrap().len();
        log.append(&events[2..]).unwrap();
        let whole = std::fs::read(folder.path().join(EventLog::NAME)).unwrap();
        for length in two..whole.len() as u64 {
            std::fs::write(folder.path().join(EventLog::NAME), &whole[..length as usize]).unwrap();
            assert_eq!(EventLog::read(folder.path()).unwrap(), events[..2]);
            EventLog::open(folder.path()).unwrap().append(&[link(9)]).unwrap();
            assert_eq!(EventLog::read(folder.path()).unwrap(), [link(0), link(1), link(9)]);
        }
    }

    #[test]
    fn a_whole_record_that_is_no_event_is_an_error_that_says_where() {
        let folder = tempfile::tempdir().unwrap();
        EventLog::open(folder.path()).unwrap().append(&[link(0)]).unwrap();
        let mut bytes = std::fs::read(folder.path().join(EventLog::NAME)).unwrap();
        let at = bytes.len();
        bytes.extend([1, 0, 0, 0, 0xc1]);
        std::fs::write(folder.path().join(EventLog::NAME), bytes).unwrap();
        let error = EventLog::read(folder.path()).unwrap_err().to_string();
        assert!(error.contains(&format!("at byte {at}")), "{error}");
        assert!(EventLog::read(&folder.path().join("absent")).is_err());
    }
}
