//! Which models of a bundle are those that the store knows of: a manifest is as good as the one who wrote it, but a run's book has the digest
//! of each snapshot.

use super::BundleFile;
use super::manifest::Manifest;
use crate::StoreError;
use crate::sql::document::to_json;
use sqlx::sqlite::SqliteConnection;
use std::collections::{BTreeMap, BTreeSet};

/// A model that is not the one that its run recorded.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct OtherModel {
    pub(super) name: String,
}

/// The models of these runs that their books have; a file that no book knows is left where it is. Books from before digests were recorded say
/// nothing of the content.
pub(super) async fn known_models<'m>(
    connection: &mut SqliteConnection,
    manifest: &'m Manifest,
    runs: &BTreeSet<&str>,
) -> Result<Result<BTreeSet<&'m str>, OtherModel>, StoreError> {
    let rows: Vec<(String, u32, String, Option<String>)> = sqlx::query_as(
        "SELECT run.ulid, attempt.number, artifact.path, artifact.sha256 FROM run JOIN attempt ON attempt.run = run.id \
         JOIN artifact ON artifact.attempt = attempt.id WHERE run.ulid IN (SELECT value FROM json_each(?))",
    )
    .bind(to_json("list of runs", runs)?)
    .fetch_all(connection)
    .await?;
    let book: BTreeMap<String, Option<String>> = rows
        .into_iter()
        .map(|(run, number, path, digest)| (format!("runs/{run}/{number}/{path}"), digest))
        .collect();
    let mut known = BTreeSet::new();
    for file in &manifest.files {
        match (BundleFile::of(&file.name), book.get(&file.name)) {
            (Some(BundleFile::Model(_)), Some(Some(digest))) if *digest != file.sha256 => {
                return Ok(Err(OtherModel { name: file.name.clone() }));
            }
            (Some(BundleFile::Model(_)), Some(_)) => {
                known.insert(file.name.as_str());
            }
            _ => {}
        }
    }
    Ok(Ok(known))
}
