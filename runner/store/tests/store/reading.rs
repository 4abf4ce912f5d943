//! Timelines, loss curves, exported tables, and the views for users.

use crate::world::{attempt, begin, end, events, fresh, plan};
use recipe::KeptSteps;
use record::{Event, Nanos, Phase, Rank};
use store::{Driver, ExportTable, RunState, Selection, Store, StoreError, Value};

#[tokio::test]
async fn the_timeline_shows_first_steps_a_typical_one_and_the_worst_step() {
    let folder = tempfile::tempdir().unwrap();
    let store = fresh(folder.path()).await;
    let plan = plan();
    let (_, runs) = begin(&store, &plan, Driver::this()).await;
    assert!(store.timeline(&runs[1]).await.unwrap().is_empty());
    let id = attempt(&store, &plan, &runs, 1).await;
    store.record_events(id, &events(60)).await.unwrap();
    let spans = store.timeline(&runs[1]).await.unwrap();
    let mut steps: Vec<u64> = spans.iter().map(|span| span.step).collect();
    steps.sort_unstable();
    steps.dedup();
    // Traced are 1, 2, 3, 5, 10, ..., 60; all are equally long, and 30 is the
    // sixth of the twelve later ones.
    assert_eq!(steps, [1, 2, 3, 30, 60]);
    let of_first: Vec<_> = spans.iter().filter(|span| span.step == 1 && span.rank == Rank(0)).collect();
    assert_eq!((of_first[0].phase, of_first[0].begin), (Phase::Forward, Nanos(10_000_000)));
    assert_eq!((of_first[1].phase, of_first[1].peer), (Phase::WaitPeer, Some(Rank(1))));
}

#[tokio::test]
async fn a_course_keeps_the_longest_step_of_each_stretch() {
    let folder = tempfile::tempdir().unwrap();
    let store = fresh(folder.path()).await;
    let plan = plan();
    let (_, runs) = begin(&store, &plan, Driver::this()).await;
    assert_eq!(store.course(&runs[1], 10).await.unwrap(), None);
    let id = attempt(&store, &plan, &runs, 1).await;
    let mut recorded = events(5_000);
    // Step 2,500 of rank 0 computes for 9 ms; half of the others is waiting.
    for event in &mut recorded {
        if let Event::Step(step) = event
            && (step.rank, step.step) == (Rank(0), 2_500)
        {
            step.length = Nanos(9_500_000);
            step.phases[Phase::Forward] = Nanos(9_000_000);
        }
    }
    store.record_events(id, &recorded).await.unwrap();
    // Steps 1 to 5,000 begin every 10 ms from 10 ms on; the last is 2 ms long.
    let course = store.course(&runs[1], 10).await.unwrap().unwrap();
    assert_eq!((course.from, course.to), (Nanos(10_000_000), Nanos(50_002_000_000)));
    let [first, second] = &course.workers[..] else { panic!("{course:?}") };
    assert_eq!((first.rank, first.steps, second.rank, second.steps), (Rank(0), 5_000, Rank(1), 5_000));
    assert_eq!((first.longest.step, first.longest.own), (2_500, Nanos(9_000_000)));
    let mut wanted = vec![Some(Nanos(500_000)); 10];
    // It begins at 25 s, and the fifth stretch ends at 25.006 s.
    wanted[4..6].fill(Some(Nanos(9_000_000)));
    assert_eq!(first.stretches, wanted);
    assert_eq!(second.stretches, vec![Some(Nanos(1_000_000)); 10]);
    // Rolled up, the slowest steps are still there.
    store.record_attempt_end(id, &end(RunState::Done)).await.unwrap();
    let rolled_up = store.course(&runs[1], 10).await.unwrap().unwrap();
    assert!(rolled_up.workers[0].steps < 5_000, "{}", rolled_up.workers[0].steps);
    assert_eq!(rolled_up.workers[0].stretches, wanted);
    // Of more stretches than steps, those between two steps are empty.
    let fine = store.course(&runs[1], 100_000).await.unwrap().unwrap();
    assert!(fine.workers[0].stretches.contains(&None) && fine.workers[0].stretches.len() == 100_000);
}

