//! Tags and notes of sweeps, and the mark of those that were imported.

use crate::annotation::MOST_TAGS;
use crate::journal::entries::Entry;
use crate::journal::lines;
use crate::{AnnotationError, Store, StoreError, SweepId, SweepNote, SweepTag, layout};
use sqlx::sqlite::SqliteConnection;

/// Whether a tag is given to a sweep or taken from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tagging {
    /// The sweep has it from now on.
    Give,
    /// The sweep has it no more.
    Take,
}

impl Store {
    /// Records that a sweep is given a tag, or loses it, at `time` in seconds since 1970. Returns whether that changes anything.
    ///
    /// # Errors
    /// [`StoreError::Tags`] if it has as many as it may have.
    pub async fn record_tag(
        &self,
        sweep: &SweepId,
        tag: &SweepTag,
        tagging: Tagging,
        time: i64,
    ) -> Result<bool, StoreError> {
        let name = tag.as_str().to_owned();
        let mut transaction = self.writer.begin_with("BEGIN IMMEDIATE").await?;
        let (changed, entry) = match tagging {
            Tagging::Give => (insert_tag(&mut transaction, sweep, tag).await?, Entry::Tag { name, time }),
            Tagging::Take => (delete_tag(&mut transaction, sweep, tag).await?, Entry::Untag { name, time }),
        };
        if changed {
            self.append_for_sweep(sweep, &entry)?;
        }
        transaction.commit().await?;
        Ok(changed)
    }

    /// Records what the user says of a sweep in place of what was said before, at `time` in seconds since 1970. Returns whether that
    /// changes anything.
    pub async fn record_sweep_note(
        &self,
        sweep: &SweepId,
        note: &SweepNote,
        time: i64,
    ) -> Result<bool, StoreError> {
        let mut transaction = self.writer.begin_with("BEGIN IMMEDIATE").await?;
        let changed = insert_sweep_note(&mut transaction, sweep, note).await?;
        if changed {
            self.append_for_sweep(sweep, &Entry::SweepNote { text: note.as_str().to_owned(), time })?;
        }
        transaction.commit().await?;
        Ok(changed)
    }

    /// A sweep that was recorded before there were journals gets none: it would have no plan.
    fn append_for_sweep(&self, sweep: &SweepId, entry: &Entry) -> Result<(), StoreError> {
        let journal = layout::sweep_journal(&self.folder, sweep.as_str());
        if journal.exists() { lines::append(&journal, entry) } else { Ok(()) }
    }
}

async fn insert_tag(
    connection: &mut SqliteConnection,
    sweep: &SweepId,
    tag: &SweepTag,
) -> Result<bool, StoreError> {
    let changed = sqlx::query(
        "INSERT INTO tag (sweep, name) SELECT id, ? FROM sweep WHERE ulid = ? ON CONFLICT DO NOTHING",
    )
    .bind(tag.as_str())
    .bind(sweep.as_str())
    .execute(&mut *connection)
    .await?;
    let count: u32 =
        sqlx::query_scalar("SELECT count(*) FROM tag JOIN sweep ON sweep.id = tag.sweep WHERE ulid = ?")
            .bind(sweep.as_str())
            .fetch_one(connection)
            .await?;
    if count > MOST_TAGS {
        return Err(StoreError::Tags { sweep: sweep.to_string(), most: MOST_TAGS });
    }
    Ok(changed.rows_affected() > 0)
}

async fn delete_tag(
    connection: &mut SqliteConnection,
    sweep: &SweepId,
    tag: &SweepTag,
) -> Result<bool, StoreError> {
    let changed =
        sqlx::query("DELETE FROM tag WHERE name = ? AND sweep = (SELECT id FROM sweep WHERE ulid = ?)")
            .bind(tag.as_str())
            .bind(sweep.as_str())
            .execute(connection)
            .await?;
    Ok(changed.rows_affected() > 0)
}

async fn insert_sweep_note(
    connection: &mut SqliteConnection,
    sweep: &SweepId,
    note: &SweepNote,
) -> Result<bool, StoreError> {
    let changed = sqlx::query("UPDATE sweep SET note = ?1 WHERE ulid = ?2 AND note != ?1")
        .bind(note.as_str())
        .bind(sweep.as_str())
        .execute(connection)
        .await?;
    Ok(changed.rows_affected() > 0)
}

/// Marks a sweep as one that was made in another store.
async fn insert_imported(
    connection: &mut SqliteConnection,
    sweep: &SweepId,
    time: i64,
) -> Result<(), StoreError> {
    sqlx::query("UPDATE sweep SET imported_unix = ? WHERE ulid = ?")
        .bind(time)
        .bind(sweep.as_str())
        .execute(connection)
        .await?;
    Ok(())
}

/// Applies what a journal says of its sweep; other entries change nothing. The words may be those of another user, so that they are read
/// as typed ones are.
pub(crate) async fn insert_annotation(
    connection: &mut SqliteConnection,
    sweep: &SweepId,
    entry: &Entry,
) -> Result<(), StoreError> {
    let wrong = |what, error: AnnotationError| StoreError::Value { what, value: error.to_string() };
    let tag = |name: &str| SweepTag::parse(name).map_err(|error| wrong("tag", error));
    match entry {
        Entry::Tag { name, .. } => insert_tag(connection, sweep, &tag(name)?).await.map(drop),
        Entry::Untag { name, .. } => delete_tag(connection, sweep, &tag(name)?).await.map(drop),
        Entry::SweepNote { text, .. } => {
            let note = SweepNote::parse(text).map_err(|error| wrong("note", error))?;
            insert_sweep_note(connection, sweep, &note).await.map(drop)
        }
        Entry::Imported { time } => insert_imported(connection, sweep, *time).await,
        _ => Ok(()),
    }
}
