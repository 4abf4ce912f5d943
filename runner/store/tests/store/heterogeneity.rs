//! Workers that are not equally fast: what an attempt with a straggler comes to.

use crate::world::{attempt, begin, end, fresh, plan, prepared, step};
use recipe::{Averaging, Extent, Plan, Strategy, Topology};
use record::{Event, LaneId, Nanos, Phase, Rank, SpanRecord, StepRecord};
use store::{AttemptRow, BlockRow, Driver, PaceRow, RunState, Selection, TransferRow};

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

/// Ends run number 1 of the plan with these events; returns the row kept of it, which equals the row before the end.
async fn ended(plan: &Plan, events: &[Event]) -> AttemptRow {
    let folder = tempfile::tempdir().unwrap();
    let store = fresh(folder.path()).await;
    let (_, runs) = begin(&store, plan, Driver::this()).await;
    let id = attempt(&store, plan, &runs, 1).await;
    store.record_events(id, events).await.unwrap();
    let before = store.sweep_rows(&Selection::last()).await.unwrap().runs.remove(1).attempt.unwrap();
    store.record_attempt_end(id, &end(RunState::Done)).await.unwrap();
    let kept = store.sweep_rows(&Selection::last()).await.unwrap().runs.remove(1).attempt.unwrap();
    assert_eq!(kept.mean_step_time, before.mean_step_time);
    assert_eq!((kept.step_time, kept.steps, kept.rounds), (before.step_time, before.steps, before.rounds));
    assert_eq!((&kept.transfers, paces(&kept)), (&before.transfers, paces(&before)));
    assert_eq!(kept.blocks, before.blocks);
    kept
}

fn paces(attempt: &AttemptRow) -> Vec<PaceRow> {
    attempt.ranks.iter().filter_map(|rank| rank.pace).collect()
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
    // 5 samples per ms and 5 per 10 ms: 10 take 1 / 0.55 ms. The last recorded step ends at 220 samples.
    let own_pace = ended(&with(gossip()), &straggling()).await;
    assert_eq!((own_pace.step_time, own_pace.steps, own_pace.samples), (Some(Nanos(1_818_182)), 22, 220));
    assert_eq!(own_pace.mean_step_time, Some(Nanos(1_818_182)));
    // The same events of workers that step together: as slow as the slower one.
    let together = ended(&with(Strategy::DSync), &straggling()).await;
    assert_eq!((together.step_time, together.steps), (Some(Nanos(10_000_000)), 4));
    assert_eq!(together.mean_step_time, Some(Nanos(10_000_000)));
}

/// Of 1000 samples, 0.295 epochs are 29 and a half steps of 10: the thirtieth begins within them. Its steps are those of
/// `d-sync`, however many of all they are.
#[tokio::test]
async fn a_pipelines_step_time_is_not_that_of_its_warm_up() {
    let steps = (1..=40).flat_map(|number| {
        let length = if number <= 30 { 10 } else { 2 };
        [step(0, number, length), step(1, number, length)]
    });
    let ranks = (0..2).map(|rank| Event::Prepared(prepared(rank)));
    let events: Vec<Event> = ranks.chain(steps.map(Event::Step)).collect();
    let pipe = |warmup| Strategy::PipeSgd { depth: 2, warmup: Extent::Epochs(warmup), segments: 1 };
    let attempt = ended(&with(pipe(0.295)), &events).await;
    assert_eq!((attempt.step_time, attempt.steps), (Some(Nanos(2_000_000)), 40));
    // Ten steps are left; three of them are settling in.
    assert_eq!(attempt.ranks.iter().map(|rank| rank.steady.steps).collect::<Vec<_>>(), [7, 7]);
    assert_eq!(attempt.rounds, 7);
    let without = ended(&with(pipe(0.0)), &events).await;
    assert_eq!((without.step_time, without.ranks[0].steady.steps), (Some(Nanos(10_000_000)), 36));
    // Stopped in its warm-up, it has no step of its own.
    let stopped = ended(&with(pipe(0.9)), &events).await;
    assert_eq!((stopped.step_time, stopped.rounds), (None, 0));
}

fn pace(own: u64, last: u64, imposed: u64) -> PaceRow {
    PaceRow { own: Nanos(own), last, imposed: Nanos(imposed) }
}

