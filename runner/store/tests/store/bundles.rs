//! Bundles between honest stores: the exported sweeps are those imported, each once.

use crate::rebuild::{dump, history};
use crate::world::{attempt, begin, end, plan};
use record::{Event, SnapshotRecord};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use store::{
    BundleError, Bundled, BundledModels, DATABASE, Driver, EventLog, Imported, LeftOut, RunId, RunState,
    Selection, Store, StoreError, Surplus, SweepEnd, SweepNote, SweepStanding, SweepTag, Tagging, import,
    look_at_bundle, rebuild,
};

/// Time at which tests import, in seconds since 1970.
const NOW: i64 = 9_000;

pub(crate) fn place(folder: &Path) -> PathBuf {
    folder.join(".bakeoff")
}

pub(crate) async fn bundled(store: &Store, selection: &str, output: &Path) -> Result<Bundled, BundleError> {
    let selection = Selection::parse(selection).unwrap();
    store.bundle(&selection, BundledModels::None, "0.1.0", output).await
}

pub(crate) async fn imported(folder: &Path, bundle: &Path) -> Result<Imported, BundleError> {
    import(&place(folder), bundle, NOW, |_| ()).await
}

fn standings(imported: &Imported) -> Vec<SweepStanding> {
    imported.sweeps.iter().map(|sweep| sweep.standing).collect()
}

/// The database without what belongs to a store and not to its sweeps.
async fn sweeps_in(folder: &Path) -> Vec<String> {
    let rows = dump(&place(folder).join(DATABASE)).await;
    let own = format!(" {NOW}");
    rows.into_iter()
        .filter(|row| !row.starts_with("report: "))
        .map(|row| if row.starts_with("sweep: ") { row.replace(&own, " NULL") } else { row })
        .collect()
}

#[tokio::test]
async fn an_imported_store_equals_the_one_that_was_exported_and_importing_again_changes_nothing() {
    let (there, _) = history().await;
    let store = Store::open(&place(there.path())).await.unwrap();
    let sweeps = store.sweeps_fitting(&Selection::all()).await.unwrap();
    store.record_tag(&sweeps[1].sweep, &SweepTag::parse("paper").unwrap(), Tagging::Give, 1).await.unwrap();
    store.record_sweep_note(&sweeps[0].sweep, &SweepNote::parse("as it was").unwrap(), 1).await.unwrap();
    let file = there.path().join("all.tar.gz");
    // The last one took a result from the first, which comes along.
    let made = bundled(&store, "last", &file).await.unwrap();
    assert_eq!(made.sweeps.len(), 2);
    assert_eq!(made.sweeps[0].needed_by, [sweeps[1].sweep.to_string()]);
    assert!(made.sweeps[1].needed_by.is_empty() && made.files == 2 + 5, "{made:?}");
    let again = bundled(&store, "last", &there.path().join("again.tar.gz")).await.unwrap();
    assert_eq!(made.sha256, again.sha256, "the same sweeps give the same bytes");
    assert_eq!(fs::read(&file).unwrap(), fs::read(there.path().join("again.tar.gz")).unwrap());
    assert_eq!(made.bytes, fs::metadata(&file).unwrap().len());
    store.close().await;
    drop(store);

    let here = tempfile::tempdir().unwrap();
    let seen = look_at_bundle(&place(here.path()), &file, |_| ()).await.unwrap();
    assert_eq!(standings(&seen), [SweepStanding::New; 2]);
    assert!(!place(here.path()).exists(), "to look creates nothing");
    let first = imported(here.path(), &file).await.unwrap();
    assert_eq!(standings(&first), [SweepStanding::New; 2]);
    assert_eq!(
        (first.sweeps[0].done, first.sweeps[1].done, first.sweeps[0].note.as_str()),
        (2, 1, "as it was")
    );
    assert_eq!(first.sweeps[1].tags, ["paper"]);
    assert_eq!(sweeps_in(here.path()).await, sweeps_in(there.path()).await);
    let before = dump(&place(here.path()).join(DATABASE)).await;
    let second = imported(here.path(), &file).await.unwrap();
    assert_eq!((standings(&second), second.events), (vec![SweepStanding::Here; 2], 0));
    assert_eq!(dump(&place(here.path()).join(DATABASE)).await, before);
    let rebuilt = rebuild(&place(here.path()), false, |_| ()).await.unwrap();
    assert_eq!((rebuilt.sweeps, rebuilt.unread), (2, Vec::new()));
    assert_eq!(dump(&place(here.path()).join(DATABASE)).await, before, "a rebuild keeps what was imported");
    assert!(!place(here.path()).join("import").exists());
    let store = Store::open_existing(&place(here.path())).await.unwrap();
    assert_eq!(store.db_check().await.unwrap(), []);
}

