//! Takes the sweeps of a bundle into a store.
//!
//! All is unpacked and checked in a folder of its own, then replayed into the database by the statements of a rebuild, in one
//! transaction. Before that ends, the files move to their places, journals last. An importer that is killed at any moment leaves the
//! database as it was or with all of the bundle; what lies on the disk then is taken up by the next import.

use super::alike::{AlikeSweep, alike};
use super::content::Content;
use super::error::BundleError;
use super::known_models::{OtherModel, known_models};
use super::moved::{Taken, add_models, move_in};
use super::standing::{Looked, SweepStanding};
use super::unpack::{Onto, Unpacked, runs_of, unpack};
use super::{free_bytes, is_plain};
use crate::database::connect::options;
use crate::database::lock;
use crate::database::migrate::{newest, version};
use crate::database::migrations::MIGRATIONS;
use crate::journal::entries::Entry;
use crate::journal::lines;
use crate::layout::{self, DATABASE};
use crate::rebuild::exchange::clear;
use crate::rebuild::progress::Rebuilding;
use crate::rebuild::replay::Replay;
use crate::sql::document::to_json;
use crate::{NodeRow, Store, StoreError};
use recipe::Provenance;
use serde::Serialize;
use sqlx::sqlite::SqliteConnection;
use sqlx::{ConnectOptions, Connection};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The folder in which a bundle is unpacked.
const WORKSHOP: &str = "import";

/// How far an import has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Importing {
    /// Bytes unpacked and checked so far, and bytes in all.
    Checking(u64, u64),
    /// Sweeps and bytes of logs replayed into the database so far.
    Replaying(Rebuilding),
}

/// Outcome of an import, or of a look at a bundle ([`look_at_bundle`]).
#[derive(Clone, Debug, Serialize)]
pub struct Imported {
    /// Version of the program that wrote the bundle.
    pub writer: String,
    /// Its sweeps, oldest first.
    pub sweeps: Vec<ImportedSweep>,
    /// Number of events that were replayed.
    pub events: u64,
    /// Models that were added to sweeps that were there.
    pub models: usize,
}

/// A sweep of a bundle.
#[derive(Clone, Debug, Serialize)]
pub struct ImportedSweep {
    /// ULID of the sweep.
    pub sweep: String,
    /// Name of its recipe.
    pub recipe: String,
    /// Start, in seconds since 1970.
    pub started: i64,
    /// Version of its driver.
    pub version: String,
    /// Number of its runs.
    pub runs: usize,
    /// Number of those that have a result.
    pub done: usize,
    /// Number of its configurations.
    pub configurations: usize,
    /// The machines of its ranks.
    pub machines: Vec<NodeRow>,
    /// Distinct provenances of its attempts, which decide their numbers together with the configurations.
    pub surroundings: Vec<Provenance>,
    /// Its tags where it was made.
    pub tags: Vec<String>,
    /// Its note where it was made; empty without one.
    pub note: String,
    /// How it stood to the store.
    pub standing: SweepStanding,
    /// Sweeps of the store with configurations in common, or at least the same name.
    pub alike: Vec<AlikeSweep>,
}

/// Imports a bundle into the store in `folder`, which is created if there is none, at `time` in seconds since 1970.
///
/// # Errors
/// [`BundleError`]; the store is then as it was.
pub async fn import(
    folder: &Path,
    bundle: &Path,
    time: i64,
    mut progress: impl FnMut(Importing),
) -> Result<Imported, BundleError> {
    if !folder.join(DATABASE).exists() {
        // No store is made for a file that is no bundle.
        let room = folder.ancestors().find_map(free_bytes);
        unpack(bundle, Onto::Nothing, room, &mut |done, all| progress(Importing::Checking(done, all)))?;
    }
    // Creates the folder, brings the database up to date, and closes the books of killed drivers.
    Store::open(folder).await?.close().await;
    let _importer = lock::importing(folder).await?;
    let workshop = folder.join(WORKSHOP);
    clear(&workshop)?;
    let created = fs::create_dir_all(workshop.join(layout::RUNS));
    created.map_err(|source| StoreError::Folder { path: workshop.clone(), source })?;
    let room = free_bytes(folder);
    let onto = Onto::Folder(&workshop);
    let unpacked = unpack(bundle, onto, room, &mut |done, all| progress(Importing::Checking(done, all)));
    let imported = match unpacked {
        Ok(unpacked) => {
            let import = Import { folder, bundle, workshop: &workshop, unpacked, time };
            import.run(&mut progress).await
        }
        Err(error) => Err(error),
    };
    clear(&workshop)?;
    imported
}

