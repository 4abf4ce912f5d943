//! Replays the journals of the sweeps and the event logs of their attempts into a new database, with the statements that
//! filled the old one. What cannot be read is reported by its path and left out.

mod event_log;

use crate::database::open::Store;
use crate::error::result_code;
use crate::journal::entries::{Entry, SweepEntry};
use crate::journal::lines;
use crate::layout;
use crate::rebuild::progress::{Rebuilding, Rebuilt, Unread};
use crate::rebuild::valid::{AttemptKey, last_ends, unpruned};
use crate::write::annotate::insert_annotation;
use crate::write::attempt::{NewAttempt, NewNote, insert_attempt, insert_node, insert_note};
use crate::write::place_of_attempt::Try;
use crate::write::plan::insert_plan;
use crate::write::prune::insert_pruned;
use crate::write::sweep::{NewReport, insert_identity, insert_report, insert_reuse, insert_sweep_end};
use crate::{AttemptId, EventLog, NodeId, NodeRow, RunId, StoreError, SweepId};
use event_log::Ended;
use sqlx::Connection;
use sqlx::sqlite::SqliteConnection;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A replay under way.
pub(crate) struct Replay<'a> {
    folder: &'a Path,
    pub(crate) rebuilt: Rebuilt,
    done: Rebuilding,
    /// Applied last, because the source may belong to a later sweep.
    reuses: Vec<Reuse>,
    /// Runs with an attempt in a journal.
    known: BTreeSet<String>,
    trust: Trust,
}

/// Whose files are replayed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Trust {
    /// Those of this store.
    Own,
    /// Another user's: a log holds no more than its journal says.
    Strangers,
}

/// A run that took its result from another one, and the journal that says so.
struct Reuse {
    journal: PathBuf,
    run: String,
    source: String,
}

/// The sweep under way.
struct Sweep {
    journal: PathBuf,
    entry: SweepEntry,
    attempts: BTreeMap<AttemptKey, AttemptId>,
    /// Attempts without an end.
    open: BTreeSet<AttemptKey>,
}

impl<'a> Replay<'a> {
    pub(crate) fn new(folder: &'a Path, journals: &[PathBuf]) -> Self {
        let directories = layout::attempt_directories(folder);
        let bytes = directories.iter().map(|path| EventLog::length(path)).sum();
        Self {
            folder,
            rebuilt: Rebuilt::default(),
            done: Rebuilding { sweeps: (0, journals.len()), bytes: (0, bytes) },
            reuses: Vec::new(),
            known: BTreeSet::new(),
            trust: Trust::Own,
        }
    }

    /// A replay of files that came from another user.
    pub(crate) fn of_strangers(folder: &'a Path, journals: &[PathBuf]) -> Self {
        Self { trust: Trust::Strangers, ..Self::new(folder, journals) }
    }

    /// Replays all journals into a new database.
    pub(crate) async fn all(
        &mut self,
        store: &Store,
        journals: &[PathBuf],
        progress: &mut impl FnMut(Rebuilding),
    ) -> Result<(), StoreError> {
        let mut connection = store.writer.acquire().await?;
        self.sweeps(&mut connection, journals, progress).await?;
        let mut transaction = connection.begin().await?;
        self.reports(&mut transaction).await?;
        transaction.commit().await?;
        self.report_unknown_directories();
        Ok(())
    }

    /// Replays these journals. Each entry is a transaction of its own, for a sweep in one makes a write-ahead log as large as the sweep;
    /// inside a transaction of the caller, it is a part of that.
    pub(crate) async fn sweeps(
        &mut self,
        connection: &mut SqliteConnection,
        journals: &[PathBuf],
        progress: &mut impl FnMut(Rebuilding),
    ) -> Result<(), StoreError> {
        for path in journals {
            progress(self.done);
            self.sweep(connection, path, progress).await?;
            self.done.sweeps.0 += 1;
        }
        progress(self.done);
        let mut transaction = connection.begin().await?;
        for Reuse { journal, run, source } in std::mem::take(&mut self.reuses) {
            let reused = insert_reuse(&mut transaction, &RunId(run.clone()), &RunId(source.clone())).await;
            self.tolerate(reused, &journal, || format!("run {run} has its result from run {source}"))?;
        }
        Ok(transaction.commit().await?)
    }

    async fn sweep(
        &mut self,
        connection: &mut SqliteConnection,
        path: &Path,
        progress: &mut impl FnMut(Rebuilding),
    ) -> Result<(), StoreError> {
        let Some(entries) = self.read(path) else { return Ok(()) };
        let mut entries = entries.into_iter();
        let Some(Entry::Sweep(entry)) = entries.next() else {
            self.unread(path, "it does not begin with the sweep's plan, so that nothing of it can be used");
            return Ok(());
        };
        let mut transaction = connection.begin().await?;
        let inserted = insert_plan(&mut transaction, &entry).await;
        if !self.tolerate(inserted, path, || "the sweep's plan".to_owned())? {
            return Ok(());
        }
        transaction.commit().await?;
        self.rebuilt.sweeps += 1;
        let mut sweep = Sweep {
            journal: path.to_owned(),
            entry: *entry,
            attempts: BTreeMap::new(),
            open: BTreeSet::new(),
        };
        for entry in last_ends(unpruned(entries.collect())) {
            let done = if let Entry::AttemptEnd { run, number, end, log, totals } = &entry {
                let attempt = AttemptKey::new(run, *number);
                let ended = Ended { attempt, end, log: *log, totals: totals.as_deref() };
                self.attempt_ends(connection, &mut sweep, ended).await
            } else {
                let mut transaction = connection.begin().await?;
                match self.entry(&mut transaction, &mut sweep, &entry).await {
                    Ok(()) => transaction.commit().await.map_err(StoreError::from),
                    refused => refused,
                }
            };
            self.tolerate(done, path, || entry.words())?;
            progress(self.done);
        }
        for attempt in std::mem::take(&mut sweep.open) {
            let done = self.unfinished(connection, &sweep, &attempt).await;
            self.tolerate(done, path, || format!("attempt {} of run {}", attempt.number, attempt.run))?;
        }
        Ok(())
    }

