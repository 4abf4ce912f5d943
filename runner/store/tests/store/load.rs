//! Large plans and long runs.

use crate::world::{attempt, begin, end, fresh, plan, step};
use recipe::Run;
use record::Event;
use store::{Driver, RunState, Selection};

#[tokio::test]
async fn a_long_loss_curve_is_thinned_and_ends_with_the_last_step() {
    let folder = tempfile::tempdir().unwrap();
    let store = fresh(folder.path()).await;
    let plan = plan();
    let (_, runs) = begin(&store, &plan, Driver::this()).await;
    let id = attempt(&store, &plan, &runs, 1).await;
    let steps = 1_801;
    let events: Vec<Event> =
        (1..=steps).flat_map(|number| [0, 1].map(|rank| Event::Step(step(rank, number, 1)))).collect();
    store.record_events(id, &events).await.unwrap();
    store.record_attempt_end(id, &end(RunState::Done)).await.unwrap();
    let rows = store.sweep_rows(&Selection::last()).await.unwrap();
    let losses = &rows.runs[1].attempt.as_ref().unwrap().losses;
    // Every fourth, and the ends of 113 stretches of sixteen, as the loss falls all the time; two of them are fourth ones.
    assert_eq!(losses.len(), 451 + 2 * 113 - 2);
    assert_eq!(losses.last().unwrap().step, steps);
    assert!(losses.is_sorted_by_key(|row| row.step));
    assert!(losses.iter().all(|row| (row.loss - 1.0 / row.step as f64).abs() < 1e-6));
}

#[tokio::test]
async fn ten_thousand_cells_are_entered_and_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let store = fresh(folder.path()).await;
    let mut plan = plan();
    let first = plan.cells[0].clone();
    plan.cells = (0..10_000)
        .map(|number| {
            let mut cell = first.clone();
            cell.label = format!("cell {number}");
            // Half of them share their configuration with a neighbour.
            cell.spec.train.global_batch = 1 + number / 2;
            cell.config_hash = cell.spec.config_hash();
            cell
        })
        .collect();
    plan.runs = (0..10_000).map(|cell| Run { cell, repeat: 0, seed: cell as u64 }).collect();
    let (sweep, runs) = begin(&store, &plan, Driver::this()).await;
    assert_eq!(runs.len(), 10_000);
    begin(&store, &plan, Driver::this()).await;
    let rows = store.sweep_rows(&Selection::sweep(&sweep)).await.unwrap();
    assert!(rows.plan == plan);
    assert_eq!(rows.runs.len(), 10_000);
    assert_eq!(store.list(&Selection::all()).await.unwrap().len(), 20_000);
}
