//! Large stores, for the benchmark of the commands that read them.
//!
//! `large FOLDER runs RUNS RANKS STEPS` enters a sweep of two arms, five seeds under each condition, whose runs have ended, into the store
//! `FOLDER/.bakeoff`. `large FOLDER spans COUNT` gives the spans of a run under way to that store, and prints how long it takes:
//!
//! ```text
//! store spans count=1000000 us=5012345.0
//! ```

#![expect(clippy::print_stdout, reason = "this program's answer")]
#![expect(clippy::unwrap_used, reason = "the plan and the events are those of the tests")]
#![expect(dead_code, reason = "of the plan and the events of the tests, some are used")]

#[path = "../tests/store/world.rs"]
mod world;

use recipe::{AxisValue, Cell, Node, Plan, Run, RunSpec};
use record::Event;
use std::path::Path;
use std::time::Instant;
use store::{Driver, EventLog, RunState, Store, SweepEnd};

/// Seeds of each condition.
const REPEATS: u32 = 5;
/// Events that are recorded at once.
const BATCH: usize = 512;
/// Evaluations of a run.
const EVALUATIONS: u64 = 10;

/// Any error that keeps a store from being made.
type Failure = Box<dyn std::error::Error>;

const USAGE: &str = "large FOLDER runs RUNS RANKS STEPS, or large FOLDER spans COUNT";

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        [folder, "runs", runs, ranks, steps] => {
            let store = world::fresh(Path::new(folder)).await;
            enter(&store, &plan(runs.parse()?, ranks.parse()?), steps.parse()?).await
        }
        [folder, "spans", count] => {
            let store = world::fresh(Path::new(folder)).await;
            ingest(&store, count.parse()?).await
        }
        _ => Err(USAGE.into()),
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

async fn enter(store: &Store, plan: &Plan, steps: u64) -> Result<(), Failure> {
    let (sweep, ids) = world::begin(store, plan, Driver::this()).await;
    for (place, run) in plan.runs.iter().enumerate() {
        let id = world::attempt(store, plan, &ids, place).await;
        let ranks = plan.cells[run.cell].spec.cluster.placements.len() as u32;
        let mut log = EventLog::open(&store.attempt_directory(&ids[place], 1))?;
        let evaluated = (steps / EVALUATIONS).max(1);
        for batch in world::seeded_run(place as u64, ranks, steps, evaluated).chunks(BATCH) {
            log.append(batch)?;
            store.record_events(id, batch).await?;
        }
        drop(log);
        store.record_attempt_end(id, &world::end(RunState::Done)).await?;
    }
    store.record_sweep_end(&sweep, SweepEnd::Done, 2_000).await?;
    Ok(())
}

async fn ingest(store: &Store, count: usize) -> Result<(), Failure> {
    let plan = world::plan();
    let (_, ids) = world::begin(store, &plan, Driver::this()).await;
    let id = world::attempt(store, &plan, &ids, 1).await;
    let of_step = |number| (0..2).flat_map(move |rank| world::spans(rank, number));
    let spans: Vec<Event> = (1..).flat_map(of_step).take(count).collect();
    let begin = Instant::now();
    for batch in spans.chunks(BATCH) {
        store.record_events(id, batch).await?;
    }
    println!("store spans count={count} us={:.1}", begin.elapsed().as_secs_f64() * 1e6);
    Ok(())
}