#[tokio::test]
async fn who_is_last_and_what_the_others_wait_for_it_is_kept() {
    // Half of each step is waiting. Rank 1 is 1.5 ms behind, rank 0 waits 0.5 ms, in 17 steady steps.
    let steps = (1..=20).flat_map(|number| [step(0, number, 1), step(1, number, 4)]);
    let events: Vec<Event> = steps.map(Event::Step).collect();
    let attempt = ended(&with(Strategy::DSync), &events).await;
    assert_eq!(attempt.rounds, 17);
    assert_eq!(paces(&attempt), [pace(500_000, 0, 0), pace(2_000_000, 17, 17 * 500_000)]);
    // Rounds of five steps, of which 6 to 10, 11 to 15 and 16 to 20 are steady.
    let attempt = ended(&with(Strategy::LocalSgd { period: 5 }), &events).await;
    assert_eq!((attempt.rounds, paces(&attempt)[1]), (3, pace(2_000_000, 3, 15 * 500_000)));
    // A server has no pace.
    let mut plan = with(Strategy::PsSync);
    plan.cells[1].spec.cluster.placements.push(recipe::Placement { role: recipe::Role::Server, node: 0 });
    let attempt = ended(&plan, &events).await;
    assert_eq!((attempt.rounds, attempt.ranks.len(), attempt.ranks[2].pace), (17, 3, None));
    assert_eq!(paces(&attempt).len(), 2);
}

#[tokio::test]
async fn workers_that_step_independently_have_no_last_one() {
    // Steps that would be compared, were it d-sync.
    let steps = (1..=20).flat_map(|number| [step(0, number, 1), step(1, number, 4)]);
    let events: Vec<Event> = steps.map(Event::Step).collect();
    let attempt = ended(&with(gossip()), &events).await;
    assert_eq!(attempt.rounds, 0);
    assert_eq!(paces(&attempt), [pace(500_000, 0, 0), pace(2_000_000, 0, 0)]);
}

/// Spans of one step of a lane, one after the other: phase, peer, length, bytes.
fn lane(rank: u32, lane: LaneId, spans: &[(Phase, u32, u64, u64)]) -> Vec<Event> {
    let mut begin = 7;
    let span = |(phase, peer, length, bytes): &(Phase, u32, u64, u64)| {
        let span = SpanRecord {
            rank: Rank(rank),
            lane,
            step: 1,
            phase: *phase,
            begin: Nanos(begin),
            length: Nanos(*length),
            peer: Some(Rank(*peer)),
            bytes: *bytes,
        };
        begin += length;
        Event::Span(span)
    };
    spans.iter().map(span).collect()
}

#[tokio::test]
async fn transfers_count_by_whether_their_beginning_was_seen() {
    use Phase::{Decode, Transfer, WaitPeer};
    let mut events = vec![Event::Step(step(0, 1, 1)), Event::Step(step(1, 1, 1))];
    events.extend(lane(
        0,
        LaneId::Compute,
        &[
            (WaitPeer, 1, 10, 0),
            (Transfer, 1, 300, 5_000),
            // It was there before it was looked for.
            (Decode, 1, 5, 0),
            (Transfer, 1, 2, 7_000),
            // The wait was for another one.
            (WaitPeer, 0, 10, 0),
            (Transfer, 1, 3, 1_024),
            // A note.
            (WaitPeer, 1, 10, 0),
            (Transfer, 1, 900, 1_023),
        ],
    ));
    // Lanes of a rank are distinguished, and a rank that the attempt does not have is ignored.
    let other =
        [(Transfer, 1, 40, 2_000), (WaitPeer, 1, 10, 0), (Transfer, 1, 60, 3_000), (Transfer, 9, 1, 9_000)];
    events.extend(lane(0, LaneId::Communication, &other));
    events.extend(lane(1, LaneId::Compute, &[(WaitPeer, 0, 1, 0), (Transfer, 0, 50, 6_000)]));
    let attempt = ended(&with(Strategy::DSync), &events).await;
    let row = |from, to, [bytes, time, cut_bytes, cut_time]: [u64; 4]| TransferRow {
        from: Rank(from),
        to: Rank(to),
        bytes,
        time: Nanos(time),
        cut_bytes,
        cut_time: Nanos(cut_time),
    };
    assert_eq!(
        attempt.transfers,
        [row(0, 1, [6_000, 50, 0, 0]), row(1, 0, [8_000, 360, 7_000 + 1_024 + 2_000, 2 + 3 + 40])]
    );
}

/// 200 steps of two workers: the slower one's steps get longer half-way.
#[tokio::test]
async fn the_slower_workers_steady_steps_are_kept_in_blocks() {
    let weight = |rank: u32, number: u64| {
        if rank == 0 {
            1
        } else if number <= 110 {
            2
        } else {
            4
        }
    };
    let steps = (1..=200).flat_map(|number| (0..2).map(move |rank| step(rank, number, weight(rank, number))));
    let kept = ended(&with(Strategy::DSync), &steps.map(Event::Step).collect::<Vec<_>>()).await;
    // The first 20 are not steady: 90 of 2 ms and 90 of 4 ms are left.
    let of =
        |milliseconds: u64| move |steps: u64| BlockRow { steps, length: Nanos(milliseconds * 1_000_000) };
    let expected = [22, 23, 22, 23].map(of(2)).into_iter().chain([22, 23, 22, 23].map(of(4)));
    assert_eq!(kept.blocks, expected.collect::<Vec<_>>());
    let own_pace = ended(&with(gossip()), &straggling()).await;
    assert_eq!(own_pace.blocks, [], "forty steps are too few");
}
