//! The steps that are kept of a run that has ended.

use crate::rebuild::dump;
use crate::thinned::{traced, usual};
use crate::world::{attempt, begin, end, fresh, long_run, plan};
use recipe::{KeptSteps, Plan};
use record::{Event, LaneId};
use std::path::Path;
use store::{
    DATABASE, Driver, EventLog, ExportTable, RunId, RunState, Selection, Store, SweepEnd, Value, rebuild,
};

/// A run of number 1 of the plan that has reported these events to its log and to the store.
pub(crate) async fn reported(
    store: &Store,
    plan: &Plan,
    events: &[Event],
) -> (store::AttemptId, RunId, store::SweepId) {
    let (sweep, runs) = begin(store, plan, Driver::this()).await;
    let id = attempt(store, plan, &runs, 1).await;
    let mut log = EventLog::open(&store.attempt_directory(&runs[1], 1)).unwrap();
    for batch in events.chunks(512) {
        log.append(batch).unwrap();
        store.record_events(id, batch).await.unwrap();
    }
    (id, runs[1].clone(), sweep)
}

pub(crate) async fn exported(store: &Store, table: ExportTable) -> Vec<Vec<Value>> {
    let mut export = store.export(table, &Selection::all()).await.unwrap();
    let mut rows = Vec::new();
    while let Some(page) = export.next_page().await.unwrap() {
        rows.extend(page);
    }
    rows
}

pub(crate) async fn seen(store: &Store) -> store::AttemptRow {
    store.sweep_rows(&Selection::last()).await.unwrap().runs.remove(1).attempt.unwrap()
}

#[tokio::test]
async fn no_number_changes_when_steps_go_and_a_rebuilt_database_is_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let store = fresh(folder.path()).await;
    let plan = plan();
    let steps = 3_001;
    let events = long_run(2, steps);
    let (id, run, sweep) = reported(&store, &plan, &events).await;
    let before = seen(&store).await;
    assert_eq!(exported(&store, ExportTable::Steps).await.len(), 2 * steps as usize);
    store.record_attempt_end(id, &end(RunState::Done)).await.unwrap();
    store.record_sweep_end(&sweep, SweepEnd::Done, 1_011).await.unwrap();
    let after = seen(&store).await;
    assert_eq!(after.step_stride, 7);
    assert_eq!(
        (after.training, after.step_time, after.mean_step_time),
        (before.training, before.step_time, before.mean_step_time)
    );
    assert_eq!((after.steps, after.samples, after.rounds), (before.steps, before.samples, before.rounds));
    // Those of before, and the extremes between them.
    assert_eq!(before.losses.len(), 429);
    assert!(before.losses.iter().all(|row| after.losses.contains(row)));
    let extremes = after.losses.len() - 429;
    assert!((1..2 * 94).contains(&extremes), "{extremes}");
    for (after, before) in after.ranks.iter().zip(&before.ranks) {
        assert_eq!((&after.phases, after.steady, after.pace), (&before.phases, before.steady, before.pace));
        assert_eq!(
            (after.exposed, after.hidden, after.bytes_out),
            (before.exposed, before.hidden, before.bytes_out)
        );
    }
    // Every seventh of each rank, the extremes, and 64 besides of which some are among them.
    let kept = exported(&store, ExportTable::Steps).await;
    let least = 2 * (429 + extremes);
    assert!((least..least + 2 * 64).contains(&kept.len()), "{}", kept.len());
    assert_eq!(store.sampled_runs(&Selection::all()).await.unwrap(), [7]);
    // Each steady step is counted once for its length.
    let steady = after.ranks[0].steady.steps;
    let column = |row: &[Value], place: usize| row[place].clone();
    let counted: i64 = exported(&store, ExportTable::Histograms)
        .await
        .iter()
        .filter(|row| column(row, 1) == Value::Integer(0) && column(row, 3) == Value::Text("step".to_owned()))
        .map(|row| if let Value::Integer(count) = column(row, 6) { count } else { 0 })
        .sum();
    assert_eq!(counted, steady as i64);

    // The log holds the steps that the database holds.
    let logged = EventLog::read(&store.attempt_directory(&run, 1)).unwrap();
    let steps_logged = logged.iter().filter(|event| matches!(event, Event::Step(_))).count();
    assert_eq!(steps_logged, kept.len());
    assert_eq!(logged.len() - steps_logged, events.len() - 2 * steps as usize);
    store.close().await;
    drop(store);
    let place = folder.path().join(".bakeoff");
    let before = dump(&place.join(DATABASE)).await;
    let rebuilt = rebuild(&place, false, |_| ()).await.unwrap();
    assert_eq!(rebuilt.unread, []);
    assert_eq!(dump(&place.join(DATABASE)).await, before);

    // As if the driver had been killed before the packed log took the place of the other.
    let directory = place.join("runs").join(run.as_str()).join("1");
    std::fs::remove_file(directory.join("events.mpk.gz")).unwrap();
    EventLog::open(&directory).unwrap().append(&events).unwrap();
    assert_eq!(rebuild(&place, false, |_| ()).await.unwrap().unread, []);
    assert_eq!(dump(&place.join(DATABASE)).await, before);
}

