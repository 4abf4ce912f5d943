//! Large stores, for the benchmark of the commands that read them.
//!
//! `large FOLDER runs RUNS RANKS STEPS` enters a sweep of two arms, five seeds under each condition, whose runs have ended, into the store
//! `FOLDER/.bakeoff`. `large FOLDER spans COUNT` gives the spans of a run under way to that store, and prints how long it takes:
//!
//! ```text
//! store spans count=1000000 us=5012345.0
//! ```

#![expect(clippy::print_stdout, reason = "this program's answer")]
#![expect(clippy::unwrap_used, reason = "a benchmark ends with what goes wrong")]
#![expect(dead_code, reason = "of the plan and the events of the tests, some are used")]

#[path = "../tests/store/world.rs"]
mod world;

use recipe::{AxisValue, Cell, Node, Plan, Run, RunSpec};
use record::{Event, Nanos, Phase, PhaseTimes, Rank, StepRecord};
use std::path::Path;
use std::time::Instant;
use store::{Driver, EventLog, RunState, Store, SweepEnd};

/// Seeds of each condition.
const REPEATS: u32 = 5;
/// Events that are recorded at once.
const BATCH: usize = 512;
/// Evaluations of a run.
const EVALUATIONS: u64 = 10;

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        [folder, "runs", runs, ranks, steps] => {
            let store = world::fresh(Path::new(folder)).await;
            let plan = plan(runs.parse().unwrap(), ranks.parse().unwrap());
            enter(&store, &plan, steps.parse().unwrap()).await;
        }
        [folder, "spans", count] => {
            let store = world::fresh(Path::new(folder)).await;
            ingest(&store, count.parse().unwrap()).await;
        }
        _ => panic!("large FOLDER runs RUNS RANKS STEPS, or large FOLDER spans COUNT"),
    }
}

/// Conditions by a learning rate, each with two arms.
fn plan(runs: usize, ranks: u32) -> Plan {
    let mut plan = world::plan();
    "large".clone_into(&mut plan.name);
    let arms = [plan.cells[0].clone(), plan.cells[3].clone()];
    let conditions = runs / (arms.len() * REPEATS as usize);
    let of_condition = |condition: usize| {
        let rate = 0.001 * (condition + 1) as f64;
        arms.clone().map(|cell| under(cell, &plan, rate, ranks))
    };
    plan.cells = (0..conditions).flat_map(of_condition).collect();
    let cells = plan.cells.len();
    let runs = (0..REPEATS)
        .flat_map(|repeat| (0..cells).map(move |cell| Run { cell, repeat, seed: u64::from(repeat) }));
    plan.runs = runs.collect();
    plan
}

/// An arm under the condition of a learning rate.
fn under(mut cell: Cell, plan: &Plan, rate: f64, ranks: u32) -> Cell {
    let text = format!("{rate:.3}");
    cell.condition = format!("lr={text}");
    cell.label = format!("{} lr={text}", plan.arms[cell.arm].name);
    cell.axes = vec![AxisValue { path: "train.lr".to_owned(), text, number: Some(rate) }];
    cell.spec.cluster = RunSpec::sample_of(cell.spec.strategy.clone(), ranks).cluster;
    cell.spec.cluster.nodes = vec![Node::local(4)];
    cell.spec.train.optimizer.lr = rate as f32;
    cell.config_hash = cell.spec.config_hash();
    cell
}

async fn enter(store: &Store, plan: &Plan, steps: u64) {
    let (sweep, ids) = world::begin(store, plan, Driver::this()).await;
    for (place, run) in plan.runs.iter().enumerate() {
        let id = world::attempt(store, plan, &ids, place).await;
        let ranks = plan.cells[run.cell].spec.cluster.seats.len() as u32;
        let mut log = EventLog::open(&store.attempt_directory(&ids[place], 1)).unwrap();
        for batch in events(place as u64, ranks, steps).chunks(BATCH) {
            log.append(batch).unwrap();
            store.record_events(id, batch).await.unwrap();
        }
        drop(log);
        store.record_attempt_end(id, &world::end(RunState::Done)).await.unwrap();
    }
    store.record_sweep_end(&sweep, SweepEnd::Done, 2_000).await.unwrap();
}

/// What the ranks of a run report: steps of about 10 ms, and evaluations.
fn events(run: u64, ranks: u32, steps: u64) -> Vec<Event> {
    let mut events: Vec<Event> = (0..ranks).map(|rank| Event::Prepared(world::prepared(rank))).collect();
    let mut begin = 0;
    for number in 1..=steps {
        let of_rank = |rank| step(run, Rank(rank), number, Nanos(begin));
        let taken: Vec<StepRecord> = (0..ranks).map(of_rank).collect();
        let longest = taken.iter().map(|step| step.length.0).max().unwrap_or(0);
        events.extend(taken.into_iter().map(Event::Step));
        begin += longest + 1_000;
        if number % (steps / EVALUATIONS).max(1) == 0 {
            let mut metric = world::metric(number, 0.95 * number as f64 / steps as f64);
            metric.at = Nanos(begin);
            events.push(Event::Metric(metric));
        }
    }
    events
}

fn step(run: u64, rank: Rank, number: u64, begin: Nanos) -> StepRecord {
    let typical = [
        (Phase::Data, 200_000),
        (Phase::Forward, 2_000_000),
        (Phase::Backward, 3_500_000),
        (Phase::Send, 150_000),
        (Phase::WaitPeer, 800_000),
        (Phase::Transfer, 1_200_000),
        (Phase::Reduce, 300_000),
        (Phase::Update, 700_000),
        (Phase::Other, 15_000),
    ];
    let mut phases = PhaseTimes::default();
    for (place, (phase, scale)) in (1..).zip(typical) {
        let salt = run * 31 + number * 1_000_003 + u64::from(rank.0) * 7_919 + place;
        let mixed = salt.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
        phases[phase] = Nanos(scale + mixed % (scale / 4 + 1));
    }
    let length = phases.iter().map(|(_, time)| time.0).sum();
    let loss = Some(2.3 / number as f32);
    StepRecord { begin, length: Nanos(length), phases, loss, ..world::step(rank.0, number, 2) }
}

async fn ingest(store: &Store, count: usize) {
    let plan = world::plan();
    let (_, ids) = world::begin(store, &plan, Driver::this()).await;
    let id = world::attempt(store, &plan, &ids, 1).await;
    let of_step = |number| (0..2).flat_map(move |rank| world::spans(rank, number));
    let spans: Vec<Event> = (1..).flat_map(of_step).take(count).collect();
    let begin = Instant::now();
    for batch in spans.chunks(BATCH) {
        store.record_events(id, batch).await.unwrap();
    }
    println!("store spans count={count} us={:.1}", begin.elapsed().as_secs_f64() * 1e6);
}
