//! Reads the events of a log, compressed or not, one after the other.

use crate::StoreError;
use flate2::read::GzDecoder;
use record::Event;
use std::fs::File;
use std::io::{BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};

/// The file's name in the attempt's directory.
pub(crate) const NAME: &str = "events.mpk";
/// That of the compressed log, which takes its place.
pub(crate) const PACKED: &str = "events.mpk.gz";

/// Bytes. No event is longer; a greater length means that the file is damaged.
pub(crate) const LONGEST: u32 = 1 << 28;

/// Bytes of the events that are held at once, beside the last of them.
const BATCH_BYTES: u64 = 64 << 20;

/// The events of a log, a batch at a time: a log may be larger than memory.
pub(crate) struct EventReader {
    path: PathBuf,
    file: Box<dyn Read + Send>,
    /// Offset in bytes of the end of the last event read.
    at: u64,
    /// Bytes that a compressed log must not exceed.
    most: u64,
    /// The error that ended the log; returned after the events before it.
    failure: Option<StoreError>,
}

impl EventReader {
    /// Opens the log in `directory`.
    pub(crate) fn open(directory: &Path) -> Result<Self, StoreError> {
        let path = file_of(directory);
        match File::open(&path) {
            Ok(file) if path.ends_with(PACKED) => {
                Ok(Self { path, file: Box::new(unpacked(file)), at: 0, most: u64::MAX, failure: None })
            }
            Ok(file) => {
                Ok(Self { path, file: Box::new(BufReader::new(file)), at: 0, most: u64::MAX, failure: None })
            }
            Err(cause) => Err(StoreError::EventLog { path, reason: cause.to_string() }),
        }
    }

    /// Refuses a compressed log whose events have more bytes: a small file may unpack to any number.
    pub(crate) fn within(mut self, most: u64) -> Self {
        if self.path.ends_with(PACKED) {
            self.most = most;
        }
        self
    }

    /// The next events, at most `most`; none at the end or at a torn record.
    pub(crate) fn next_batch(&mut self, most: usize) -> Result<Vec<Event>, StoreError> {
        let mut events = Vec::new();
        let enough = self.at.saturating_add(BATCH_BYTES);
        while events.len() < most && self.at < enough && self.failure.is_none() {
            match self.next_event() {
                Ok(Some(event)) => events.push(event),
                Ok(None) => return Ok(events),
                Err(error) => self.failure = Some(error),
            }
        }
        match self.failure.take_if(|_| events.is_empty()) {
            Some(error) => Err(error),
            None => Ok(events),
        }
    }

    pub(crate) fn next_event(&mut self) -> Result<Option<Event>, StoreError> {
        Ok(self.next_encoded()?.map(|(event, _)| event))
    }

    /// The next event, and the bytes that it was read from; none at the end or at a torn record.
    pub(crate) fn next_encoded(&mut self) -> Result<Option<(Event, Vec<u8>)>, StoreError> {
        let record = match next_record(&mut self.file) {
            // A compressed log whose end is missing.
            Err(cause) if cause.kind() == ErrorKind::UnexpectedEof => return Ok(None),
            record => record.map_err(|cause| self.error(cause.to_string()))?,
        };
        let Some(record) = record else { return Ok(None) };
        let event =
            Event::decode(&record).map_err(|cause| self.error(format!("at byte {}: {cause}", self.at)))?;
        self.at += 4 + record.len() as u64;
        if self.at > self.most {
            return Err(
                self.error(format!("it unpacks to more than the {} bytes that its journal says", self.most))
            );
        }
        Ok(Some((event, record)))
    }

    /// Bytes of the complete events read.
    pub(crate) fn at(&self) -> u64 {
        self.at
    }

    fn error(&self, reason: String) -> StoreError {
        StoreError::EventLog { path: self.path.clone(), reason }
    }
}

/// The log in `directory`, compressed or not, or where it would be.
pub(crate) fn file_of(directory: &Path) -> PathBuf {
    let packed = directory.join(PACKED);
    if packed.exists() { packed } else { directory.join(NAME) }
}

/// The next complete record; `None` at the end or at a torn one.
pub(crate) fn next_record(file: &mut impl Read) -> std::io::Result<Option<Vec<u8>>> {
    let mut length = Vec::with_capacity(4);
    file.take(4).read_to_end(&mut length)?;
    let Ok(length) = <[u8; 4]>::try_from(length) else { return Ok(None) };
    let length = u32::from_le_bytes(length);
    if length > LONGEST {
        return Ok(None);
    }
    let mut record = Vec::new();
    file.take(u64::from(length)).read_to_end(&mut record)?;
    Ok((record.len() == length as usize).then_some(record))
}

/// The events' bytes of a packed log.
fn unpacked(file: File) -> impl Read {
    BufReader::new(GzDecoder::new(BufReader::new(file)))
}