#[tokio::test]
async fn a_recipe_may_keep_each_step() {
    let folder = tempfile::tempdir().unwrap();
    let store = fresh(folder.path()).await;
    let mut plan = plan();
    plan.cells[1].spec.measure.steps = KeptSteps::All;
    plan.cells[1].config_hash = plan.cells[1].spec.config_hash();
    let events = long_run(2, 3_001);
    let (id, run, _) = reported(&store, &plan, &events).await;
    store.record_attempt_end(id, &end(RunState::Done)).await.unwrap();
    assert_eq!(seen(&store).await.step_stride, 1);
    assert_eq!(exported(&store, ExportTable::Steps).await.len(), 6_002);
    assert_eq!(EventLog::read(&store.attempt_directory(&run, 1)).unwrap(), events);
    assert!(store.attempt_directory(&run, 1).join("events.mpk.gz").exists(), "it is compressed all the same");
}

#[tokio::test]
async fn lanes_of_an_attempt_that_was_short_keep_all() {
    let folder = tempfile::tempdir().unwrap();
    let store = fresh(folder.path()).await;
    let (id, run, _) = reported(&store, &plan(), &long_run(2, 500)).await;
    store.record_attempt_end(id, &end(RunState::Done)).await.unwrap();
    let kept = exported(&store, ExportTable::Steps).await;
    assert!(kept.len() == 1_000 && kept.iter().all(|row| row[2] == Value::Text(LaneId::Compute.to_string())));
    assert!(store.attempt_directory(&run, 1).join(EventLog::NAME).exists());
}

fn bytes(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).unwrap().map(Result::unwrap);
    entries
        .map(
            |entry| {
                if entry.path().is_dir() { bytes(&entry.path()) } else { entry.metadata().unwrap().len() }
            },
        )
        .sum()
}

/// A measurement, which only runs where it is wanted: `STORE_TEST_MEASURE=1 cargo nextest run --workspace -E
/// 'test(bytes_of_a_long_run)' --no-capture`. Once with no spans, once with those that a recipe records by default.
///
/// Of 16 ranks and 5,000 steps: 1.16 MB in the database and 0.60 MB of files without spans, 1.41 and 0.70 MB with them; 2.51 and
/// 1.05 MB as long as all spans were kept.
#[tokio::test]
async fn bytes_of_a_long_run() {
    if std::env::var_os("STORE_TEST_MEASURE").is_none() {
        println!("not measured: STORE_TEST_MEASURE is not set");
        return;
    }
    let cases = [(16, 5_000, false), (16, 5_000, true), (16, 1_000, true), (8, 1_000, true)];
    for (ranks, steps, spans) in cases {
        let folder = tempfile::tempdir().unwrap();
        let store = fresh(folder.path()).await;
        let mut plan = usual();
        let placements = &mut plan.cells[1].spec.cluster.placements;
        *placements = vec![placements[0].clone(); ranks as usize];
        plan.cells[1].config_hash = plan.cells[1].spec.config_hash();
        let events = long_run(ranks, steps);
        let events = if spans { traced(events, ranks) } else { events };
        let recorded = events.iter().filter(|event| matches!(event, Event::Span(_))).count();
        let mut sizes = Vec::new();
        let runs = 4;
        for _ in 0..runs {
            let (id, _, sweep) = reported(&store, &plan, &events).await;
            let begun = std::time::Instant::now();
            store.record_attempt_end(id, &end(RunState::Done)).await.unwrap();
            let took = begun.elapsed();
            store.record_sweep_end(&sweep, SweepEnd::Done, 1_011).await.unwrap();
            sizes.push((bytes(&store.folder().join("runs")), took));
        }
        store.close().await;
        drop(store);
        let place = folder.path().join(".bakeoff");
        store::compact(&place).await.unwrap();
        let database = std::fs::metadata(place.join(DATABASE)).unwrap().len();
        let log = bytes(&place.join("runs"));
        println!(
            "{ranks} ranks x {steps} steps, {recorded} spans: database {} B and files {} B per run; ends took {:?}",
            database / runs,
            log / runs,
            sizes.iter().map(|(_, took)| took.as_millis()).collect::<Vec<_>>()
        );
    }
}
