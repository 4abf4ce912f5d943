//! How a sweep of a bundle stands to a store: new, already there, or in the way of something else.

use super::content::Content;
use super::error::BundleError;
use super::manifest::Manifest;
use super::pack::{digest_of, whole_journal};
use super::{BundleFile, OfAttempt};
use crate::layout;
use crate::sql::document::{from_json, to_json};
use crate::{RunId, StoreError};
use recipe::RunSpec;
use serde::Serialize;
use sqlx::sqlite::SqliteConnection;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// How a sweep of a bundle stands to a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SweepStanding {
    /// The store does not have it.
    New,
    /// The store has it, with the same content.
    Here,
}

/// A store, as an importer looks at it.
pub(super) struct Looked<'a> {
    pub(super) bundle: &'a Path,
    pub(super) folder: &'a Path,
    pub(super) manifest: &'a Manifest,
    /// The runs of all sweeps of the bundle.
    pub(super) runs: &'a BTreeSet<String>,
}

impl Looked<'_> {
    /// How a sweep stands to the store.
    ///
    /// # Errors
    /// [`BundleError::Conflict`] if something else has its name, or the name of a part.
    pub(super) async fn standing(
        &self,
        connection: &mut SqliteConnection,
        content: &Content,
    ) -> Result<SweepStanding, BundleError> {
        let sweep = &content.entry.sweep;
        let known: bool = sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM sweep WHERE ulid = ?)")
            .bind(sweep)
            .fetch_one(&mut *connection)
            .await
            .map_err(StoreError::from)?;
        let journal = layout::sweep_journal(self.folder, sweep);
        if known && !journal.exists() {
            let reason =
                "the store has a sweep of this id without a journal, so that nothing can be compared";
            return Err(self.conflict(content, reason));
        }
        if journal.exists() {
            self.same_journal(content, &journal)?;
        }
        if known {
            self.same_files(content, Missing::IsAnotherContent)?;
            return Ok(SweepStanding::Here);
        }
        self.free_runs(connection, content).await?;
        self.known_sources(connection, content).await?;
        self.same_configurations(connection, content).await?;
        self.same_files(content, Missing::IsFree)?;
        Ok(SweepStanding::New)
    }

    fn conflict(&self, content: &Content, reason: impl Into<String>) -> BundleError {
        let path = self.bundle.to_owned();
        let sweep = content.entry.sweep.clone();
        BundleError::Conflict { path, sweep, reason: reason.into() }
    }

    fn same_journal(&self, content: &Content, journal: &Path) -> Result<(), BundleError> {
        let sweep = &content.entry.sweep;
        let here = match whole_journal(journal, sweep) {
            Ok((_, here)) => here,
            Err(error) => return Err(self.conflict(content, format!("the store has it, but {error}"))),
        };
        if here.digest == content.digest {
            return Ok(());
        }
        Err(self.conflict(
            content,
            if here.pruned && !content.pruned {
                format!(
                    "runs of it were removed here; `bakeoff db prune {sweep}` removes the others, and then it can be imported again"
                )
            } else {
                format!(
                    "{} tells something else of it, so that one of both was changed; ask its maker for the right one",
                    journal.display()
                )
            },
        ))
    }

    /// Logs in the store must be those of the bundle: they may have come by an import that was interrupted.
    fn same_files(&self, content: &Content, missing: Missing) -> Result<(), BundleError> {
        for file in &self.manifest.files {
            let Some(BundleFile::Log(OfAttempt { run, number })) = BundleFile::of(&file.name) else {
                continue;
            };
            if !content.logs.contains_key(&(run.to_owned(), number)) {
                continue;
            }
            let path = self.folder.join(&file.name);
            let same = match (path.exists(), missing) {
                (false, Missing::IsFree) => true,
                (false, Missing::IsAnotherContent) => false,
                (true, _) => {
                    let digest = digest_of(&path);
                    let unread = |source| StoreError::Folder { path: path.clone(), source };
                    digest.map_err(unread)? == file.sha256
                }
            };
            if !same {
                let reason = format!(
                    "{} is missing or has other content; move its run's folder away, then `bakeoff db rebuild`, then import it again",
                    path.display()
                );
                return Err(self.conflict(content, reason));
            }
        }
        Ok(())
    }

    async fn free_runs(
        &self,
        connection: &mut SqliteConnection,
        content: &Content,
    ) -> Result<(), BundleError> {
        let taken: Option<(String, String)> = sqlx::query_as(
            "SELECT run.ulid, sweep.ulid FROM run JOIN sweep ON sweep.id = run.sweep \
             WHERE run.ulid IN (SELECT value FROM json_each(?)) LIMIT 1",
        )
        .bind(to_json("list of runs", &content.entry.runs)?)
        .fetch_optional(connection)
        .await
        .map_err(StoreError::from)?;
        match taken {
            None => Ok(()),
            Some((run, other)) => {
                Err(self.conflict(content, format!("its run {run} is one of sweep {other} here")))
            }
        }
    }

    /// The run from which another one took its result must be in the bundle or in the store.
    async fn known_sources(
        &self,
        connection: &mut SqliteConnection,
        content: &Content,
    ) -> Result<(), BundleError> {
        for source in content.sources.iter().filter(|source| !self.runs.contains(*source)) {
            let known: bool = sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM run WHERE ulid = ?)")
                .bind(RunId(source.clone()).as_str())
                .fetch_one(&mut *connection)
                .await
                .map_err(StoreError::from)?;
            if !known {
                let reason = format!(
                    "it took a result from run {:?}, which is neither in the bundle nor here: import that run's sweep first",
                    super::manifest::cut(source)
                );
                return Err(self.conflict(content, reason));
            }
        }
        Ok(())
    }

    /// Sweeps share configurations by their digest, so that one digest must not name two of them.
    async fn same_configurations(
        &self,
        connection: &mut SqliteConnection,
        content: &Content,
    ) -> Result<(), BundleError> {
        let mut own: BTreeMap<&str, &RunSpec> = BTreeMap::new();
        for cell in &content.entry.plan.cells {
            if *own.entry(&cell.config_hash).or_insert(&cell.spec) != &cell.spec {
                let reason =
                    format!("configuration {:?} is two of them", super::manifest::cut(&cell.config_hash));
                return Err(self.conflict(content, reason));
            }
        }
        let hashes: Vec<&str> = own.keys().copied().collect();
        let known: Vec<(String, String)> = sqlx::query_as(
            "SELECT sha256, spec FROM config WHERE sha256 IN (SELECT value FROM json_each(?))",
        )
        .bind(to_json("configuration hashes", &hashes)?)
        .fetch_all(connection)
        .await
        .map_err(StoreError::from)?;
        for (hash, spec) in known {
            let here: RunSpec = from_json("configuration", &spec)?;
            if own.get(hash.as_str()).is_some_and(|spec| **spec != here) {
                return Err(self.conflict(content, format!("its configuration {hash} is another one here")));
            }
        }
        Ok(())
    }
}

/// Meaning of a file that the store does not have.
#[derive(Clone, Copy)]
enum Missing {
    IsFree,
    IsAnotherContent,
}