#[tokio::test]
async fn tables_are_exported_page_by_page() {
    let folder = tempfile::tempdir().unwrap();
    let store = fresh(folder.path()).await;
    let mut plan = plan();
    plan.cells[1].spec.measure.steps = KeptSteps::All;
    plan.cells[1].config_hash = plan.cells[1].spec.config_hash();
    let (_, runs) = begin(&store, &plan, Driver::this()).await;
    let id = attempt(&store, &plan, &runs, 1).await;
    store.record_events(id, &events(3_000)).await.unwrap();
    store.record_attempt_end(id, &end(RunState::Done)).await.unwrap();
    let mut counts = Vec::new();
    for table in ExportTable::ALL {
        let rows = exported(&store, table).await;
        assert!(rows.iter().all(|row| row.len() == table.columns().len()), "{table:?}");
        counts.push(rows.len());
    }
    assert_eq!(counts, [plan.runs.len(), 6_000, 300, 4, 2, 6]);
    let steps = exported(&store, ExportTable::Steps).await;
    let columns = ExportTable::Steps.columns();
    let at = |name: &str| columns.iter().position(|column| column == name).unwrap();
    assert_eq!(steps[3][at("wait_peer_ns")], Value::Integer(1_000_000));
    assert_eq!(steps[3][at("lane")], Value::Text("compute".to_owned()));
    assert_eq!(steps[3][at("loss")], Value::Real(0.5));
    let hosts = exported(&store, ExportTable::Hosts).await;
    let columns = ExportTable::Hosts.columns();
    let at = |name: &str| columns.iter().position(|column| column == name).unwrap();
    assert_eq!(hosts[1][at("own_ns")], Value::Integer(32_400_000_000));
    assert_eq!(hosts[1][at("frequency_khz")], Value::Null);
    assert_eq!(hosts[1][at("governor")], Value::Text("schedutil".to_owned()));
    let none = Selection::parse("workers=77").unwrap();
    assert!(matches!(store.export(ExportTable::Runs, &none).await, Err(StoreError::Empty { .. })));
    assert!(matches!(store.sweep_rows(&none).await, Err(StoreError::Empty { .. })));
}

async fn exported(store: &Store, table: ExportTable) -> Vec<Vec<Value>> {
    let mut export = store.export(table, &Selection::all()).await.unwrap();
    let mut rows = Vec::new();
    while let Some(page) = export.next_page().await.unwrap() {
        rows.extend(page);
    }
    rows
}

#[tokio::test]
async fn the_views_for_users_answer() {
    let folder = tempfile::tempdir().unwrap();
    let store = fresh(folder.path()).await;
    let plan = plan();
    let (_, runs) = begin(&store, &plan, Driver::this()).await;
    let id = attempt(&store, &plan, &runs, 1).await;
    store.record_events(id, &events(20)).await.unwrap();
    store.record_attempt_end(id, &end(RunState::Done)).await.unwrap();
    let database =
        sqlx::SqlitePool::connect(&format!("sqlite:{}", store.folder().join(store::DATABASE).display()))
            .await
            .unwrap();
    let flat: (String, i64, f64, f64, f64, f64) = sqlx::query_as(
        "SELECT arm, workers, training_s, step_ms, mean_step_ms, test_accuracy FROM runs_flat WHERE state = 'done'",
    )
    .fetch_one(&database)
    .await
    .unwrap();
    assert_eq!(flat, ("d-sync plain".to_owned(), 2, 0.202, 2.0, 2.0, 0.9));
    let shares: Vec<(i64, String, f64)> =
        sqlx::query_as("SELECT rank, phase, share FROM phase_share ORDER BY rank, phase")
            .fetch_all(&database)
            .await
            .unwrap();
    assert_eq!(shares[0], (0, "forward".to_owned(), 0.5));
    // At step 20 it is 0.9, above 0.8; until 205 ms, two ranks had sent 100 bytes in each of 20 steps.
    let hit: (bool, f64, i64, i64) = sqlx::query_as("SELECT reached, at_s, step, bytes FROM time_to_target")
        .fetch_one(&database)
        .await
        .unwrap();
    assert_eq!(hit, (true, 0.205, 20, 4_000));
    let phases: Vec<(String, String)> =
        sqlx::query_as("SELECT name, category FROM phase ORDER BY id").fetch_all(&database).await.unwrap();
    let expected: Vec<_> = Phase::ALL
        .iter()
        .map(|phase| (phase.name().to_owned(), format!("{:?}", phase.category()).to_lowercase()))
        .collect();
    assert_eq!(phases, expected);
}

#[tokio::test]
async fn the_losses_of_all_attempts_are_read_together() {
    let folder = tempfile::tempdir().unwrap();
    let store = fresh(folder.path()).await;
    let plan = plan();
    let (_, runs) = begin(&store, &plan, Driver::this()).await;
    for (run, steps) in [(1, 20), (2, 1_200)] {
        let id = attempt(&store, &plan, &runs, run).await;
        store.record_events(id, &events(steps)).await.unwrap();
        store.record_attempt_end(id, &end(RunState::Done)).await.unwrap();
    }
    // Two runs that show the same attempt do not count its losses twice.
    store.record_reuse(&runs[3], &runs[1]).await.unwrap();
    store.record_reuse(&runs[4], &runs[1]).await.unwrap();
    let rows = store.sweep_rows(&Selection::last()).await.unwrap();
    let losses = |run: usize| &rows.runs[run].attempt.as_ref().unwrap().losses;
    let steps = |run: usize| losses(run).iter().map(|row| row.step).collect::<Vec<_>>();
    assert_eq!(steps(1), (1..=20).collect::<Vec<_>>());
    // Every third step, counted from the last one, and the ends of stretches of sixteen, as the loss falls all the time.
    let ends = |step: u64| step == 1 || [0, 15].contains(&(step % 16));
    assert_eq!(steps(2), (1..=1_200).filter(|step| step % 3 == 0 || ends(*step)).collect::<Vec<_>>());
    for reused in [3, 4] {
        assert_eq!(losses(reused), losses(1));
    }
    assert!(rows.runs[0].attempt.is_none());
}