/// Checks a bundle, and says what an import would do; changes nothing.
///
/// # Errors
/// [`BundleError`], as [`import`] would fail, as far as that can be known without replaying the events.
pub async fn look_at_bundle(
    folder: &Path,
    bundle: &Path,
    mut progress: impl FnMut(Importing),
) -> Result<Imported, BundleError> {
    let room = folder.ancestors().find_map(free_bytes);
    let unpacked =
        unpack(bundle, Onto::Nothing, room, &mut |done, all| progress(Importing::Checking(done, all)))?;
    let store = match Store::open_existing(folder).await {
        Ok(store) => Some(store),
        Err(StoreError::NoStore { .. }) => None,
        Err(error) => return Err(error.into()),
    };
    let runs = runs_of(&unpacked.contents, bundle)?;
    let looked = Looked { bundle, folder, manifest: &unpacked.manifest, runs: &runs };
    let mut sweeps = Vec::new();
    for content in &unpacked.contents {
        sweeps.push(match &store {
            Some(store) => {
                let mut reader = store.reader.acquire().await.map_err(StoreError::from)?;
                let standing = looked.standing(&mut reader, content).await?;
                described(content, standing, alike(&mut reader, content, &unpacked.contents).await?)
            }
            None => described(content, SweepStanding::New, Vec::new()),
        });
    }
    if let Some(store) = store {
        store.close().await;
    }
    Ok(Imported { writer: unpacked.manifest.bakeoff, sweeps, events: 0, models: 0 })
}

/// An import of an unpacked bundle.
struct Import<'a> {
    folder: &'a Path,
    bundle: &'a Path,
    workshop: &'a Path,
    unpacked: Unpacked,
    time: i64,
}

