//! A journal: a file of JSON lines, one entry each.
//!
//! A line is written before the database's transaction commits. The writer may be killed at any byte: a torn last line
//! is normal, is ignored by readers, and is cut off by the next writer.

use crate::StoreError;
use crate::journal::entries::Entry;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::{Duration, Instant};

/// How long a writer waits for another process that holds the lock.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);
/// Between two tries to lock.
const RETRY: Duration = Duration::from_millis(10);

/// Appends a line. A line that cannot be written completely is removed again.
pub(crate) fn append(path: &Path, entry: &Entry) -> Result<(), StoreError> {
    let write = || -> io::Result<()> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let mut line = serde_json::to_vec(entry)?;
        line.push(b'\n');
        let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        lock(&file)?;
        let whole = whole_length(&mut file)?;
        file.set_len(whole)?;
        file.seek(SeekFrom::Start(whole))?;
        file.write_all(&line).inspect_err(|_| {
            // A torn line would be cut off by the next writer too.
            let _ = file.set_len(whole);
        })?;
        // Without this, a power cut could take a sweep's plan, or the results of a run.
        if matches!(entry, Entry::Sweep(_) | Entry::AttemptEnd { .. }) { file.sync_data() } else { Ok(()) }
    };
    write().map_err(|error| StoreError::Journal { path: path.to_owned(), reason: error.to_string() })
}

/// The lock is held for one write only: a process that holds it for longer hangs.
fn lock(file: &File) -> io::Result<()> {
    let deadline = Instant::now() + LOCK_TIMEOUT;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => std::thread::sleep(RETRY),
            Err(TryLockError::WouldBlock) => {
                let seconds = LOCK_TIMEOUT.as_secs();
                return Err(io::Error::other(format!("another process kept it locked for {seconds} s")));
            }
        }
    }
}

/// The length in bytes up to the end of the last complete line.
fn whole_length(file: &mut File) -> io::Result<u64> {
    let length = file.metadata()?.len();
    if length == 0 {
        return Ok(0);
    }
    file.seek(SeekFrom::End(-1))?;
    let mut last = [0];
    file.read_exact(&mut last)?;
    if last == *b"\n" {
        return Ok(length);
    }
    file.seek(SeekFrom::Start(0))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end as u64 + 1))
}

/// The readable entries of a journal, and for each unreadable line the reason.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    pub(crate) entries: Vec<Entry>,
    pub(crate) unread: Vec<String>,
}

/// Reads a journal; a torn last line is ignored.
pub(crate) fn read(path: &Path) -> Result<Lines, StoreError> {
    let fault = |error: io::Error| StoreError::Journal { path: path.to_owned(), reason: error.to_string() };
    let mut file = BufReader::new(File::open(path).map_err(fault)?);
    let mut lines = Lines::default();
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        file.read_until(b'\n', &mut line).map_err(fault)?;
        if line.pop() != Some(b'\n') {
            break;
        }
        match serde_json::from_slice(&line) {
            Ok(entry) => lines.entries.push(entry),
            Err(error) => lines.unread.push(format!("line {number}: {error}")),
        }
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout;

    fn entry(run: &str) -> Entry {
        Entry::Identity { run: run.to_owned(), identity: "same".to_owned() }
    }

    #[test]
    fn a_journal_cut_at_any_byte_keeps_its_whole_lines_and_can_be_appended_to() {
        let folder = tempfile::tempdir().unwrap();
        let path = layout::sweep_journal(folder.path(), "A");
        append(&path, &entry("1")).unwrap();
        let one = fs::metadata(&path).unwrap().len();
        append(&path, &entry("2")).unwrap();
        let whole = fs::read(&path).unwrap();
        for length in one..whole.len() as u64 {
            fs::write(&path, &whole[..length as usize]).unwrap();
            assert_eq!(read(&path).unwrap().entries, [entry("1")]);
            append(&path, &entry("3")).unwrap();
            assert_eq!(read(&path).unwrap().entries, [entry("1"), entry("3")]);
        }
        assert_eq!(layout::sweep_journals(folder.path()).unwrap(), [path]);
    }

    #[test]
    fn a_line_that_is_no_entry_is_reported_and_the_others_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = layout::page_journal(folder.path());
        append(&path, &entry("1")).unwrap();
        let mut bytes = fs::read(&path).unwrap();
        bytes.extend(b"{\"unheard-of\": 1}\n");
        fs::write(&path, bytes).unwrap();
        append(&path, &entry("2")).unwrap();
        let lines = read(&path).unwrap();
        assert_eq!(lines.entries, [entry("1"), entry("2")]);
        assert!(lines.unread.len() == 1 && lines.unread[0].starts_with("line 2: "), "{:?}", lines.unread);
    }
}
