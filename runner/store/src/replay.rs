//! What the journals of the sweeps and the event logs of their attempts say, done again in a new database, by the very
//! statements that filled the old one. What cannot be read is told by its path and left out.

use crate::attempt::{self, AttemptEnd, NewAttempt};
use crate::error::result_code;
use crate::event_log::EventReader;
use crate::journal::{self, Entry, RUNS, SweepEntry};
use crate::open::Store;
use crate::rebuild::{Rebuilding, Rebuilt, Unread};
use crate::sweep::{self, NewReport};
use crate::{AttemptId, EventLog, NodeId, NodeRow, RunId, RunState, StoreError, SweepId, ingest, summary};
use sqlx::sqlite::SqliteConnection;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// Events taken at once.
const BATCH: usize = 4096;

/// Does again what the journals say.
pub(crate) struct Replay<'a> {
    folder: &'a Path,
    pub(crate) rebuilt: Rebuilt,
    done: Rebuilding,
    /// Runs that took their result from another; that one may be of a later sweep.
    reused: Vec<(PathBuf, String, String)>,
    /// Directories of attempts that are told of.
    known: BTreeSet<String>,
}

/// Without the ends of attempts that were written again: what a full disk did not let the database keep, it is told twice.
fn last_ends(entries: Vec<Entry>) -> impl Iterator<Item = Entry> {
    let ends = |entry: &Entry| match entry {
        Entry::AttemptEnd { run, number, .. } => Some((run.clone(), *number)),
        _ => None,
    };
    let last: BTreeMap<(String, u32), usize> =
        entries.iter().enumerate().filter_map(|(at, entry)| Some((ends(entry)?, at))).collect();
    let kept = move |(at, entry): (usize, Entry)| {
        ends(&entry).is_none_or(|attempt| last.get(&attempt) == Some(&at)).then_some(entry)
    };
    entries.into_iter().enumerate().filter_map(kept)
}

/// The sweep under way.
struct Sweep {
    entry: SweepEntry,
    attempts: BTreeMap<(String, u32), AttemptId>,
    /// Attempts without an end.
    open: BTreeSet<(String, u32)>,
}

impl<'a> Replay<'a> {
    pub(crate) fn new(folder: &'a Path, journals: &[PathBuf]) -> Self {
        let logs = attempt_directories(folder).into_iter().map(|path| EventLog::length(&path)).sum();
        Self {
            folder,
            rebuilt: Rebuilt::default(),
            done: Rebuilding { sweeps: (0, journals.len()), bytes: (0, logs) },
            reused: Vec::new(),
            known: BTreeSet::new(),
        }
    }

    pub(crate) async fn all(
        &mut self,
        store: &Store,
        journals: &[PathBuf],
        progress: &mut impl FnMut(Rebuilding),
    ) -> Result<(), StoreError> {
        for path in journals {
            progress(self.done);
            let mut transaction = store.writer.begin_with("BEGIN IMMEDIATE").await?;
            self.sweep(&mut transaction, path, progress).await?;
            transaction.commit().await?;
            self.done.sweeps.0 += 1;
        }
        progress(self.done);
        let mut transaction = store.writer.begin_with("BEGIN IMMEDIATE").await?;
        for (path, run, source) in std::mem::take(&mut self.reused) {
            let reused = sweep::reuse(&mut transaction, &RunId(run.clone()), &RunId(source.clone())).await;
            self.survive(reused, &path, || format!("run {run} has its result from run {source}"))?;
        }
        self.pages(&mut transaction).await?;
        transaction.commit().await?;
        self.strangers();
        Ok(())
    }

    async fn sweep(
        &mut self,
        connection: &mut SqliteConnection,
        path: &Path,
        progress: &mut impl FnMut(Rebuilding),
    ) -> Result<(), StoreError> {
        let Some(pages) = self.read(path) else { return Ok(()) };
        let mut entries = pages.into_iter();
        let Some(Entry::Sweep(entry)) = entries.next() else {
            self.unread(path, "it does not begin with the sweep's plan, so that nothing of it can be used");
            return Ok(());
        };
        let entered = sweep::enter(connection, &entry).await;
        if !self.survive(entered, path, || "the sweep's plan".to_owned())? {
            return Ok(());
        }
        self.rebuilt.sweeps += 1;
        let mut sweep = Sweep { entry: *entry, attempts: BTreeMap::new(), open: BTreeSet::new() };
        for entry in last_ends(entries.collect()) {
            let done = self.entry(connection, (path, &mut sweep), &entry).await;
            self.survive(done, path, || brief(&entry))?;
            progress(self.done);
        }
        for place in std::mem::take(&mut sweep.open) {
            let done = self.unfinished(connection, &sweep, &place).await;
            self.survive(done, path, || format!("attempt {} of run {}", place.1, place.0))?;
        }
        Ok(())
    }

