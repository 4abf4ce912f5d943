//! Tags, notes and origins of sweeps.

use crate::{Annotations, Selection, Store, StoreError, SweepId};
use sqlx::sqlite::SqliteConnection;
use std::collections::BTreeMap;

/// A sweep of which a run fits a selection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FittingSweep {
    /// Id of the sweep.
    pub sweep: SweepId,
    /// Name of its recipe.
    pub recipe: String,
    /// Its tags, its note and its origin.
    pub annotations: Annotations,
}

impl Store {
    /// The sweeps of which a run fits, oldest first.
    ///
    /// # Errors
    /// [`StoreError::Empty`] if no run fits.
    pub async fn sweeps_fitting(&self, selection: &Selection) -> Result<Vec<FittingSweep>, StoreError> {
        let mut sweeps: Vec<i64> = self.fitting(selection).await?.iter().map(|run| run.sweep).collect();
        sweeps.dedup();
        if sweeps.is_empty() {
            return Err(StoreError::Empty { selection: selection.to_string() });
        }
        let mut annotations = self.annotations().await?;
        let mut found = Vec::new();
        for sweep in sweeps {
            let (ulid, recipe): (String, String) =
                sqlx::query_as("SELECT ulid, name FROM sweep WHERE id = ?")
                    .bind(sweep)
                    .fetch_one(&self.reader)
                    .await?;
            let annotations = annotations.remove(&ulid).unwrap_or_default();
            found.push(FittingSweep { sweep: SweepId(ulid), recipe, annotations });
        }
        Ok(found)
    }

    /// The annotations of sweeps, by their ids; a sweep without any is left out.
    pub async fn annotations(&self) -> Result<BTreeMap<String, Annotations>, StoreError> {
        let mut reader = self.reader.acquire().await?;
        annotations(&mut reader).await
    }
}

pub(crate) async fn annotations(
    connection: &mut SqliteConnection,
) -> Result<BTreeMap<String, Annotations>, StoreError> {
    let mut found: BTreeMap<String, Annotations> = BTreeMap::new();
    let said: Vec<(String, String, Option<i64>)> = sqlx::query_as(
        "SELECT ulid, note, imported_unix FROM sweep WHERE note != '' OR imported_unix IS NOT NULL",
    )
    .fetch_all(&mut *connection)
    .await?;
    for (sweep, note, imported) in said {
        found.insert(sweep, Annotations { tags: Vec::new(), note, imported });
    }
    let tags: Vec<(String, String)> = sqlx::query_as(
        "SELECT sweep.ulid, tag.name FROM tag JOIN sweep ON sweep.id = tag.sweep ORDER BY tag.sweep, tag.name",
    )
    .fetch_all(connection)
    .await?;
    for (sweep, tag) in tags {
        found.entry(sweep).or_default().tags.push(tag);
    }
    Ok(found)
}
