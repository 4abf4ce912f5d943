//! Tags and notes of sweeps: kept by rebuilds, understood by selections, gone with their sweep.

use crate::rebuild::{dump, history};
use crate::world::{begin, fresh, plan};
use store::{
    DATABASE, Driver, Selection, Store, StoreError, Surplus, SweepId, SweepNote, SweepTag, Tagging, rebuild,
};

fn tag(text: &str) -> SweepTag {
    SweepTag::parse(text).unwrap()
}

async fn fitting(store: &Store, selection: &str) -> Vec<SweepId> {
    let selection = Selection::parse(selection).unwrap();
    match store.sweeps_fitting(&selection).await {
        Ok(found) => found.into_iter().map(|found| found.sweep).collect(),
        Err(StoreError::Empty { .. }) => Vec::new(),
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test]
async fn a_rebuilt_database_has_the_tags_and_the_note_that_were_said_last() {
    let (folder, _) = history().await;
    let place = folder.path().join(".bakeoff");
    let store = Store::open(&place).await.unwrap();
    let all = fitting(&store, "").await;
    let [first, second] = all.as_slice() else { panic!("{all:?}") };
    for name in ["paper-v2", "nightly", "gone"] {
        assert!(store.record_tag(first, &tag(name), Tagging::Give, 5_000).await.unwrap());
    }
    assert!(!store.record_tag(first, &tag("nightly"), Tagging::Give, 5_001).await.unwrap(), "it has it");
    assert!(store.record_tag(first, &tag("gone"), Tagging::Take, 5_002).await.unwrap());
    assert!(!store.record_tag(second, &tag("gone"), Tagging::Take, 5_003).await.unwrap(), "it never had it");
    for text in ["first thought", "after the fix; see #7"] {
        assert!(store.record_sweep_note(first, &SweepNote::parse(text).unwrap(), 5_004).await.unwrap());
    }
    assert_eq!(fitting(&store, "tag=paper-v2").await, std::slice::from_ref(first));
    assert_eq!(fitting(&store, "tag!=paper-v2").await, std::slice::from_ref(second));
    assert_eq!(fitting(&store, "tag=nightly and tag=paper-v2").await, std::slice::from_ref(first));
    assert_eq!(fitting(&store, "tag=gone").await, []);
    let rows = store.sweep_rows(&Selection::parse("tag=nightly").unwrap()).await.unwrap();
    assert_eq!(
        (rows.id.as_str(), rows.annotations.tags.join(" ")),
        (first.as_str(), "nightly paper-v2".to_owned())
    );
    assert_eq!(rows.annotations.note, "after the fix; see #7");
    let lines = store.list(&Selection::all()).await.unwrap();
    assert!(lines.iter().all(|line| line.tags.len() == if line.sweep == first.as_str() { 2 } else { 0 }));
    store.close().await;
    drop(store);
    let before = dump(&place.join(DATABASE)).await;
    let rebuilt = rebuild(&place, false, |_| ()).await.unwrap();
    assert_eq!(rebuilt.unread, []);
    assert_eq!(dump(&place.join(DATABASE)).await, before);
}

#[tokio::test]
async fn a_sweep_has_a_bounded_number_of_tags_which_go_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = fresh(folder.path()).await;
    let (sweep, _) = begin(&store, &plan(), Driver::this()).await;
    for number in 0..20 {
        store.record_tag(&sweep, &tag(&format!("t{number}")), Tagging::Give, 1).await.unwrap();
    }
    let refused = store.record_tag(&sweep, &tag("more"), Tagging::Give, 1).await.unwrap_err();
    assert!(matches!(refused, StoreError::Tags { most: 20, .. }), "{refused}");
    assert_eq!(store.annotations().await.unwrap()[sweep.as_str()].tags.len(), 20);
    store.record_sweep_end(&sweep, store::SweepEnd::Interrupted, 2_000).await.unwrap();
    let selection = Selection::all();
    let prunable = store.prunable(&Surplus { selection: &selection, before: None }).await.unwrap();
    store.prune(&prunable).await.unwrap();
    assert!(store.annotations().await.unwrap().is_empty());
    assert_eq!(store.db_check().await.unwrap(), []);
}