impl Import<'_> {
    async fn run(&self, progress: &mut impl FnMut(Importing)) -> Result<Imported, BundleError> {
        // One long transaction: a driver would wait for it in vain.
        let _alone = lock::alone(self.folder).await?;
        let _moment = lock::moment(self.folder).await?;
        let file = self.folder.join(DATABASE);
        let mut connection = options(&file).connect().await.map_err(StoreError::from)?;
        let found = version(&mut connection, &file).await?;
        if found != newest(&MIGRATIONS) {
            let known = newest(&MIGRATIONS);
            return Err(StoreError::InUse { path: file, found, known }.into());
        }
        let imported = self.all(&mut connection, progress).await;
        connection.close().await.map_err(StoreError::from)?;
        imported
    }

    async fn all(
        &self,
        connection: &mut SqliteConnection,
        progress: &mut impl FnMut(Importing),
    ) -> Result<Imported, BundleError> {
        let Unpacked { manifest, contents } = &self.unpacked;
        let runs = runs_of(contents, self.bundle)?;
        let looked = Looked { bundle: self.bundle, folder: self.folder, manifest, runs: &runs };
        let mut sweeps = Vec::new();
        for content in contents {
            let standing = looked.standing(connection, content).await?;
            sweeps.push(described(content, standing, alike(connection, content, contents).await?));
        }
        let of = |wanted: SweepStanding| {
            contents
                .iter()
                .zip(&sweeps)
                .filter(move |(_, sweep)| sweep.standing == wanted)
                .map(|(content, _)| content)
        };
        let new: Vec<&Content> = of(SweepStanding::New).collect();
        let runs_here = runs_in(of(SweepStanding::Here));
        let models_here = self.models(connection, &runs_here).await?;
        let events = if new.is_empty() { 0 } else { self.take(connection, &new, progress).await? };
        let models = add_models(self.workshop, self.folder, &models_here)?;
        Ok(Imported { writer: manifest.bakeoff.clone(), sweeps, events, models })
    }

    /// Replays the new sweeps, moves their files, and commits.
    async fn take(
        &self,
        connection: &mut SqliteConnection,
        new: &[&Content],
        progress: &mut impl FnMut(Importing),
    ) -> Result<u64, BundleError> {
        let mut journals: Vec<PathBuf> = Vec::new();
        for content in new {
            let journal = layout::sweep_journal(self.workshop, &content.entry.sweep);
            lines::append(&journal, &Entry::Imported { time: self.time })?;
            journals.push(journal);
        }
        let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await.map_err(StoreError::from)?;
        let mut replay = Replay::of_strangers(self.workshop, &journals);
        replay.sweeps(&mut transaction, &journals, &mut |step| progress(Importing::Replaying(step))).await?;
        if let Some(unread) = replay.rebuilt.unread.first() {
            let path = unread.path.strip_prefix(self.workshop).unwrap_or(&unread.path);
            return Err(self.damaged(format!("{}: {}", path.display(), unread.reason)));
        }
        let sweeps: BTreeSet<&str> = new.iter().map(|content| content.entry.sweep.as_str()).collect();
        if let Some(path) = odd_artifact(&mut transaction, &sweeps).await? {
            return Err(self.damaged(format!("a model of it would be in {:?}", super::manifest::cut(&path))));
        }
        let runs = runs_in(new.iter().copied());
        let models = self.models(&mut transaction, &runs).await?;
        move_in(self.workshop, self.folder, &self.unpacked.manifest, &Taken { sweeps, runs, models })?;
        transaction.commit().await.map_err(StoreError::from)?;
        Ok(replay.rebuilt.events)
    }

    /// The models of these runs, each the one that its run recorded.
    async fn models(
        &self,
        connection: &mut SqliteConnection,
        runs: &BTreeSet<&str>,
    ) -> Result<BTreeSet<&str>, BundleError> {
        let known = known_models(connection, &self.unpacked.manifest, runs).await?;
        known.map_err(|OtherModel { name }| {
            self.damaged(format!("{name} is not the model that its run recorded"))
        })
    }

    fn damaged(&self, reason: String) -> BundleError {
        BundleError::Damaged { path: self.bundle.to_owned(), reason }
    }
}

fn runs_in<'c>(contents: impl Iterator<Item = &'c Content>) -> BTreeSet<&'c str> {
    contents.flat_map(|content| &content.entry.runs).map(String::as_str).collect()
}

/// A model that an export would look for outside of its attempt's directory.
async fn odd_artifact(
    connection: &mut SqliteConnection,
    sweeps: &BTreeSet<&str>,
) -> Result<Option<String>, StoreError> {
    let paths: Vec<String> = sqlx::query_scalar(
        "SELECT DISTINCT artifact.path FROM sweep JOIN run ON run.sweep = sweep.id JOIN attempt ON attempt.run = run.id \
         JOIN artifact ON artifact.attempt = attempt.id WHERE sweep.ulid IN (SELECT value FROM json_each(?))",
    )
    .bind(to_json("list of sweeps", sweeps)?)
    .fetch_all(connection)
    .await?;
    Ok(paths.into_iter().find(|path| !is_plain(path.strip_prefix("snapshots/").unwrap_or(path))))
}

fn described(content: &Content, standing: SweepStanding, alike: Vec<AlikeSweep>) -> ImportedSweep {
    let entry = &content.entry;
    let configurations: BTreeSet<&str> =
        entry.plan.cells.iter().map(|cell| cell.config_hash.as_str()).collect();
    ImportedSweep {
        sweep: entry.sweep.clone(),
        recipe: entry.plan.name.clone(),
        started: entry.started,
        version: entry.version.clone(),
        runs: entry.runs.len(),
        done: content.done,
        configurations: configurations.len(),
        machines: content.machines.clone(),
        surroundings: content.surroundings.clone(),
        tags: content.tags.iter().cloned().collect(),
        note: content.note.clone(),
        standing,
        alike,
    }
}