    async fn entry(
        &mut self,
        connection: &mut SqliteConnection,
        sweep: &mut Sweep,
        entry: &Entry,
    ) -> Result<(), StoreError> {
        match entry {
            Entry::Identity { run, identity } => {
                insert_identity(connection, &RunId(run.clone()), identity).await
            }
            Entry::Reused { run, source } => {
                let journal = sweep.journal.clone();
                self.reuses.push(Reuse { journal, run: run.clone(), source: source.clone() });
                Ok(())
            }
            Entry::Attempt { run, number, started, nodes } => {
                let key = AttemptKey::new(run, *number);
                let id = sweep.attempt_begins(connection, &key, *started, nodes).await?;
                self.rebuilt.attempts += 1;
                self.known.insert(run.clone());
                sweep.attempts.insert(key.clone(), id);
                sweep.open.insert(key);
                Ok(())
            }
            Entry::Note { run, number, time, state, text } => {
                let id = sweep.attempt(&AttemptKey::new(run, *number))?;
                insert_note(connection, id, NewNote { time: *time, state, text }).await
            }
            Entry::SweepEnd { end, time } => insert_sweep_end(connection, &sweep.id(), *end, *time).await,
            Entry::Tag { .. } | Entry::Untag { .. } | Entry::SweepNote { .. } | Entry::Imported { .. } => {
                insert_annotation(connection, &sweep.id(), entry).await
            }
            // Removed with the entries before it; the end of its sweep may have taken it for one that was not needed.
            Entry::Pruned { run } => insert_pruned(connection, &RunId(run.clone())).await,
            Entry::Sweep(_) | Entry::Report { .. } | Entry::AttemptEnd { .. } => Err(StoreError::Value {
                what: "line of a journal",
                value: "a second sweep, or a page".to_owned(),
            }),
        }
    }

    async fn reports(&mut self, connection: &mut SqliteConnection) -> Result<(), StoreError> {
        let path = layout::page_journal(self.folder);
        if !path.exists() {
            return Ok(());
        }
        for entry in self.read(&path).unwrap_or_default() {
            if let Entry::Report { selection, path, sha256, created } = &entry {
                let report = NewReport { selection, path, sha256, created: *created };
                insert_report(connection, &report).await?;
            }
        }
        Ok(())
    }

    /// The readable entries of a journal; unreadable lines are reported. `None` if the file cannot be read.
    fn read(&mut self, path: &Path) -> Option<Vec<Entry>> {
        match lines::read(path) {
            Ok(lines) => {
                lines.unread.into_iter().for_each(|reason| self.unread(path, reason));
                Some(lines.entries)
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

    /// Reports the directories of attempts that are in no journal, because the journal of their sweep is missing.
    fn report_unknown_directories(&mut self) {
        for directory in layout::attempt_directories(self.folder) {
            let run = directory.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
            if !self.known.contains(run.as_ref()) {
                self.unread(&directory, "no journal tells of it, so that it is left out");
            }
        }
    }

    /// Reports an error that concerns one entry only and continues; returns whether there was none.
    fn tolerate(
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

    fn directory(&self, attempt: &AttemptKey) -> PathBuf {
        layout::attempt_directory(self.folder, &attempt.run, attempt.number)
    }
}

impl Sweep {
    fn id(&self) -> SweepId {
        SweepId(self.entry.sweep.clone())
    }

    async fn attempt_begins(
        &self,
        connection: &mut SqliteConnection,
        attempt: &AttemptKey,
        started: i64,
        nodes: &[NodeRow],
    ) -> Result<AttemptId, StoreError> {
        let unknown = || StoreError::Unknown { what: "run", id: attempt.run.clone() };
        let position = self.entry.runs.iter().position(|id| *id == attempt.run).ok_or_else(unknown)?;
        let plan = &self.entry.plan;
        let cell = plan.runs.get(position).and_then(|run| plan.cells.get(run.cell)).ok_or_else(unknown)?;
        let mut ids: Vec<NodeId> = Vec::new();
        for node in nodes {
            ids.push(insert_node(connection, node).await?);
        }
        let new = NewAttempt { started, cluster: &cell.spec.cluster, nodes: &ids };
        let place = Try { run: RunId(attempt.run.clone()), number: attempt.number };
        insert_attempt(connection, &place, &new).await
    }

    fn attempt(&self, attempt: &AttemptKey) -> Result<AttemptId, StoreError> {
        let id = || format!("{} of run {}", attempt.number, attempt.run);
        self.attempts.get(attempt).copied().ok_or_else(|| StoreError::Unknown { what: "attempt", id: id() })
    }
}

/// Whether the new database is the cause, for example because its disk is full, and not the files that are replayed.
fn is_ours(error: &StoreError) -> bool {
    const SQLITE_CONSTRAINT: i64 = 19;
    match error {
        StoreError::Database(cause) => result_code(cause) != Some(SQLITE_CONSTRAINT),
        StoreError::Busy { .. } | StoreError::Damaged { .. } | StoreError::Folder { .. } => true,
        _ => false,
    }
}
