//! The file itself: its permissions, and files of other programs.

use crate::world::{begin, fresh, plan};
use sqlx::{Connection, SqliteConnection};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use store::{DATABASE, Driver, Selection, Store, StoreError};

fn database(folder: &Path) -> PathBuf {
    folder.join(".bakeoff").join(DATABASE)
}

async fn opening(folder: &Path) -> StoreError {
    Store::open_existing(&folder.join(".bakeoff")).await.unwrap_err()
}

async fn change(folder: &Path, statement: &'static str) {
    let mut connection =
        SqliteConnection::connect(&format!("sqlite:{}", database(folder).display())).await.unwrap();
    sqlx::query(statement).execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
}

#[tokio::test]
async fn only_the_user_may_look_into_a_new_store_and_it_is_sound() {
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(opening(folder.path()).await, StoreError::NoStore { .. }));
    assert!(!folder.path().join(".bakeoff").exists());
    let store = fresh(folder.path()).await;
    let mode = fs::metadata(store.folder()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    let plan = plan();
    begin(&store, &plan, Driver::this()).await;
    assert_eq!(store.db_check().await.unwrap(), []);
    let info = store.db_info().await.unwrap();
    assert_eq!((info.path, info.version), (database(folder.path()), 21));
    assert!(info.bytes > 0);
    assert!(info.counts.contains(&("run".to_owned(), plan.runs.len() as u64)));
    store.close().await;
    let again = Store::open_existing(&folder.path().join(".bakeoff")).await.unwrap();
    assert_eq!(again.runs_fitting(&Selection::all()).await.unwrap().len(), plan.runs.len());
}

#[tokio::test]
async fn two_drivers_may_create_the_store_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let both = tokio::join!(fresh(folder.path()), fresh(folder.path()));
    let plan = plan();
    let (first, second) =
        tokio::join!(begin(&both.0, &plan, Driver::this()), begin(&both.1, &plan, Driver::this()));
    assert_ne!(first.0, second.0);
    assert_eq!(both.0.db_check().await.unwrap(), []);
}

#[tokio::test]
async fn a_later_version_is_left_alone_and_named() {
    let folder = tempfile::tempdir().unwrap();
    fresh(folder.path()).await.close().await;
    change(folder.path(), "PRAGMA user_version = 99").await;
    let before = fs::read(database(folder.path())).unwrap();
    let error = opening(folder.path()).await;
    assert!(matches!(error, StoreError::Newer { found: 99, known: 21, .. }), "{error}");
    assert!(error.to_string().contains("version 99"), "{error}");
    assert_eq!(fs::read(database(folder.path())).unwrap(), before);
}

#[tokio::test]
async fn foreign_files_are_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join(".bakeoff")).unwrap();
    let text = b"dear diary, today I ran a sweep and it went well enough".repeat(20);
    fs::write(database(folder.path()), &text).unwrap();
    assert!(matches!(opening(folder.path()).await, StoreError::Foreign { .. }));
    assert_eq!(fs::read(database(folder.path())).unwrap(), text);

    fs::remove_file(database(folder.path())).unwrap();
    let url = format!("sqlite:{}?mode=rwc", database(folder.path()).display());
    let mut other = SqliteConnection::connect(&url).await.unwrap();
    sqlx::query("CREATE TABLE moz_places (url TEXT)").execute(&mut other).await.unwrap();
    other.close().await.unwrap();
    let before = fs::read(database(folder.path())).unwrap();
    let error = opening(folder.path()).await;
    assert!(matches!(error, StoreError::Foreign { .. }), "{error}");
    assert_eq!(fs::read(database(folder.path())).unwrap(), before);
}

#[tokio::test]
async fn a_damaged_file_is_called_so() {
    let folder = tempfile::tempdir().unwrap();
    let store = fresh(folder.path()).await;
    begin(&store, &plan(), Driver::this()).await;
    store.close().await;
    let whole = fs::read(database(folder.path())).unwrap();

    let mut broken = whole.clone();
    broken[100..4096].fill(0xff);
    fs::write(database(folder.path()), broken).unwrap();
    let error = opening(folder.path()).await;
    assert!(
        matches!(&error, StoreError::Damaged { path, .. } if *path == database(folder.path())),
        "{error}"
    );

    fs::write(database(folder.path()), &whole[..whole.len() / 2]).unwrap();
    match Store::open_existing(&folder.path().join(".bakeoff")).await {
        Err(error) => assert!(matches!(error, StoreError::Damaged { .. }), "{error}"),
        Ok(store) => match store.db_check().await {
            Err(error) => assert!(matches!(error, StoreError::Damaged { .. }), "{error}"),
            Ok(problems) => assert!(!problems.is_empty()),
        },
    }
}

#[tokio::test]
async fn an_empty_file_is_what_a_driver_leaves_that_was_killed_at_once() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join(".bakeoff")).unwrap();
    fs::write(database(folder.path()), []).unwrap();
    let store = fresh(folder.path()).await;
    assert_eq!(store.db_check().await.unwrap(), []);
}

#[tokio::test]
async fn a_changed_migration_and_a_dangling_reference_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let store = fresh(folder.path()).await;
    begin(&store, &plan(), Driver::this()).await;
    change(folder.path(), "UPDATE _sqlx_migrations SET checksum = x'00'").await;
    let problems = store.db_check().await.unwrap();
    assert!(problems[0].text.contains("another form"), "{problems:?}");
    change(folder.path(), "PRAGMA foreign_keys = off; DELETE FROM recipe").await;
    let problems = store.db_check().await.unwrap();
    assert!(problems.iter().any(|problem| problem.check == "reference"), "{problems:?}");
}

/// A task of the crate's that looks for old connections can spin, and then a program does not end.
#[tokio::test]
async fn an_open_store_has_no_task_in_the_background() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).await.unwrap();
    assert_eq!(store.list(&Selection::parse("").unwrap()).await.unwrap().len(), 0);
    let metrics = tokio::runtime::Handle::current().metrics();
    // Connections are returned by tasks that end at once.
    let ended = async {
        while metrics.num_alive_tasks() > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), ended).await.unwrap();
    store.close().await;
}