    async fn entry(
        &mut self,
        connection: &mut SqliteConnection,
        (path, sweep): (&Path, &mut Sweep),
        entry: &Entry,
    ) -> Result<(), StoreError> {
        match entry {
            Entry::Identity { run, identity } => {
                sweep::identify(connection, &RunId(run.clone()), identity).await
            }
            Entry::Reused { run, source } => {
                self.reused.push((path.to_owned(), run.clone(), source.clone()));
                Ok(())
            }
            Entry::Attempt { run, number, started, nodes } => {
                let id = sweep.begin(connection, (run, *number), (*started, nodes)).await?;
                self.rebuilt.attempts += 1;
                self.known.insert(run.clone());
                sweep.attempts.insert((run.clone(), *number), id);
                sweep.open.insert((run.clone(), *number));
                Ok(())
            }
            Entry::Note { run, number, time, state, text } => {
                attempt::insert_event(connection, sweep.attempt(run, *number)?, (*time, state, text)).await
            }
            Entry::AttemptEnd { run, number, end, log } => {
                let id = sweep.attempt(run, *number)?;
                sweep.open.remove(&(run.clone(), *number));
                // What was cut short may have ended in the middle of an event.
                let promised =
                    (!matches!(end.state, RunState::Failed | RunState::Interrupted)).then_some(*log);
                let whole = self.events(connection, id, (run, *number), promised).await?;
                let end = whole.map_or_else(|reason| incomplete(end, &reason), |()| end.clone());
                let summary = summary::of(connection, id).await?;
                attempt::close(connection, (id, &summary), &end).await
            }
            Entry::SweepEnd { end, time } => {
                sweep::close(connection, &SweepId(sweep.entry.sweep.clone()), (*end, *time)).await
            }
            Entry::Sweep(_) | Entry::Page { .. } => Err(StoreError::Value {
                what: "line of a journal",
                value: "a second sweep, or a page".to_owned(),
            }),
        }
    }

    /// An attempt whose driver was killed: its books are closed by whoever opens the store next.
    async fn unfinished(
        &mut self,
        connection: &mut SqliteConnection,
        sweep: &Sweep,
        (run, number): &(String, u32),
    ) -> Result<(), StoreError> {
        let id = sweep.attempt(run, *number)?;
        // Nothing that a killed driver leaves was promised to be whole.
        let _ = self.events(connection, id, (run, *number), None).await?;
        let written = fs::metadata(self.directory(run, *number).join(EventLog::NAME));
        let written = written.and_then(|data| data.modified()).ok();
        let Some(time) = written.and_then(|time| time.duration_since(UNIX_EPOCH).ok()) else { return Ok(()) };
        sqlx::query("UPDATE attempt SET heartbeat_unix = max(heartbeat_unix, ?) WHERE id = ?")
            .bind(crate::value::int(time.as_secs()))
            .bind(id.0)
            .execute(connection)
            .await?;
        Ok(())
    }

    /// Keeps what an attempt reported; answers why it is less than the log once held, which is told too.
    async fn events(
        &mut self,
        connection: &mut SqliteConnection,
        id: AttemptId,
        (run, number): (&str, u32),
        promised: Option<u64>,
    ) -> Result<Result<(), String>, StoreError> {
        let directory = self.directory(run, number);
        let path = directory.join(EventLog::NAME);
        if promised.unwrap_or(0) == 0 && !path.exists() {
            return Ok(Ok(()));
        }
        let before = self.done.bytes.0;
        let read = self.read_log(connection, id, &directory).await;
        let at = self.done.bytes.0 - before;
        let reason = match read {
            Ok(()) if promised.is_none_or(|promised| at >= promised) => return Ok(Ok(())),
            Ok(()) => format!("it has {at} bytes of whole events, of {} once", promised.unwrap_or(at)),
            Err(error) if is_ours(&error) => return Err(error),
            Err(StoreError::EventLog { reason, .. }) => reason,
            Err(error) => error.to_string(),
        };
        let told = match promised {
            Some(_) => format!("{reason}; run {run} counts as failed, and will be trained again"),
            None => format!("{reason}; the rest of this interrupted attempt is left out"),
        };
        self.unread(&path, told);
        Ok(Err(format!("{}: {reason}", path.display())))
    }

    async fn read_log(
        &mut self,
        connection: &mut SqliteConnection,
        id: AttemptId,
        directory: &Path,
    ) -> Result<(), StoreError> {
        let mut log = EventReader::open(directory)?;
        let before = self.done.bytes.0;
        loop {
            let events = log.next_batch(BATCH)?;
            if events.is_empty() {
                return Ok(());
            }
            ingest::keep(connection, id, &events).await?;
            self.rebuilt.events += events.len() as u64;
            self.done.bytes.0 = before + log.at();
        }
    }

    async fn pages(&mut self, connection: &mut SqliteConnection) -> Result<(), StoreError> {
        let path = journal::of_pages(self.folder);
        if !path.exists() {
            return Ok(());
        }
        for entry in self.read(&path).unwrap_or_default() {
            if let Entry::Page { selection, path, sha256, created } = &entry {
                let page = NewReport { selection, path, sha256, created: *created };
                sweep::enter_page(connection, &page).await?;
            }
        }
        Ok(())
    }