#[tokio::test]
async fn what_users_say_here_does_not_make_a_sweep_another_one() {
    let (there, _) = history().await;
    let file = there.path().join("all.tar.gz");
    let store = Store::open(&place(there.path())).await.unwrap();
    bundled(&store, "", &file).await.unwrap();
    let here = tempfile::tempdir().unwrap();
    imported(here.path(), &file).await.unwrap();
    let own = Store::open(&place(here.path())).await.unwrap();
    let sweeps = own.sweeps_fitting(&Selection::all()).await.unwrap();
    own.record_tag(&sweeps[0].sweep, &SweepTag::parse("mine").unwrap(), Tagging::Give, 1).await.unwrap();
    own.close().await;
    drop(own);
    // Its maker has said something, too.
    store.record_sweep_note(&sweeps[0].sweep, &SweepNote::parse("theirs").unwrap(), 1).await.unwrap();
    bundled(&store, "", &file).await.unwrap();
    assert_eq!(standings(&imported(here.path(), &file).await.unwrap()), [SweepStanding::Here; 2]);
    let own = Store::open_existing(&place(here.path())).await.unwrap();
    let said = own.annotations().await.unwrap();
    let said = &said[sweeps[0].sweep.as_str()];
    assert_eq!((said.tags.join(" "), said.note.as_str(), said.imported), ("mine".to_owned(), "", Some(NOW)));
}

#[tokio::test]
async fn a_result_that_was_measured_elsewhere_is_not_taken_for_one_of_this_machine() {
    let (there, runs) = history().await;
    let identity = format!("{:064}", 7);
    let file = there.path().join("all.tar.gz");
    let store = Store::open(&place(there.path())).await.unwrap();
    assert_eq!(store.find_finished(&identity).await.unwrap().unwrap().run, runs[2]);
    assert_eq!(store.find_imported(&identity).await.unwrap(), None);
    bundled(&store, "", &file).await.unwrap();
    let here = tempfile::tempdir().unwrap();
    imported(here.path(), &file).await.unwrap();
    let own = Store::open(&place(here.path())).await.unwrap();
    assert_eq!(own.find_finished(&identity).await.unwrap(), None);
    assert_eq!(own.find_imported(&identity).await.unwrap(), Some(runs[2].clone()));
    assert!(own.earlier_runs("small").await.unwrap().is_empty());
    assert!(own.ended_early(&identity).await.unwrap().is_empty());
    // A store of imported sweeps has a last one, until one is made here.
    let last = |sweeps: Vec<store::FittingSweep>| sweeps[0].sweep.clone();
    let newest = last(own.sweeps_fitting(&Selection::parse("last").unwrap()).await.unwrap());
    assert_eq!(
        Some(newest),
        own.sweeps_fitting(&Selection::all()).await.unwrap().pop().map(|found| found.sweep)
    );
    assert_eq!(own.latest_sweep().await.unwrap(), None);
    let (made, _) = begin(&own, &plan(), Driver::this()).await;
    assert_eq!(last(own.sweeps_fitting(&Selection::parse("last").unwrap()).await.unwrap()), made);
    assert!(own.runs_fitting(&Selection::parse("last~1").unwrap()).await.unwrap().is_empty());
    let origin = |text: &'static str| Selection::parse(text).unwrap();
    assert_eq!(own.sweeps_fitting(&origin("origin=imported")).await.unwrap().len(), 2);
    assert_eq!(last(own.sweeps_fitting(&origin("not origin=imported")).await.unwrap()), made);
}

