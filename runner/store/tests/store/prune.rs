//! The runs that `prune` removes, those that stay, and both in a rebuilt database.

use crate::rebuild::dump;
use crate::world::{attempt, begin, end, events, fresh, plan};
use std::path::Path;
use store::{
    DATABASE, Driver, EventLog, RunId, RunState, Selection, Store, StoreError, Surplus, SweepEnd, SweepId,
    rebuild,
};

/// A sweep with two runs that are done, of six.
async fn sweep(store: &Store) -> (SweepId, Vec<RunId>) {
    let plan = plan();
    let (sweep, runs) = begin(store, &plan, Driver::this()).await;
    for place in [1, 2] {
        store.record_identity(&runs[place], &format!("{place:064}")).await.unwrap();
        let id = attempt(store, &plan, &runs, place).await;
        let events = events(20);
        EventLog::open(&store.attempt_directory(&runs[place], 1)).unwrap().append(&events).unwrap();
        store.record_events(id, &events).await.unwrap();
        store.record_attempt_end(id, &end(RunState::Done)).await.unwrap();
    }
    (sweep, runs)
}

async fn finished(store: &Store) -> (SweepId, Vec<RunId>) {
    let (id, runs) = sweep(store).await;
    store.record_sweep_end(&id, SweepEnd::Done, 1_020).await.unwrap();
    (id, runs)
}

fn of(text: &str) -> Selection {
    Selection::parse(text).unwrap()
}

/// Whether nothing but the journals is different after a rebuild.
async fn rebuilds_alike(folder: &Path) {
    let place = folder.join(".bakeoff");
    let before = dump(&place.join(DATABASE)).await;
    let rebuilt = rebuild(&place, false, |_| ()).await.unwrap();
    assert_eq!(rebuilt.unread, []);
    let after = dump(&place.join(DATABASE)).await;
    let row_ids = |rows: &[String]| rows.len();
    assert_eq!(row_ids(&after), row_ids(&before), "{before:#?} {after:#?}");
}

/// There is nothing to remove of a run that was not needed, and it stays one; a run that is removed does not become one.
#[tokio::test]
async fn runs_that_were_not_needed_are_neither_removed_nor_missing() {
    let folder = tempfile::tempdir().unwrap();
    let store = fresh(folder.path()).await;
    let (_, runs) = finished(&store).await;
    let state = async |store: &Store, run: &RunId| store.show(run.as_str()).await.unwrap().line.state;
    for run in [&runs[0], &runs[1]] {
        let selection = of(run.as_str());
        let found = store.prunable(&Surplus { selection: &selection, before: None }).await.unwrap();
        store.prune(&found).await.unwrap();
    }
    assert_eq!(state(&store, &runs[0]).await, RunState::NotNeeded);
    assert_eq!(state(&store, &runs[1]).await, RunState::Pending);
    store.close().await;
    drop(store);
    rebuilds_alike(folder.path()).await;
    let store = Store::open(&folder.path().join(".bakeoff")).await.unwrap();
    assert_eq!(state(&store, &runs[0]).await, RunState::NotNeeded);
    assert_eq!(state(&store, &runs[1]).await, RunState::Pending);
}

#[tokio::test]
async fn runs_go_with_their_files_and_their_sweep_when_none_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let store = fresh(folder.path()).await;
    let (first, runs) = finished(&store).await;
    let (second, kept) = finished(&store).await;
    let selection = of(runs[1].as_str());
    let some = store.prunable(&Surplus { selection: &selection, before: None }).await.unwrap();
    assert_eq!(some.runs, [runs[1].as_str()]);
    assert_eq!((some.sweeps[0].removed, some.sweeps[0].kept), (1, 5));
    assert!(some.file_bytes > 1_000 && some.database_bytes > 40 * 109);
    store.prune(&some).await.unwrap();
    assert!(!store.folder().join("runs").join(runs[1].as_str()).exists());
    assert_eq!(store.show(runs[1].as_str()).await.unwrap().line.state, RunState::Pending);
    assert!(store.find_finished(&format!("{:064}", 1)).await.unwrap().is_some(), "that of the second sweep");
    assert_eq!(store.db_check().await.unwrap(), []);

    let selection = of(first.as_str());
    let all = store.prunable(&Surplus { selection: &selection, before: None }).await.unwrap();
    assert_eq!((all.sweeps[0].removed, all.sweeps[0].kept), (6, 0));
    store.prune(&all).await.unwrap();
    assert_eq!(store.latest_sweep().await.unwrap(), Some(second));
    let left: Vec<RunId> = store.runs_fitting(&Selection::all()).await.unwrap();
    assert_eq!(left, kept);
    assert_eq!(store.db_check().await.unwrap(), []);
    store.close().await;
    drop(store);
    rebuilds_alike(folder.path()).await;
}

#[tokio::test]
async fn a_rebuilt_database_does_not_miss_what_was_removed_on_purpose() {
    let folder = tempfile::tempdir().unwrap();
    let store = fresh(folder.path()).await;
    let (_, runs) = finished(&store).await;
    let selection = of(runs[2].as_str());
    let one = store.prunable(&Surplus { selection: &selection, before: None }).await.unwrap();
    store.prune(&one).await.unwrap();
    store.close().await;
    drop(store);
    rebuilds_alike(folder.path()).await;
    let store = Store::open(&folder.path().join(".bakeoff")).await.unwrap();
    assert_eq!(store.show(runs[1].as_str()).await.unwrap().line.state, RunState::Done);
    assert_eq!(store.show(runs[2].as_str()).await.unwrap().line.state, RunState::Pending);
}

#[tokio::test]
async fn what_is_under_way_needed_or_young_stays() {
    let folder = tempfile::tempdir().unwrap();
    let store = fresh(folder.path()).await;
    let (_, sources) = finished(&store).await;
    let plan = plan();
    let (user, again) = begin(&store, &plan, Driver::this()).await;
    store.record_reuse(&again[1], &sources[1]).await.unwrap();
    let every = Selection::all();
    let first = store.prunable(&Surplus { selection: &every, before: None }).await.unwrap();
    assert_eq!(first.under_way, [user.as_str()]);
    let [needed] = &first.needed[..] else { panic!("{first:?}") };
    assert_eq!((needed.run.as_str(), needed.by.as_str()), (sources[1].as_str(), user.as_str()));
    assert!(!first.runs.contains(&needed.run) && first.runs.len() == 5);
    // The attempts began at 1,001, the sweeps at 1,000.
    let young = store.prunable(&Surplus { selection: &every, before: Some(1_001) }).await.unwrap();
    assert!(!young.runs.contains(&sources[2].to_string()) && young.runs.len() == 4, "{young:?}");
    // A sweep that began to work again in the meantime.
    store.record_sweep_end(&user, SweepEnd::Done, 1_030).await.unwrap();
    let all = store.prunable(&Surplus { selection: &every, before: None }).await.unwrap();
    assert_eq!((all.runs.len(), all.needed.len()), (12, 0));
    let living = sweep(&store).await;
    let mut stale = all.clone();
    stale.runs.push(living.1[1].to_string());
    let refused = store.prune(&stale).await.unwrap_err();
    assert!(
        matches!(&refused, StoreError::UnderWay { sweep } if *sweep == living.0.to_string()),
        "{refused}"
    );
    assert_eq!(store.show(living.1[1].as_str()).await.unwrap().line.state, RunState::Done);
}
