//! The losses and the spans that are kept of a long run that has ended, and what happens where the disk is full.

use crate::rebuild::dump;
use crate::rolled_up::{exported, reported, seen};
use crate::world::{end, fresh, long_run, plan, prepared, step};
use recipe::Plan;
use record::{Event, LaneId, Nanos, Phase, Rank, SpanRecord, StepRecord};
use std::collections::BTreeMap;
use std::path::Path;
use store::{DATABASE, EventLog, ExportTable, RunState, Selection, SpanRow, Store, SweepEnd, Value, rebuild};

/// The step at which rank 1 has a spike, and the one at which rank 0 has a loss that is not finite.
const SPIKE: u64 = 40_321;
const NOT_FINITE: u64 = 77_777;

async fn rebuilt_alike(folder: &Path) {
    let place = folder.join(".bakeoff");
    let before = dump(&place.join(DATABASE)).await;
    assert_eq!(rebuild(&place, false, |_| ()).await.unwrap().unread, []);
    assert_eq!(dump(&place.join(DATABASE)).await, before);
}

#[tokio::test]
async fn a_spike_and_a_loss_that_is_not_finite_survive_on_all_ranks() {
    let folder = tempfile::tempdir().unwrap();
    let store = fresh(folder.path()).await;
    let plan = plan();
    let mut events: Vec<Event> = (0..2).map(|rank| Event::Prepared(prepared(rank))).collect();
    for number in 1..=100_000 {
        for rank in 0..2 {
            let loss = match (rank, number) {
                (1, SPIKE) => 1_000.0,
                (0, NOT_FINITE) => f32::NAN,
                _ => 1.0 + 1.0 / number as f32,
            };
            events.push(Event::Step(StepRecord { loss: Some(loss), ..step(rank, number, 1) }));
        }
    }
    let (id, run, sweep) = reported(&store, &plan, &events).await;
    store.record_attempt_end(id, &end(RunState::Done)).await.unwrap();
    store.record_sweep_end(&sweep, SweepEnd::Done, 1_011).await.unwrap();
    let attempt = seen(&store).await;
    assert_eq!(attempt.step_stride, 200);
    let at = |wanted: u64| attempt.losses.iter().find(|row| row.step == wanted).unwrap().loss;
    assert!((at(SPIKE) - 500.5).abs() < 0.01, "the mean of both ranks");
    assert!(at(NOT_FINITE).is_nan());
    assert!(attempt.losses.windows(2).all(|pair| pair[0].step < pair[1].step));
    // 500 by their place, at most two in each of 98 stretches of 1024 steps, and the one that is not finite.
    assert!((502..=500 + 2 * 98 + 1).contains(&attempt.losses.len()), "{}", attempt.losses.len());

    let columns = ExportTable::Steps.columns();
    let column = |name: &str| columns.iter().position(|column| column == name).unwrap();
    let rows = exported(&store, ExportTable::Steps).await;
    let of = |rank: i64, number: u64| {
        let key = [Value::Integer(rank), Value::Integer(number as i64)];
        let row =
            rows.iter().find(|row| row[column("rank")] == key[0] && row[column("step")] == key[1]).unwrap();
        (row[column("loss")].clone(), row[column("is_finite")].clone())
    };
    assert_eq!(of(1, SPIKE), (Value::Real(1_000.0), Value::Integer(1)));
    assert!(matches!(of(0, SPIKE), (Value::Real(loss), _) if loss < 1.1));
    assert_eq!(of(0, NOT_FINITE), (Value::Null, Value::Integer(0)));
    assert!(matches!(of(1, NOT_FINITE), (Value::Real(_), Value::Integer(1))));
    let logged = EventLog::read(&store.attempt_directory(&run, 1)).unwrap();
    let logged = |wanted: u64| {
        let step = |event: &Event| matches!(event, Event::Step(step) if step.step == wanted);
        logged.iter().filter(|event| step(event)).count()
    };
    assert_eq!((logged(SPIKE), logged(NOT_FINITE), logged(SPIKE + 1)), (2, 2, 0));
    store.close().await;
    drop(store);
    rebuilt_alike(folder.path()).await;
}

/// Spans of a step of `rank` in which it is the `n`-th of a ring: as many as an all-reduce of `ranks` has.
fn spans(step: &StepRecord, ranks: u32) -> Vec<Event> {
    let rounds = 2 * (u64::from(ranks) - 1);
    let part = step.length.0 / (4 * rounds + 2);
    let mut begin = step.begin.0;
    let mut spans = Vec::new();
    let mut add = |phase, peer: Option<u32>, bytes, place: u64| {
        let length = part - (step.step * 7_919 + place * 104_729 + u64::from(step.rank.0)) % (part / 8 + 1);
        spans.push(Event::Span(SpanRecord {
            rank: step.rank,
            lane: step.lane,
            step: step.step,
            phase,
            begin: Nanos(begin),
            length: Nanos(length),
            peer: peer.map(Rank),
            bytes,
        }));
        begin += length;
    };
    add(Phase::Forward, None, 0, 0);
    add(Phase::Backward, None, 0, 1);
    let neighbours = [(step.rank.0 + 1) % ranks, (step.rank.0 + ranks - 1) % ranks];
    for round in 0..rounds {
        add(Phase::Send, Some(neighbours[0]), 25_000, 4 * round);
        add(Phase::WaitPeer, Some(neighbours[1]), 0, 4 * round + 1);
        add(Phase::Transfer, Some(neighbours[1]), 25_000, 4 * round + 2);
        add(Phase::Reduce, None, 0, 4 * round + 3);
    }
    spans
}