    /// The entries of a journal, as far as it can be read.
    fn read(&mut self, path: &Path) -> Option<Vec<Entry>> {
        match journal::read(path) {
            Ok(pages) => {
                pages.unread.into_iter().for_each(|reason| self.unread(path, reason));
                Some(pages.entries)
            }
            Err(StoreError::Journal { reason, .. }) => {
                self.unread(path, reason);
                None
            }
            Err(error) => {
                self.unread(path, error.to_string());
                None
            }
        }
    }

    /// Directories of which no journal tells: their sweep's is gone.
    fn strangers(&mut self) {
        for directory in attempt_directories(self.folder) {
            let run = directory.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
            if !self.known.contains(run.as_ref()) {
                self.unread(&directory, "no journal tells of it, so that it is left out");
            }
        }
    }

    /// Goes on where only one thing is wrong; answers whether nothing is.
    fn survive(
        &mut self,
        done: Result<(), StoreError>,
        path: &Path,
        what: impl Fn() -> String,
    ) -> Result<bool, StoreError> {
        match done {
            Ok(()) => Ok(true),
            Err(error) if is_ours(&error) => Err(error),
            Err(error) => {
                self.unread(path, format!("{}: {error}", what()));
                Ok(false)
            }
        }
    }

    fn unread(&mut self, path: &Path, reason: impl Into<String>) {
        self.rebuilt.unread.push(Unread { path: path.to_owned(), reason: reason.into() });
    }

    fn directory(&self, run: &str, number: u32) -> PathBuf {
        self.folder.join(RUNS).join(run).join(number.to_string())
    }
}

impl Sweep {
    async fn begin(
        &self,
        connection: &mut SqliteConnection,
        (run, number): (&str, u32),
        (started, nodes): (i64, &[NodeRow]),
    ) -> Result<AttemptId, StoreError> {
        let unknown = || StoreError::Unknown { what: "run", id: run.to_owned() };
        let position = self.entry.runs.iter().position(|id| id == run).ok_or_else(unknown)?;
        let plan = &self.entry.plan;
        let cell = plan.runs.get(position).and_then(|run| plan.cells.get(run.cell)).ok_or_else(unknown)?;
        let mut ids: Vec<NodeId> = Vec::new();
        for node in nodes {
            ids.push(attempt::enter_node(connection, node).await?);
        }
        let new = NewAttempt { started, cluster: &cell.spec.cluster, nodes: &ids };
        attempt::enter(connection, (&RunId(run.to_owned()), number), &new).await
    }

    fn attempt(&self, run: &str, number: u32) -> Result<AttemptId, StoreError> {
        let known = self.attempts.get(&(run.to_owned(), number)).copied();
        known.ok_or_else(|| StoreError::Unknown { what: "attempt", id: format!("{number} of run {run}") })
    }
}

/// Whether the new database is to blame, not what it is made from: its disk is full, say.
fn is_ours(error: &StoreError) -> bool {
    const SQLITE_CONSTRAINT: i64 = 19;
    match error {
        StoreError::Database(cause) => result_code(cause) != Some(SQLITE_CONSTRAINT),
        StoreError::Busy { .. } | StoreError::Damaged { .. } | StoreError::Folder { .. } => true,
        _ => false,
    }
}

/// A result whose numbers are not complete is none.
fn incomplete(end: &AttemptEnd, reason: &str) -> AttemptEnd {
    let mut end = end.clone();
    if matches!(end.state, RunState::Done | RunState::Degraded | RunState::Diverged) {
        end.detail = format!("it was {}, but its events cannot be read any more: {reason}", end.state.name());
        end.state = RunState::Failed;
    }
    end
}

fn brief(entry: &Entry) -> String {
    match entry {
        Entry::Sweep(_) => "a second sweep".to_owned(),
        Entry::Identity { run, .. } => format!("the identity of run {run}"),
        Entry::Reused { run, .. } => format!("the source of run {run}"),
        Entry::Attempt { run, number, .. } => format!("the begin of attempt {number} of run {run}"),
        Entry::Note { run, number, .. } => format!("a note on attempt {number} of run {run}"),
        Entry::AttemptEnd { run, number, .. } => format!("the end of attempt {number} of run {run}"),
        Entry::SweepEnd { .. } => "the end of the sweep".to_owned(),
        Entry::Page { path, .. } => format!("the page {path}"),
    }
}

/// The directories of all attempts, in order.
fn attempt_directories(folder: &Path) -> Vec<PathBuf> {
    let inside = |path: PathBuf| {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        let mut paths: Vec<PathBuf> =
            entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
        paths.sort();
        paths
    };
    inside(folder.join(RUNS)).into_iter().flat_map(inside).collect()
}
