//! What a driver does, written down beside what its runs report: a file of JSON lines per sweep.
//!
//! With the event logs it is all that the database holds, so that the database can be made again. A line is
//! written before the database's transaction ends. Whoever writes may be killed at any byte: a torn last line is
//! normal, is left out, and is cut off by whoever writes next.

use crate::sweep::SweepEnd;
use crate::{AttemptEnd, Driver, NodeRow, StoreError};
use recipe::Plan;
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long another process may keep a journal locked, and between two looks.
const PATIENCE: Duration = Duration::from_secs(10);
const GLANCE: Duration = Duration::from_millis(10);

/// Where journals and the runs' own directories lie.
pub(crate) const RUNS: &str = "runs";

/// Something that a driver did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Entry {
    /// It began a sweep; a journal's first line.
    Sweep(Box<SweepEntry>),
    /// It found out what makes a run the same as another.
    Identity { run: String, identity: String },
    /// It took a run's result from an earlier one.
    Reused { run: String, source: String },
    /// It began to try a run, on these machines.
    Attempt { run: String, number: u32, started: i64, nodes: Vec<NodeRow> },
    /// Something happened to an attempt.
    Note { run: String, number: u32, time: i64, state: String, text: String },
    /// An attempt ended, with an event log of so many bytes.
    AttemptEnd { run: String, number: u32, end: AttemptEnd, log: u64 },
    /// The sweep ended; no time is known where its driver was killed.
    SweepEnd { end: SweepEnd, time: Option<i64> },
    /// A page was made.
    Page { selection: String, path: String, sha256: String, created: i64 },
}

/// A sweep as its driver began it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SweepEntry {
    pub(crate) sweep: String,
    /// In the order of the plan.
    pub(crate) runs: Vec<String>,
    pub(crate) recipe_path: String,
    pub(crate) argv: Vec<String>,
    pub(crate) version: String,
    pub(crate) commit: Option<(String, bool)>,
    pub(crate) started: i64,
    pub(crate) driver: Driver,
    pub(crate) plan: Plan,
}

/// The journal of a sweep in the store's folder.
pub(crate) fn of_sweep(folder: &Path, sweep: &str) -> PathBuf {
    folder.join(RUNS).join(format!("sweep-{sweep}.jsonl"))
}

/// The journal of the pages that were made.
pub(crate) fn of_pages(folder: &Path) -> PathBuf {
    folder.join(RUNS).join("pages.jsonl")
}

/// The journals of all sweeps, oldest first.
pub(crate) fn all(folder: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let runs = folder.join(RUNS);
    let list = || -> io::Result<Vec<PathBuf>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(&runs)? {
            let path = entry?.path();
            let named =
                |part: Option<&OsStr>| part.and_then(OsStr::to_str).map(str::to_owned).unwrap_or_default();
            if named(path.file_stem()).starts_with("sweep-") && named(path.extension()) == "jsonl" {
                found.push(path);
            }
        }
        // Ids sort by time.
        found.sort();
        Ok(found)
    };
    match list() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        list => list.map_err(|source| StoreError::Folder { path: runs.clone(), source }),
    }
}

/// Appends a line. What could not be written whole is taken back.
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
        })
    };
    write().map_err(|error| StoreError::Journal { path: path.to_owned(), reason: error.to_string() })
}

/// Held for one write, so that whoever cannot have it for long waits for somebody who hangs.
fn lock(file: &File) -> io::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => std::thread::sleep(GLANCE),
            Err(TryLockError::WouldBlock) => {
                let seconds = PATIENCE.as_secs();
                return Err(io::Error::other(format!("another process kept it locked for {seconds} s")));
            }
        }
    }
}

/// Where the last whole line ends.
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

/// What could be read of a journal, and why the rest could not.
#[derive(Debug, Default)]
pub(crate) struct Pages {
    pub(crate) entries: Vec<Entry>,
    pub(crate) unread: Vec<String>,
}

/// Reads a journal; a torn last line is left out.
pub(crate) fn read(path: &Path) -> Result<Pages, StoreError> {
    let fault = |error: io::Error| StoreError::Journal { path: path.to_owned(), reason: error.to_string() };
    let mut file = BufReader::new(File::open(path).map_err(fault)?);
    let mut pages = Pages::default();
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        file.read_until(b'\n', &mut line).map_err(fault)?;
        if line.pop() != Some(b'\n') {
            break;
        }
        match serde_json::from_slice(&line) {
            Ok(entry) => pages.entries.push(entry),
            Err(error) => pages.unread.push(format!("line {number}: {error}")),
        }
    }
    Ok(pages)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(run: &str) -> Entry {
        Entry::Identity { run: run.to_owned(), identity: "same".to_owned() }
    }

    #[test]
    fn a_journal_cut_at_any_byte_keeps_its_whole_lines_and_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let path = of_sweep(folder.path(), "A");
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
        assert_eq!(all(folder.path()).unwrap(), [path]);
    }

    #[test]
    fn a_line_that_is_no_entry_is_told_and_the_others_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = of_pages(folder.path());
        append(&path, &entry("1")).unwrap();
        let mut bytes = fs::read(&path).unwrap();
        bytes.extend(b"{\"unheard-of\": 1}\n");
        fs::write(&path, bytes).unwrap();
        append(&path, &entry("2")).unwrap();
        let pages = read(&path).unwrap();
        assert_eq!(pages.entries, [entry("1"), entry("2")]);
        assert!(pages.unread.len() == 1 && pages.unread[0].starts_with("line 2: "), "{:?}", pages.unread);
    }
}