#[tokio::test]
async fn an_import_that_was_killed_is_finished_by_the_next_one() {
    let (there, runs) = history().await;
    let file = there.path().join("all.tar.gz");
    let store = Store::open(&place(there.path())).await.unwrap();
    bundled(&store, "", &file).await.unwrap();
    let whole = tempfile::tempdir().unwrap();
    imported(whole.path(), &file).await.unwrap();
    let expected = dump(&place(whole.path()).join(DATABASE)).await;
    // It leaves a folder half unpacked, the directories of runs, and journals that the database does not know yet.
    for journals in [0, 1, 2] {
        let here = tempfile::tempdir().unwrap();
        Store::open(&place(here.path())).await.unwrap().close().await;
        let left = place(here.path()).join("runs");
        fs::create_dir_all(place(here.path()).join("import/runs/half")).unwrap();
        copy(&place(whole.path()).join("runs"), &left, &|path| !path.to_string_lossy().ends_with(".jsonl"));
        let mut names: Vec<_> = fs::read_dir(place(whole.path()).join("runs"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        names.retain(|path| path.extension().is_some());
        names.sort();
        for journal in &names[..journals] {
            fs::copy(journal, left.join(journal.file_name().unwrap())).unwrap();
        }
        assert_eq!(standings(&imported(here.path(), &file).await.unwrap()), [SweepStanding::New; 2]);
        assert_eq!(
            dump(&place(here.path()).join(DATABASE)).await,
            expected,
            "{journals} journals were there"
        );
        assert!(!place(here.path()).join("import").exists());
    }
    // Something else at the same place is not replaced.
    let here = tempfile::tempdir().unwrap();
    Store::open(&place(here.path())).await.unwrap().close().await;
    let other = place(here.path()).join("runs").join(runs[1].as_str()).join("2");
    fs::create_dir_all(&other).unwrap();
    fs::write(other.join(EventLog::NAME), "mine").unwrap();
    let refused = imported(here.path(), &file).await.unwrap_err();
    assert!(matches!(refused, BundleError::Conflict { .. }), "{refused}");
    assert_eq!(fs::read_to_string(other.join(EventLog::NAME)).unwrap(), "mine");
    let store = Store::open_existing(&place(here.path())).await.unwrap();
    assert!(store.list(&Selection::all()).await.unwrap().is_empty());
}

/// Copies the files of a folder that are wanted.
fn copy(from: &Path, to: &Path, wanted: &dyn Fn(&Path) -> bool) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &target, wanted);
        } else if wanted(&path) {
            fs::copy(&path, target).unwrap();
        }
    }
}

#[tokio::test]
async fn a_sweep_that_is_another_one_here_is_refused_with_the_reason() {
    let (there, runs) = history().await;
    let file = there.path().join("all.tar.gz");
    let store = Store::open(&place(there.path())).await.unwrap();
    bundled(&store, "", &file).await.unwrap();
    store.close().await;
    drop(store);
    let here = tempfile::tempdir().unwrap();
    imported(here.path(), &file).await.unwrap();
    // A run of it was removed here.
    let own = Store::open(&place(here.path())).await.unwrap();
    let selection = Selection::run(&runs[2]);
    let prunable = own.prunable(&Surplus { selection: &selection, before: None }).await.unwrap();
    own.prune(&prunable).await.unwrap();
    own.close().await;
    drop(own);
    let before = dump(&place(here.path()).join(DATABASE)).await;
    let refused = imported(here.path(), &file).await.unwrap_err();
    let BundleError::Conflict { reason, .. } = &refused else { panic!("{refused}") };
    assert!(reason.contains("removed here") && reason.contains("db prune"), "{reason}");
    assert_eq!(dump(&place(here.path()).join(DATABASE)).await, before);
    // A log of it was lost here.
    let other = tempfile::tempdir().unwrap();
    imported(other.path(), &file).await.unwrap();
    fs::remove_dir_all(place(other.path()).join("runs").join(runs[1].as_str())).unwrap();
    let refused = imported(other.path(), &file).await.unwrap_err();
    assert!(refused.to_string().contains("is missing or has other content"), "{refused}");
}

