//! A store that cannot be written: an archive, or that of another user.

use crate::world::{attempt, begin, end, events, fresh, plan};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use store::{DATABASE, Driver, ExportTable, RunState, Selection, Store, StoreError, SweepEnd};

const FOLDER: &str = "STORE_TEST_ARCHIVE";
/// A user without rights: those of files do not bind the superuser.
const OTHER_USER: u32 = 65_534;

/// In the test's own process nothing; in a child, reads the archive without the right to write it.
#[tokio::test]
async fn child_that_reads() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let folder = PathBuf::from(folder);
    let written = fs::File::create(folder.join("forbidden"));
    assert!(written.is_err(), "the archive can be written, so that nothing would be shown");
    let store = match Store::open_existing(&folder).await {
        Ok(store) => store,
        Err(StoreError::Unmerged { path }) => {
            assert_eq!(path, folder.join(format!("{DATABASE}-wal")));
            println!("unmerged");
            return;
        }
        Err(error) => panic!("{error}"),
    };
    assert!(store.is_read_only());
    let lines = store.list(&Selection::parse("state=done").unwrap()).await.unwrap();
    assert_eq!(lines.len(), 1);
    let rows = store.sweep_rows(&Selection::last()).await.unwrap();
    assert_eq!(rows.runs[1].attempt.as_ref().unwrap().steps, 20);
    let mut steps = store.export(ExportTable::Steps, &Selection::all()).await.unwrap();
    assert_eq!(steps.next_page().await.unwrap().unwrap().len(), 40);
    assert!(store.db_info().await.unwrap().bytes > 0);
    assert_eq!(store.db_check().await.unwrap(), []);
    assert_eq!(store.left_over().await.unwrap(), []);
    let run = store.find_run(&lines[0].id).await.unwrap();
    let refused = store.record_identity(&run, &format!("{:064}", 1)).await.unwrap_err();
    assert!(refused.to_string().contains("readonly"), "{refused}");
    store.close().await;
    println!("read");
}

/// No user may write here; all may read.
fn close(folder: &Path) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        if entry.path().is_dir() {
            close(&entry.path());
        } else {
            fs::set_permissions(entry.path(), fs::Permissions::from_mode(0o444)).unwrap();
        }
    }
    fs::set_permissions(folder, fs::Permissions::from_mode(0o555)).unwrap();
}

/// Output of the child that reads the archive.
fn said(folder: &Path) -> String {
    let root = fs::metadata("/proc/self").unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "archive::child_that_reads", "--nocapture"]).env(FOLDER, folder);
    if std::os::unix::fs::MetadataExt::uid(&root) == 0 {
        child.uid(OTHER_USER).gid(OTHER_USER);
    }
    let output = child.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

/// A store with one run that is done, in a folder that everybody may enter.
async fn filled(folder: &Path) -> (Store, PathBuf) {
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
    let store = fresh(folder).await;
    let plan = plan();
    let (sweep, runs) = begin(&store, &plan, Driver::this()).await;
    let id = attempt(&store, &plan, &runs, 1).await;
    store.record_events(id, &events(20)).await.unwrap();
    store.record_attempt_end(id, &end(RunState::Done)).await.unwrap();
    store.record_sweep_end(&sweep, SweepEnd::Done, 1_011).await.unwrap();
    (store, folder.join(".bakeoff"))
}

#[tokio::test]
async fn an_archive_is_read_with_a_lock_file_and_without_one() {
    let folder = tempfile::tempdir().unwrap();
    let (store, place) = filled(folder.path()).await;
    store.close().await;
    drop(store);
    close(&place);
    assert!(said(&place).contains("read"));
    fs::set_permissions(&place, fs::Permissions::from_mode(0o755)).unwrap();
    for name in ["bakeoff.in-use", "bakeoff.lock", "reserve"] {
        fs::remove_file(place.join(name)).unwrap();
    }
    close(&place);
    let before = fs::read(place.join(DATABASE)).unwrap();
    assert!(said(&place).contains("read"));
    assert_eq!(fs::read(place.join(DATABASE)).unwrap(), before);
    fs::set_permissions(&place, fs::Permissions::from_mode(0o755)).unwrap();
}

#[tokio::test]
async fn a_log_that_was_never_merged_is_read_where_that_can_be_and_else_named() {
    let folder = tempfile::tempdir().unwrap();
    let (store, place) = filled(folder.path()).await;
    // As if the driver had been killed: its log lies beside the database, with the index and without it.
    let copy = folder.path().join("copy");
    fs::create_dir(&copy).unwrap();
    for name in [DATABASE.to_owned(), format!("{DATABASE}-wal"), format!("{DATABASE}-shm")] {
        fs::copy(place.join(&name), copy.join(&name)).unwrap();
    }
    assert!(fs::metadata(copy.join(format!("{DATABASE}-wal"))).unwrap().len() > 0);
    close(&copy);
    assert!(said(&copy).contains("read"));
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).unwrap();
    fs::remove_file(copy.join(format!("{DATABASE}-shm"))).unwrap();
    close(&copy);
    assert!(said(&copy).contains("unmerged"));
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).unwrap();
    store.close().await;
}
