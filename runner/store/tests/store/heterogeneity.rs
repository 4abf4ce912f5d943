//! Workers that are not equally fast: what an attempt with a straggler comes to.

use crate::world::{attempt, begin, end, fresh, plan, step};
use recipe::{Averaging, Plan, Strategy, Topology};
use record::{Event, Nanos, StepRecord};
use store::{AttemptRow, Driver, RunState, Selection};

/// The plan with another strategy in the cell of its run number 1, which has two workers and a batch of 10.
fn with(strategy: Strategy) -> Plan {
    let mut plan = plan();
    let spec = &mut plan.cells[1].spec;
    spec.strategy = strategy;
    plan.cells[1].config_hash = spec.config_hash();
    plan
}

fn gossip() -> Strategy {
    Strategy::AdPsgd { topology: Topology::Ring, averaging: Averaging::EachStep }
}

/// Ends run number 1 of the plan with these events; answers what is kept of it, which is what was seen before the end.
async fn ended(plan: &Plan, events: &[Event]) -> AttemptRow {
    let folder = tempfile::tempdir().unwrap();
    let store = fresh(folder.path()).await;
    let (_, runs) = begin(&store, plan, Driver::this()).await;
    let id = attempt(&store, plan, &runs, 1).await;
    store.ingest(id, events).await.unwrap();
    let before = store.sweep_rows(&Selection::last()).await.unwrap().runs.remove(1).attempt.unwrap();
    store.end_attempt(id, &end(RunState::Done)).await.unwrap();
    let kept = store.sweep_rows(&Selection::last()).await.unwrap().runs.remove(1).attempt.unwrap();
    assert_eq!((kept.step_time, kept.steps), (before.step_time, before.steps));
    kept
}

/// Rank 0 makes 40 steps of 1 ms, rank 1 four of 10 ms, each with 5 samples.
fn straggling() -> Vec<Event> {
    let fast = (1..=40).map(|number| step(0, number, 1));
    let slow = (1..=4).map(|number| step(1, number, 10));
    let steps = fast.chain(slow).map(|step| StepRecord { samples: 55 * step.step / 10, ..step });
    steps.map(Event::Step).collect()
}

#[tokio::test]
async fn workers_at_their_own_pace_are_as_fast_as_all_of_them_together() {
    // 5 samples per ms and 5 per 10 ms: 10 take 1 / 0.55 ms. The last step that is told ends at 220 samples.
    let own_pace = ended(&with(gossip()), &straggling()).await;
    assert_eq!((own_pace.step_time, own_pace.steps, own_pace.samples), (Some(Nanos(1_818_182)), 22, 220));
    // The same events of workers that step together: as slow as the slower one.
    let together = ended(&with(Strategy::DSync), &straggling()).await;
    assert_eq!((together.step_time, together.steps), (Some(Nanos(10_000_000)), 4));
}