#[tokio::test]
async fn what_is_under_way_or_lost_is_not_bundled_and_no_file_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&place(folder.path())).await.unwrap();
    let plan = plan();
    let (sweep, runs) = begin(&store, &plan, Driver::this()).await;
    let id = attempt(&store, &plan, &runs, 1).await;
    let file = folder.path().join("b.tar.gz");
    let refused = bundled(&store, "", &file).await.unwrap_err();
    assert!(matches!(refused, BundleError::Store(StoreError::UnderWay { .. })), "{refused}");
    let directory = store.attempt_directory(&runs[1], 1);
    let mut events = crate::world::events(20);
    let recorded = events.iter().find_map(|event| match event {
        Event::Snapshot(record) => Some(record.clone()),
        _ => None,
    });
    let model = [0; 12];
    events.push(Event::Snapshot(SnapshotRecord {
        file: "snapshots/rank-0-step-20.f32".to_owned(),
        sha256: recipe::hex(&Sha256::digest(model)),
        ..recorded.unwrap()
    }));
    EventLog::open(&directory).unwrap().append(&events).unwrap();
    store.record_events(id, &events).await.unwrap();
    store.record_attempt_end(id, &end(RunState::Done)).await.unwrap();
    store.record_sweep_end(&sweep, SweepEnd::Done, 2_000).await.unwrap();
    // Files that a bundle has no use for lie beside those that it takes.
    fs::create_dir_all(directory.join("snapshots")).unwrap();
    fs::write(directory.join("snapshots/rank-0-step-20.f32"), model).unwrap();
    fs::write(directory.join("rank-0.log"), "token=secret").unwrap();
    let made = bundled(&store, "", &file).await.unwrap();
    assert_eq!((made.files, made.models_left_out), (2, LeftOut { files: 1, bytes: 12 }));
    let whole = store.bundle(&Selection::all(), BundledModels::Kept, "0.1.0", &file).await.unwrap();
    assert_eq!((whole.files, whole.models_left_out), (3, LeftOut::default()));
    let here = tempfile::tempdir().unwrap();
    imported(here.path(), &file).await.unwrap();
    let models = place(here.path()).join("runs").join(runs[1].as_str()).join("1/snapshots");
    assert_eq!(fs::metadata(models.join("rank-0-step-20.f32")).unwrap().len(), 12);
    let names: BTreeSet<_> =
        fs::read_dir(models.parent().unwrap()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(names.iter().all(|name| name != "rank-0.log"), "{names:?}");
    // A bundle without models was there first: they are added.
    fs::remove_dir_all(&models).unwrap();
    assert_eq!(imported(here.path(), &file).await.unwrap().models, 1);
    assert!(models.join("rank-0-step-20.f32").is_file());
    // A model that the run did not record is refused, whether the sweep is here or not, and whatever the manifest says.
    fs::remove_dir_all(&models).unwrap();
    let forged = folder.path().join("forged.tar.gz");
    crate::hostile::with_other_models(&file, &forged);
    for home in [here.path(), tempfile::tempdir().unwrap().path()] {
        let refused = imported(home, &forged).await.unwrap_err();
        assert!(refused.to_string().contains("not the model that its run recorded"), "{refused}");
    }
    assert!(!models.exists());
    fs::remove_file(&forged).unwrap();
    fs::remove_file(&file).unwrap();
    fs::remove_dir_all(&directory).unwrap();
    let lost = bundled(&store, "", &file).await.unwrap_err();
    assert!(
        matches!(&lost, BundleError::Unbundled { .. }) && lost.to_string().contains("db prune"),
        "{lost}"
    );
    let left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, [".bakeoff"], "nothing half written is left");
    let nowhere = bundled(&store, "state=failed", &file).await.unwrap_err();
    assert!(matches!(nowhere, BundleError::Store(StoreError::Empty { .. })), "{nowhere}");
}

#[tokio::test]
async fn an_import_waits_for_no_process_that_has_the_database_open() {
    let (there, _) = history().await;
    let file = there.path().join("all.tar.gz");
    let store = Store::open(&place(there.path())).await.unwrap();
    bundled(&store, "", &file).await.unwrap();
    let here = tempfile::tempdir().unwrap();
    let open = Store::open(&place(here.path())).await.unwrap();
    let refused = imported(here.path(), &file).await.unwrap_err();
    assert!(matches!(refused, BundleError::Store(StoreError::Busy { .. })), "{refused}");
    assert!(!place(here.path()).join("import").exists());
    open.close().await;
    drop(open);
    imported(here.path(), &file).await.unwrap();
}

/// A run of another sweep under the id of one of the bundle's.
#[tokio::test]
async fn ids_of_runs_do_not_collide_silently() {
    let (there, runs) = history().await;
    let file = there.path().join("all.tar.gz");
    let store = Store::open(&place(there.path())).await.unwrap();
    bundled(&store, "", &file).await.unwrap();
    let here = tempfile::tempdir().unwrap();
    let own = Store::open(&place(here.path())).await.unwrap();
    let (_, mine) = begin(&own, &plan(), Driver::this()).await;
    own.close().await;
    drop(own);
    rename_run(here.path(), &mine[0], &runs[0]).await;
    let refused = imported(here.path(), &file).await.unwrap_err();
    let BundleError::Conflict { reason, .. } = &refused else { panic!("{refused}") };
    assert!(reason.contains(runs[0].as_str()) && reason.contains("is one of sweep"), "{reason}");
}

async fn rename_run(folder: &Path, from: &RunId, to: &RunId) {
    use sqlx::Connection;
    let url = format!("sqlite:{}", place(folder).join(DATABASE).display());
    let mut connection = sqlx::SqliteConnection::connect(&url).await.unwrap();
    let rename = sqlx::query("UPDATE run SET ulid = ? WHERE ulid = ?").bind(to.as_str()).bind(from.as_str());
    rename.execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
}