/// With the spans of the steps of which the defaults of a recipe record them, and a communication lane in the same time, whose
/// steps have other numbers.
pub(crate) fn traced(events: Vec<Event>, ranks: u32) -> Vec<Event> {
    let mut all = Vec::new();
    for event in events {
        let step = if let Event::Step(step) = &event { Some(step.clone()) } else { None };
        all.push(event);
        let Some(step) = step.filter(|step| step.step <= 20 || step.step.is_multiple_of(500)) else {
            continue;
        };
        all.extend(spans(&step, ranks));
    }
    all
}

fn beside(events: Vec<Event>) -> Vec<Event> {
    let mut all = Vec::new();
    for event in events {
        if let Event::Step(step) = &event
            && (step.step <= 20 || step.step.is_multiple_of(500))
        {
            let own =
                StepRecord { lane: LaneId::Communication, step: 3 * step.step, loss: None, ..step.clone() };
            all.push(Event::Span(SpanRecord {
                rank: own.rank,
                lane: own.lane,
                step: own.step,
                phase: Phase::Send,
                begin: own.begin,
                length: own.length,
                peer: None,
                bytes: 9,
            }));
            all.push(Event::Step(own));
        }
        all.push(event);
    }
    all
}

/// The plan with the tracing of a recipe that does not mention it.
pub(crate) fn usual() -> Plan {
    let mut plan = plan();
    let spec = &mut plan.cells[1].spec;
    (spec.measure.trace_first_steps, spec.measure.trace_every) = (20, 500);
    plan.cells[1].config_hash = plan.cells[1].spec.config_hash();
    plan
}

/// Number of spans by lane, step and rank.
async fn counted(store: &Store, run: &store::RunId) -> BTreeMap<(LaneId, u64, Rank), usize> {
    let mut counts = BTreeMap::new();
    let mut trace = store.trace(run).await.unwrap().unwrap();
    loop {
        let spans = trace.next_spans().await.unwrap();
        if spans.is_empty() {
            return counts;
        }
        for span in spans {
            *counts.entry((span.lane, span.step, span.rank)).or_default() += 1;
        }
    }
}

fn steps_of(timeline: &[SpanRow]) -> Vec<u64> {
    let own = timeline.iter().filter(|span| span.lane == LaneId::Compute);
    let steps: std::collections::BTreeSet<u64> = own.map(|span| span.step).collect();
    steps.into_iter().collect()
}

#[tokio::test]
async fn of_many_spans_those_of_a_timelines_steps_stay_whole_and_on_all_ranks() {
    let folder = tempfile::tempdir().unwrap();
    let store = fresh(folder.path()).await;
    let events = beside(traced(long_run(2, 3_000), 60));
    let (id, run, sweep) = reported(&store, &usual(), &events).await;
    let before = store.timeline(&run).await.unwrap();
    let all = counted(&store, &run).await;
    assert_eq!(seen(&store).await.traced_steps, None);
    let transfers = seen(&store).await.transfers;
    store.record_attempt_end(id, &end(RunState::Done)).await.unwrap();
    store.record_sweep_end(&sweep, SweepEnd::Done, 1_011).await.unwrap();
    assert_eq!(store.timeline(&run).await.unwrap(), before);
    let attempt = seen(&store).await;
    assert_eq!((attempt.traced_steps, attempt.transfers), (Some(26), transfers));
    let kept = counted(&store, &run).await;
    let steps = steps_of(&before);
    assert!(steps.len() == 5 && steps[..3] == [1, 2, 3], "{steps:?}");
    let expected: BTreeMap<_, _> = all
        .into_iter()
        .filter(|((lane, step, _), _)| match lane {
            LaneId::Compute => steps.contains(step),
            _ => steps.iter().any(|own| 3 * own == *step),
        })
        .collect();
    assert_eq!(kept, expected);
    assert_eq!(kept[&(LaneId::Compute, 2, Rank(1))], 4 * 118 + 2);
    // The log holds the same spans.
    let logged = EventLog::read(&store.attempt_directory(&run, 1)).unwrap();
    let logged = logged.iter().filter(|event| matches!(event, Event::Span(_))).count();
    assert_eq!(logged, kept.values().sum::<usize>());
    assert_eq!(store.thinned_traces(&Selection::all()).await.unwrap(), 1);
    store.close().await;
    drop(store);
    rebuilt_alike(folder.path()).await;
    // As if the driver had been killed before the packed log took the place of the other.
    let directory = folder.path().join(".bakeoff/runs").join(run.as_str()).join("1");
    std::fs::remove_file(directory.join("events.mpk.gz")).unwrap();
    EventLog::open(&directory).unwrap().append(&events).unwrap();
    rebuilt_alike(folder.path()).await;
}

#[tokio::test]
async fn few_spans_stay_and_so_do_those_that_a_recipe_asks_for() {
    let with = |first_steps, every| {
        let mut plan = usual();
        let measure = &mut plan.cells[1].spec.measure;
        (measure.trace_first_steps, measure.trace_every) = (first_steps, every);
        plan.cells[1].config_hash = plan.cells[1].spec.config_hash();
        plan
    };
    for (plan, ranks) in [(usual(), 9), (with(21, 500), 60), (with(0, 499), 60)] {
        let folder = tempfile::tempdir().unwrap();
        let store = fresh(folder.path()).await;
        let (id, run, _) = reported(&store, &plan, &traced(long_run(2, 3_000), ranks)).await;
        let before = counted(&store, &run).await;
        store.record_attempt_end(id, &end(RunState::Done)).await.unwrap();
        assert_eq!(seen(&store).await.traced_steps, None);
        assert_eq!(counted(&store, &run).await, before);
    }
}
